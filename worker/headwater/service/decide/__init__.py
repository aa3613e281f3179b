"""What the worker's main process does next, as pure functions over one table.

    values     the table, what is observed, what is to be done
    observe    observation -> table
    reconcile  table, time -> actions
    report     table -> the status the control loop reads

May import only the pure floor and ``native.messages``.
"""
