"""The user's journey on a cluster: `make e2e-cluster`. Nothing in it assumes a particular one."""
