"""A worker's resources on Kubernetes: its StreamWorker and its Lease, through the API server.

client    one connection: requests, their answers as values or errors
manifests what is written: the status as an apply patch, the Lease as renewed
watch     a thread: has the own StreamWorker changed?
lease     a thread: renews the Lease
status    a thread: writes the status
carrier   the port's implementation, made of these
"""
