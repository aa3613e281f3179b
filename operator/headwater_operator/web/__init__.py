"""The page: one application at a time in a browser, with live values, served from this process.

    drawing     the description of a topology as a graph, pure
    document    a snapshot as JSON values, and what changed between two of them, pure
    samples     numbers of workers as Prometheus' text has them, pure
    measured    rates and sizes on the graph, and a point of each panel of the dashboards, pure
    history     the last hour of every series, pure
    admission   which callers are answered: Host, Origin and token, pure
    scraping    asks workers for their metrics
    cluster     what there is to see on a cluster; on one machine ``local.web``
    watcher     looks at one application once a second, while somebody is interested
    routes      Starlette: the files, the events, the actions
    serving     uvicorn in a thread of its own
    starting    from a command's options to a server
    static/     the page itself: plain modules of JavaScript; ``vendor/`` are built libraries

It may import what reads a snapshot, and nothing that decides or acts. Only ``routes`` imports
starlette, and only ``serving`` uvicorn: the extra ``web`` has them. Who starts it says what there
is to see (``Source``).
"""
