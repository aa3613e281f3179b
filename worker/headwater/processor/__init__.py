"""The data plane: a task's records through its sub-topology, once compiled into nested closures.

    task.py         one StreamTask: buffer -> pipeline -> stores and collector -> offsets to commit
    buffer.py       which record is next; the loops that decode and run
    pipeline.py     a sub-topology becomes one function per source
    compiling.py    an operator becomes lines of a function, by its type
    operators/      the compilers of each family, sources and sinks
    punctuation.py  callbacks by stream time and wall-clock time
    handlers.py     who decides about records that cannot be handled

May import ports, wire, serde, model, config, errors, ids. Effects leave through the ports alone.
"""
