"""The command line: one module per command, each with a ``register`` function."""
