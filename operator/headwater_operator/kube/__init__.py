"""The Kubernetes API as the operator uses it: a small port, its client, and the leader's Lease.

    errors    what the API server can answer, as one tree
    api       the port: resources, and the seven calls that are made
    client    the port over the ``kubernetes`` package
    election  one leader among several operators, and its generation
    caller_tokens  what workers are shown that ask for a token

May import the pure floor of ``headwater``. Only ``client`` imports ``kubernetes``.
"""
