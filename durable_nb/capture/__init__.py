"""What the namespace holds: found, grouped, pickled, proved, and brought back."""
