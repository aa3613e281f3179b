"""A real Kubernetes API for the tests, and nodes whose pods are processes of this machine."""
