"""The operator's process on Kubernetes: kopf brings events in, everything else is ours.

    watching ──► queue ──► reconcile ──► observe, decide, act        one StreamApp at a time
    sweep ─────►   ▲                        │
    leases ────────┴──── again later ◄──────┘

    process    arguments, election, probes, the end            watching  kopf's events ─► keys
    queue      keys, each in one pair of hands at a time       sweep     what no event has told
    leases     signs of life, and the clocks for judging them  metrics   numbers for Prometheus
    reconcile  one round for one StreamApp                     removal   the end of a StreamApp
    problems   what keeps pods and claims from being ready     commands  ``headwater operator``
    namespaces each of the watched ones by itself

kopf is the runtime of the watches and nothing more: no handler of it decides, writes or stores. Its
view of the cluster is never looked at: a deletion that it missed would stay in it for ever.
"""
