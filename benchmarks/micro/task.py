"""What a StreamTask costs per record, without Kafka: batches in memory, the real stores.

    python benchmarks/micro/task.py [records] [name ...]

Prints nanoseconds of CPU time per record, the best of several rounds. What is sent is forgotten.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import TYPE_CHECKING, Any

from headwater import Serdes, StreamsBuilder
from headwater.config import StreamsConfig
from headwater.ids import TaskId, TopicPartition
from headwater.processor.task import StreamTask
from headwater.state import CacheBudget, MemoryBackend, open_store
from headwater.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ports import Headers, OnRefused, RawRecord, Send

BATCH = 2_000
KEYS = 20_000
ROUNDS = 5


WARM_UP: list[RawRecord] = [(i, 0, b"key-%07d" % i, b"warm up", None) for i in range(KEYS)]


class NullCollector:
    """Takes everything and keeps nothing."""

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return a function that does nothing."""
        del topic, on_refused

        def send(
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            pass

        return send

    def partitions(self, topic: str) -> int:
        """Say 4."""
        del topic
        return 4


def task_of(
    draw: Callable[[StreamsBuilder], object], *, subtopology: int, cache: int
) -> StreamTask:
    builder = StreamsBuilder()
    draw(builder)
    topology = builder.build()
    part = topology.subtopologies[subtopology]
    collector = NullCollector()
    budget = CacheBudget(cache)
    stores = {
        spec.name: open_store(
            spec,
            task=TaskId(0, 0),
            changelog_topic="changelog",
            backend=MemoryBackend(),
            cache=budget,
            changelog_send=collector.sender("changelog"),
            key_serde=spec.key_serde or Serdes.string,
            value_serde=spec.value_serde or Serdes.long,
        )
        for spec in part.stores
    }
    task = StreamTask(
        task_id=TaskId(0, 0),
        subtopology=part,
        partitions=[TopicPartition(topic, 0) for topic in part.source_topics],
        config=StreamsConfig(
            application_id="bench", default_key_serde="string", default_value_serde="string"
        ),
        collector=collector,
        stores=stores,
        clock=ManualClock(0),
        topic_name=str,
        warn=print,
    )
    task.initialize()
    task.update_lags(dict.fromkeys(task.partitions, 0))
    return task


def batches(records: int, value: Callable[[int], bytes], *, step: int = 1) -> list[list[RawRecord]]:
    rows: list[RawRecord] = [
        (i, 1_700_000_000_000 + i * step, b"key-%07d" % (i * 7919 % KEYS), value(i), None)
        for i in range(records)
    ]
    return [rows[at : at + BATCH] for at in range(0, records, BATCH)]


def run(task: StreamTask, feeds: list[list[list[RawRecord]]]) -> float:
    """Feed each partition its batches in turn; return CPU seconds, commits not counted.

    A task with stores sees every key once before the clock starts.
    """
    partitions = task.partitions
    if len(partitions) == 1:
        task.add_records(partitions[0], WARM_UP)
        task.process(len(WARM_UP), 0)
    gc.collect()
    gc.freeze()
    started = time.process_time()
    for round_of_batches in zip(*feeds, strict=True):
        for partition, batch in zip(partitions, round_of_batches, strict=True):
            task.add_records(partition, batch)
        task.process(len(partitions) * BATCH, 0)
    spent = time.process_time() - started
    task.prepare_commit()
    task.post_commit({})
    task.close()
    gc.unfreeze()
    return spent


def stateless(builder: StreamsBuilder) -> None:
    builder.stream("in").filter(lambda _k, v: v[0] != "!").map_values(str.upper).to("out")


def count(builder: StreamsBuilder) -> None:
    builder.stream("in").group_by_key().count().to_stream().to("out", value_serde=Serdes.long)


def words(builder: StreamsBuilder) -> None:
    lines = builder.stream("in").flat_map_values(str.split)
    lines.group_by(lambda _k, v: v).count().to_stream().to("out", value_serde=Serdes.long)


def merged(builder: StreamsBuilder) -> None:
    left, right = builder.stream("left"), builder.stream("right")
    left.merge(right).map_values(str.upper).to("out")


def payload(_: int) -> bytes:
    return b"0123456789012345678901234567890123456789"


def line(i: int) -> bytes:
    return b"the quick brown fox %d" % (i % 1000)


def cases(records: int) -> dict[str, tuple[Callable[[], StreamTask], list[Any]]]:
    plain = batches(records, payload)
    lines = batches(records, line)
    wide = batches(records // 2, payload, step=2)
    blocks = batches(records // 2, payload)

    def of(draw: Any, part: int = 0, cache: int = 10 << 20) -> Callable[[], StreamTask]:
        return lambda: task_of(draw, subtopology=part, cache=cache)

    return {
        "stateless filter + map_values": (of(stateless), [plain]),
        "keyed count, 10 MB cache": (of(count), [plain]),
        "keyed count, cache 0": (of(count, cache=0), [plain]),
        "word split (per line of 5)": (of(words), [lines]),
        "word count, counting half": (of(words, part=1), [plain]),
        "two partitions, equal times": (of(merged), [wide, wide]),
        "two partitions, every other record": (
            of(merged),
            [wide, [[(o, t + 1, *rest) for o, t, *rest in b] for b in wide]],
        ),
        "two partitions, one after the other": (
            of(merged),
            [blocks, [[(o, t + BATCH // 2, *rest) for o, t, *rest in b] for b in blocks]],
        ),
    }


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    wanted = sys.argv[2:]
    for name, (make, feeds) in cases(records).items():
        if wanted and not any(word in name for word in wanted):
            continue
        total = sum(len(batch) for feed in feeds for batch in feed)
        best = min(run(make(), feeds) for _ in range(ROUNDS))
        print(f"{name:40} {best / total * 1e9:8.0f} ns/record")


if __name__ == "__main__":
    main()
