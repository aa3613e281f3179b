"""What the worker's main process does next, as pure functions over one table.

    values         the table
    observations   what may be learnt, and ``observe``: observation -> table
    actions        what may be decided, and ``reconcile``: table, time -> actions
    report         table -> the status the control loop reads

May import only the pure floor and ``native.messages``.
"""
