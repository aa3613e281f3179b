"""Carries decisions out on a cluster; decides nothing. It may be killed between any two lines.

    gate     may we still write, and may a test kill us here
    workers  the actions of a decision: StreamWorkers, pods, claims, Leases
    drivers  those about the pod of Spark's driver
    upkeep   what all workers of an application share, finalizer, status, leftovers
    events   Kubernetes Events with the sentence of the reason

Every write is preceded by a look at the clock (who leads no longer writes nothing), and names what
it expects to find: an epoch, a uid, a version, nothing at all. So what was decided from something
older does nothing, and what was carried out before is not done twice.
"""
