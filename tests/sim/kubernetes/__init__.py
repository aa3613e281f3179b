"""The Kubernetes side under one clock: the real operator against models of API server and broker.

    world        API server, volumes, watches, the clock        blocking   code that waits, as steps
    port         the operator's calls: slow, lost, refused      operators  operator processes
    node         machines and their kubelets                    worker     workers in pods
    controllers  scheduler, volumes, garbage collection         chaos      what goes wrong
    laws         what must hold                                 faults     planted mistakes

The operator is the product's: election, Leases, sweep, reconcile, decide and act run as they are.
"""
