"""The DSL: streams and tables drawn on a ``StreamsBuilder``.

May import ``serde``, ``model``, ``errors``; no device.
"""
