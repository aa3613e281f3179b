"""Works of Bytewax, run by the Python of its own virtual environment.

    python bytewax_work.py HOST:PORT INPUT OUTPUT RECORDS stateless|count

One worker, without recovery, which is its fastest; every update of a count is written. Prints one
line of JSON.
"""

from __future__ import annotations

import sys
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from peer_clock import Clock

_BATCH = 2_000
_INPUT = {"queued.min.messages": "100000", "fetch.queue.backoff.ms": "10"}
_OUTPUT = {
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "linger.ms": "20",
    "queue.buffering.max.messages": "200000",
}


def stateless(stream: Any, clock: Clock) -> Any:
    """filter(key does not end in 0), upper case."""

    def passes(message: Any) -> bool:
        clock.note()
        return not message.key.decode().endswith("0")

    def upper(message: Any) -> Any:
        value = message.value.decode().upper().encode()
        return KafkaSinkMessage(message.key, value, timestamp=message.timestamp[1])

    return op.map("upper", op.filter("filter", stream, passes), upper)


def count(stream: Any, clock: Clock) -> Any:
    """How many records each key has had."""

    def keyed(message: Any) -> tuple[str, None]:
        clock.note()
        return message.key.decode(), None

    def add(before: int | None, _value: None) -> tuple[int, int]:
        number = (before or 0) + 1
        return number, number

    def sent(update: tuple[str, int]) -> Any:
        return KafkaSinkMessage(update[0].encode(), update[1].to_bytes(8, "big"))

    counted = op.stateful_map("count", op.map("keyed", stream, keyed), add)
    return op.map("sent", counted, sent)


def main(servers: str, source: str, sink: str, records: int, work: str) -> None:
    clock = Clock()
    flow = Dataflow("bench")
    read = KafkaSource([servers], [source], tail=False, add_config=_INPUT, batch_size=_BATCH)
    made = {"stateless": stateless, "count": count}[work](op.input("read", flow, read), clock)
    op.output("write", made, KafkaSink([servers], sink, add_config=_OUTPUT))
    run_main(flow)
    assert clock.seen == records, f"{clock.seen} records of {records}"
    clock.report(clock.seen)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), sys.argv[5])
