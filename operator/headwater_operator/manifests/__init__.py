"""The Kubernetes objects that the operator makes, from values to JSON: pure.

    names        labels, names and owners of everything
    settings     what was said when the operator was installed
    pod          a worker's pod, as ``headwater.model.podcontract`` wants it
    driver       Spark's driver and executors, as ``headwater.model.drivercontract`` wants them
    parts        what both have in common
    storage      a worker's claim, and what of it may change
    config       the ConfigMap with the StreamApp as one revision of the workers reads it
    access       service accounts, roles and bindings; the disruption budget
    permissions  what the operator itself may do
    worker       StreamWorker and Lease as they are created

May import the pure floor of ``headwater``. Every object carries the labels of its application, so
whatever was made is found again by them, and an owner, so that it goes when the application goes.
"""
