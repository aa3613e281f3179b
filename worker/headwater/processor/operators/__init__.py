"""What each node does: the families of ``model.operators`` as compilers of closures.

``endpoints`` has the sources and sinks, ``pairs`` what users may return for a key and a value.
"""
