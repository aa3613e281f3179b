"""What windows and joins cost per record, without Kafka: batches in memory, stores in RocksDB.

    python benchmarks/micro/windows.py [--records N] [--rounds N] [--commit-every N] [--profile]
                                       [word ...]

The works of ``benchmarks/works.py``, alone or with as many keys, or as many records a key within a
second, as the name says. Changelogs are flushed and stores committed after some records, as a
StreamThread does. Prints nanoseconds of CPU time per record, commits included, the best of some
rounds. What leaves the tasks is forgotten, unless another task reads it.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import works
from benchmarks.keys import Step, growing

from headwater import Serdes, StreamsBuilder
from headwater.config import StreamsConfig
from headwater.ids import TaskId, TopicPartition
from headwater.processor.task import StreamTask
from headwater.serde.base import Serde
from headwater.state import BlockCache, CacheBudget, StateDirectory, open_backend, open_store
from headwater.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.ports import Headers, OnRefused, RawRecord, Send

BATCH: Final = 2_000
FLUSH_EVERY: Final = 20_000
COMMIT_EVERY: Final = 100_000
START_MS: Final = 1_700_000_000_000
CACHE: Final = 10 << 20


class Collector:
    """Keeps what some task reads, and forgets the rest."""

    def __init__(self, read: frozenset[str]) -> None:
        self._read = read
        self.sent: dict[str, list[RawRecord]] = defaultdict(list)

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return what takes records for a topic."""
        del on_refused
        kept = self.sent[topic]

        def keep(key: Any, value: Any, timestamp: int, headers: Headers, _partition: Any) -> None:
            kept.append((len(kept), timestamp, key, value, headers))

        def forget(key: Any, value: Any, timestamp: int, headers: Headers, _partition: Any) -> None:
            del key, value, timestamp, headers

        return keep if topic in self._read else forget

    def partitions(self, topic: str) -> int:
        """Say 1."""
        del topic
        return 1


class Application:
    """All tasks of one partition of a work, in one thread."""

    def __init__(self, work: str, cache: int, directory: str, commit_every: int) -> None:
        builder = StreamsBuilder()
        getattr(works, work)(builder)
        topology = builder.build()
        parts = topology.subtopologies
        self._collector = Collector(frozenset(t for part in parts for t in part.source_topics))
        self._state = StateDirectory(Path(directory), "app")
        self._blocks, self._budget = BlockCache(), CacheBudget(cache)
        self._stores: list[Any] = []
        self.tasks = [self._task(part) for part in parts]
        self._reader = {tp.topic: (task, tp) for task in self.tasks for tp in task.partitions}
        self._commit_every = commit_every
        self._unflushed = self._uncommitted = 0

    def _task(self, part: Any) -> StreamTask:
        task_id = TaskId(part.id, 0)
        stores = {}
        for spec in part.stores:
            topic = f"app-{spec.name}-changelog"
            stores[spec.name] = open_store(
                spec,
                task=task_id,
                changelog_topic=topic,
                backend=open_backend(
                    spec,
                    self._state.store(task_id, spec.name) if spec.persistent else None,
                    holder="benchmark",
                    block_cache=self._blocks,
                ),
                cache=self._budget,
                changelog_send=self._collector.sender(topic),
                key_serde=spec.key_serde if isinstance(spec.key_serde, Serde) else Serdes.string,
                value_serde=spec.value_serde or Serdes.long,
            )
        self._stores += stores.values()
        task = StreamTask(
            task_id=task_id,
            subtopology=part,
            partitions=[TopicPartition(topic, 0) for topic in part.source_topics],
            config=StreamsConfig(
                application_id="app", default_key_serde="string", default_value_serde="string"
            ),
            collector=self._collector,
            stores=stores,
            clock=ManualClock(0),
            topic_name=str,
            warn=print,
        )
        task.initialize()
        task.update_lags(dict.fromkeys(task.partitions, 0))
        return task

    def feed(self, feed: Any) -> None:
        """Process batches, and what they make for other tasks of the application."""
        for topic, batch in feed:
            self._take(topic, batch)
            self._rest()
            self._unflushed += len(batch)
            self._uncommitted += len(batch)
            if self._uncommitted >= self._commit_every:
                self.commit()
            elif self._unflushed >= FLUSH_EVERY:
                self._unflushed = 0
                for store in self._stores:
                    store.flush_changelog()

    def _take(self, topic: str, batch: list[RawRecord]) -> None:
        task, partition = self._reader[topic]
        task.add_records(partition, batch)
        while task.process(BATCH, 0):
            pass

    def _rest(self) -> None:
        while waiting := [topic for topic, sent in self._collector.sent.items() if sent]:
            for topic in waiting:
                sent = self._collector.sent[topic]
                batch = list(sent)
                sent.clear()
                self._take(topic, batch)

    def commit(self) -> None:
        """Commit all tasks."""
        self._unflushed = self._uncommitted = 0
        for task in self.tasks:
            task.prepare_commit()
        self._rest()
        for task in self.tasks:
            task.prepare_commit()
            task.post_commit({})

    def close(self) -> None:
        """Close all tasks."""
        for task in self.tasks:
            task.close()


def drawn(records: int, keys: int, *, step: int = 1) -> Iterator[RawRecord]:
    """Records of keys at random, a millisecond after each other."""
    draw = random.Random(7)
    for n in range(records):
        key = b"key-%06d" % draw.randrange(keys)
        yield n, START_MS + n * step, key, b"0123456789-value-%023d" % n, None


