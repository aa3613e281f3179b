"""A kubelet for tests: nodes whose pods are processes of this machine, without containers.

    cluster      several nodes, a provisioner and a table of images; dies with its owner
    node         one kubelet: Node, Lease, the pods that are bound to it, faults of a machine
    pod          the life of one pod: volumes, containers, restarts, end
    container    the life of one container: its runs, probes and state
    status       what is reported of a pod; pure
    environment  command and variables of a container; pure
    volumes      directories and files of a pod
    storage      a provisioner: a directory for every claim
    network      addresses of a machine and its pods
    serving      the logs of containers, for the API server
    probes       whether a container answers
    runs         a process with all its descendants
    shim         stands between a kubelet and that process

What runs is real: scheduling, rights, tokens, files, signals, exit codes, a network that leads
nowhere else. What a container would add is not there: root file system, user, limits of memory and
CPU.
"""
