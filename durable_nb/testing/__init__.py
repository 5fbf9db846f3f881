"""Public fakes and oracles for tests: a simulated disk, a clock by hand, real kernels, invariants."""