def batches(topic: str, records: Iterator[RawRecord]) -> Any:
    rows = list(records)
    return [(topic, rows[at : at + BATCH]) for at in range(0, len(rows), BATCH)]


def alternating(*feeds: Any) -> Any:
    return [one for together in zip(*feeds, strict=True) for one in together]


def table(keys: int) -> Any:
    rows = ((n, START_MS - keys + n, b"key-%06d" % n, b"row-%036d" % n, None) for n in range(keys))
    return batches(works.INPUT + works.OTHER, rows)


def cases(records: int) -> dict[str, tuple[str, int, Any, Any]]:
    """Work, cache, what is fed before the clock starts, what is fed then; by name."""
    found: dict[str, tuple[str, int, Any, Any]] = {}
    one = partial(batches, works.INPUT)
    for label, cache in (("10 MB", CACHE), ("cache 0", 0)):
        for work in ("tumbling", "hopping", "sliding", "session"):
            for keys in (10_000, 100_000, 1_000_000):
                found[f"{work} {keys} keys, {label}"] = (
                    work, cache, partial(held, keys, 0), partial(held, keys, records),
                )  # fmt: skip
        for work in ("sliding", "session"):
            for within in (10, 100, 1_000):
                few = max(2_000, records // within)
                feed = partial(lambda n, k: one(drawn(n, k)), few, 1_000 // within)
                name = f"{work} {within} records a key, {label}"
                found[name] = work, cache, list, feed
        for work in ("tumbling", "hopping", "sliding", "session", "suppress"):
            found[f"{work}, {label}"] = (
                work,
                cache,
                list,
                lambda: one(drawn(records, 2_500, step=4)),
            )
        found[f"table_join, {label}"] = (
            "table_join", cache, lambda: table(100_000),
            lambda: one(drawn(records, 100_000)),
        )  # fmt: skip
        found[f"foreign_join, {label}"] = (
            "foreign_join", cache, lambda: table(2_500),
            lambda: one(foreign(records, 2_500)),
        )  # fmt: skip
    found["pairs"] = "pairs", 0, list, lambda: one(drawn(records, 2_500, step=4))
    found["stream_join"] = "stream_join", 0, list, lambda: both(records // 2, 2_500)
    for keys in (10_000, 100_000, 1_000_000):
        found[f"stream_join {keys} keys"] = (
            "stream_join", 0, partial(held_by_two, keys, 0), partial(held_by_two, keys, records),
        )  # fmt: skip
    found["versioned_join"] = (
        "versioned_join", 0, lambda: table(100_000),
        lambda: both(records // 2, 100_000),
    )  # fmt: skip
    return found


def held(keys: int, records: int) -> Any:
    """Records of ``benchmarks.keys``: one for each key, or those that follow them."""
    return batches(works.INPUT, _growing(keys, records))


def held_by_two(keys: int, records: int) -> Any:
    """The same in turn to two topics."""
    rows = list(_growing(keys, records))
    return alternating(
        batches(works.INPUT, iter(rows[::2])),
        batches(works.INPUT + works.OTHER, iter(rows[1::2])),
    )


def _growing(keys: int, records: int) -> Iterator[RawRecord]:
    rows = growing([Step(keys, keys, records)])
    found = (
        (n, START_MS + at, b"key-%07d" % key, b"0123456789-value-%023d" % n, None)
        for n, (key, at) in enumerate(rows)
    )
    return islice(found, keys if records else 0, None)


def foreign(records: int, keys: int) -> Iterator[RawRecord]:
    draw = random.Random(7)
    for n in range(records):
        yield n, START_MS + n, b"row-%08d" % n, b"key-%06d-%029d" % (draw.randrange(keys), n), None


def both(records: int, keys: int) -> Any:
    left = batches(works.INPUT, drawn(records, keys, step=8))
    return alternating(left, batches(works.INPUT + works.OTHER, drawn(records, keys, step=8)))


def measure(
    case: tuple[str, int, Any, Any],
    profile: cProfile.Profile | None,
    commit_every: int = COMMIT_EVERY,
) -> float:
    """Return the nanoseconds of CPU time per record of one round."""
    work, cache, before, feed = case
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        application = Application(work, cache, directory, commit_every)
        application.feed(before())
        application.commit()
        fed = feed()
        records = sum(len(batch) for _, batch in fed)
        gc.collect()
        gc.freeze()
        if profile is not None:
            profile.enable()
        started = time.thread_time_ns()
        application.feed(fed)
        application.commit()
        spent = time.thread_time_ns() - started
        if profile is not None:
            profile.disable()
        application.close()
        gc.unfreeze()
    return spent / records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit-every", type=int, default=COMMIT_EVERY, metavar="RECORDS")
    parser.add_argument("--profile", action="store_true", help="also where the time goes")
    parser.add_argument("words", nargs="*", help="only cases whose names hold one of them")
    options = parser.parse_args()
    for name, case in cases(options.records).items():
        if options.words and not any(word in name for word in options.words):
            continue
        profile = cProfile.Profile() if options.profile else None
        best = min(measure(case, profile, options.commit_every) for _ in range(options.rounds))
        print(f"{name:40} {best:10,.0f} ns/record", flush=True)
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
