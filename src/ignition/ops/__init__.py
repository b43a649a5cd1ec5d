"""One folder per operation: what it means (numpy), its kernels, how near they must come."""
