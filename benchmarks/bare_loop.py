"""The bare confluent-kafka loop: filter and upper case, nothing around it. Prints a line of JSON.

    python -m benchmarks.bare_loop HOST:PORT INPUT OUTPUT RECORDS

The client settings are those of a StreamThread; offsets are committed at the end.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.inputs import PARTITIONS

_BATCH = 2_000


def main(servers: str, source: str, sink: str, records: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bare-{time.time_ns()}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 32 * 1024,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(source, number, 0) for number in range(PARTITIONS)])
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 64 * 1024,
            "delivery.report.only.error": True,
        }
    )
    seen = 0
    started = cpu = 0.0
    offsets: dict[int, int] = {}
    while seen < records:
        messages = consumer.consume(_BATCH, 0.1)
        if not seen and messages:
            started, cpu = time.perf_counter(), time.process_time()
        for message in messages:
            key = message.key().decode()
            offsets[message.partition()] = message.offset() + 1
            if key.endswith("0"):
                continue
            value = message.value().decode().upper()
            while True:
                try:
                    producer.produce(
                        sink, value.encode(), key.encode(), timestamp=message.timestamp()[1]
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
        seen += len(messages)
    producer.flush()
    positions = [TopicPartition(source, number, offset) for number, offset in offsets.items()]
    consumer.commit(offsets=positions, asynchronous=False)
    result = {
        "records": seen,
        "seconds_closed": round(time.perf_counter() - started, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
    }
    consumer.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
