"""Works of Pathway, run by the Python of its own virtual environment.

    python pathway_work.py HOST:PORT INPUT OUTPUT RECORDS stateless|count

One thread, static mode, which reads what is there and ends; of a count it writes the last value of
each key, as text. Expressions are Pathway's own wherever it has them. Prints one line of JSON.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pathway as pw

from peer_clock import Clock

_OUTPUT = {"linger.ms": "20", "enable.idempotence": "true", "partitioner": "murmur2_random"}


def stateless(lines: Any) -> Any:
    """filter(key does not end in 0), upper case."""
    passed = lines.filter(~lines.key.str.endswith("0"))
    return passed.select(key=passed.key, value=passed.data.str.upper())


def count(lines: Any) -> Any:
    """How many records each key has had."""
    counted = lines.groupby(lines.key).reduce(lines.key, number=pw.reducers.count())
    return counted.select(key=counted.key, value=pw.cast(str, counted.number))


def main(servers: str, source: str, sink: str, records: int, work: str) -> None:
    settings = {"bootstrap.servers": servers, "group.id": f"pathway-{time.time_ns()}"}
    lines = pw.io.kafka.read(
        {**settings, "auto.offset.reset": "earliest"},
        topic=source,
        format="plaintext",
        mode="static",
        autogenerate_key=True,
    )
    made = {"stateless": stateless, "count": count}[work](lines)
    pw.io.kafka.write(
        made, {**settings, **_OUTPUT}, sink, format="plaintext", key=made.key, value=made.value
    )
    clock = Clock()
    clock.start()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    clock.report(records)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), sys.argv[5])
