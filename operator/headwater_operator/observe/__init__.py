"""Reads one application from the API server; decides nothing.

    snapshot  one live look: StreamApp, StreamWorkers, Leases, pods, claims ─► values
    pods      what a pod's status says about the process in it
    nodes     labels of the node that a pod runs on
    leases    a Lease ─► the worker's sign of life
    numbers   what workers serve by HTTP
    lags      which of them are asked for exact lags, and when

The rest of the operator sees values, not manifests.
"""
