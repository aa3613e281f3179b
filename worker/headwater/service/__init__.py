"""One worker: supervises its processes, talks with the control loop, does duties, serves HTTP.

The main process does nothing per record. ``worker`` observes (spec, Lease, children), ``decide``
says what to do (pure), ``worker`` does it. ``streams`` embeds the same worker in any program.
"""
