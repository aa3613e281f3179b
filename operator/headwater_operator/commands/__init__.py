"""The commands of people: the words of ``kubectl headwater``, and the same words of ``headwater``.

``kubectl headwater`` is about the cluster of the kubeconfig, ``headwater`` about the applications
of this machine unless an option names a cluster (``local.on_cluster``). What a command shows are
the values of ``overview``.
"""
