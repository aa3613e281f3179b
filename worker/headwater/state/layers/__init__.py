"""What is written and not committed, above a backend; the same for every kind of store.

updaters   read, step, write and forward as one function per node
cache      ``RecordCache``: what is not forwarded yet
writeback  ``WriteBack``: what is not committed yet
scan       rows in the order of their keys, over all of them
"""
