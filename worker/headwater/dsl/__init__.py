"""The DSL: streams and tables drawn on a ``StreamsBuilder``, a module for each family of operators.

May import ``serde``, ``model``, ``errors``; no device.
"""
