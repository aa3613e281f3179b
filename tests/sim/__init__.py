"""The whole protocol on one thread: model broker, model processes, the real decisions, one seed."""
