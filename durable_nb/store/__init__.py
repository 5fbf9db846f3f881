"""What is on disk: chunks, manifests, the journal, the lease and the order in which they become true."""
