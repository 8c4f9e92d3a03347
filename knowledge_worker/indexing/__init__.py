"""One pass, step by step: the lease is kept, the sources are compared, what changed is embedded."""
