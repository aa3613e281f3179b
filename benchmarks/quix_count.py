"""The keyed count of quixstreams, run by the Python of its own virtual environment.

    python quix_count.py HOST:PORT INPUT OUTPUT RECORDS STATE_DIR

It emits every update, as quixstreams does. Prints one line of JSON. The clock beside it
is all it imports here: quixstreams wants an older confluent-kafka.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from quixstreams import Application

from peer_clock import Clock


def main(servers: str, source: str, sink: str, records: int, state_dir: str) -> None:
    application = Application(
        broker_address=servers,
        consumer_group=f"quix-{time.time_ns()}",
        auto_offset_reset="earliest",
        commit_interval=30.0,
        state_dir=state_dir,
        producer_extra_config={"linger.ms": 20, "partitioner": "murmur2_random"},
        auto_create_topics=True,
        loglevel="ERROR",
    )
    clock = Clock()

    def count(_value: str, state: Any) -> int:
        clock.note()
        if clock.seen == records:
            application.stop()
        number = int(state.get("count", 0)) + 1
        state.set("count", number)
        return number

    lines = application.topic(source, key_deserializer="string", value_deserializer="string")
    counts = application.topic(sink, key_serializer="string", value_serializer="int")
    frame = application.dataframe(lines)
    frame = frame.apply(count, stateful=True)
    frame.to_topic(counts)
    application.run()
    clock.report(clock.seen)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), sys.argv[5])
