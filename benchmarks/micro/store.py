"""What a state store costs, in nanoseconds of this thread's CPU time per record or entry.

    python benchmarks/micro/store.py [--records N] [--keys N] [--rounds N] [--only WORD]

A keyed count with string keys and long values, as the DSL runs it: hits and misses with the record
cache on and off, flush and commit per entry, and the restore of a changelog. The best of some
rounds is printed beside a yardstick of the same moment (a look-up in a dict of as many keys), since
such a loop waits for memory most of the time and other programs share it. Nothing is judged here.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import struct
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.ids import TaskId
from headwater.model.topology import StoreSpec
from headwater.ports import Position, Timestamps
from headwater.serde import Serdes
from headwater.state import (
    BlockCache,
    CacheBudget,
    ChangelogFacts,
    LayeredStore,
    RocksBackend,
    StateDirectory,
    StoreRestorer,
    open_store,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC = "app-counts-changelog"
START_MS = 1_700_000_000_000
CHUNK = 1_000


class Table:
    """Best time of each labelled part over all rounds, in the order of their first appearance."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}

    def note(self, label: str, ns: float) -> None:
        """Keep the better of two times."""
        self.best[label] = min(ns, self.best.get(label, ns))

    @contextmanager
    def part(self, label: str, count: int) -> Iterator[None]:
        """Time what is inside."""
        started = time.thread_time_ns()
        yield
        self.note(label, (time.thread_time_ns() - started) / count)

    def show(self) -> None:
        """Print every part."""
        for label, ns in self.best.items():
            print(f"{label:<64}{ns:>8.0f}")


def feed(table: Table, label: str, update: Callable[..., None], keys: list[str]) -> None:
    """Feed records in chunks whose keys are fresh objects, as if just decoded."""
    took = 0
    timestamp = START_MS
    for start in range(0, len(keys), CHUNK):
        fresh = [(key + "x")[:-1] for key in keys[start : start + CHUNK]]
        started = time.thread_time_ns()
        for key in fresh:
            timestamp += 1
            update(key, "v", timestamp, None)
        took += time.thread_time_ns() - started
    table.note(label, took / len(keys))


@contextmanager
def counting(
    cache_bytes: int, serde: Any, step: Callable[..., Any], initializer: Callable[[], Any]
) -> Iterator[tuple[LayeredStore, Callable[..., None]]]:
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    store = open_store(
        StoreSpec(name="counts"),
        task=TaskId(0, 0),
        changelog_topic=TOPIC,
        backend=RocksBackend(directory / "db", block_cache=BlockCache()),
        cache=CacheBudget(cache_bytes),
        changelog_send=lambda _key, _value, _timestamp, _headers, _partition: None,
        key_serde=Serdes.string,
        value_serde=serde,
    )
    store.on_change(lambda _key, _change, _timestamp, _headers: None, send_old=False)
    yield store, store.updater(step, Timestamps.MAX, initializer)
    store.close()
    shutil.rmtree(directory)


def commit(store: LayeredStore) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(Position("t", 1, 1))


def bench_count(table: Table, name: str, cache: int, keys: list[str], drawn: list[str]) -> None:
    def step(_key: Any, _value: Any, total: int) -> int:
        return total + 1

    with counting(cache, Serdes.long, step, int) as (store, update):
        feed(table, f"{name}: first sight of a key", update, keys)
        feed(table, f"{name}: a key seen since the last commit (hit)", update, drawn)
        with table.part(f"{name}: flush_cache, per entry", len(keys)):
            store.flush_cache()
        with table.part(f"{name}: flush_changelog, per entry", len(keys)):
            store.flush_changelog()
        with table.part(f"{name}: commit, per entry", len(keys)):
            store.commit(Position("t", 1, 1))
        feed(table, f"{name}: first update since the last commit", update, keys)
        commit(store)
        per_commit = max(1, len(drawn) // 10)
        started = time.thread_time_ns()
        for start in range(0, len(drawn), per_commit):
            feed(Table(), "", update, drawn[start : start + per_commit])
            commit(store)
        took = time.thread_time_ns() - started
        label = f"{name}: all of it, a commit per {per_commit} records, per record"
        table.note(label, took / len(drawn))


def bench_json(table: Table, cache: int, keys: list[str], drawn: list[str]) -> None:
    def step(_key: Any, _value: Any, seen: dict[str, int]) -> dict[str, int]:
        seen["n"] = seen.get("n", 0) + 1
        return seen

    with counting(cache, Serdes.json, step, dict) as (_, update):
        feed(table, "JSON aggregate: first sight of a key", update, keys)
        feed(table, "JSON aggregate: hit", update, drawn)


def bench_restore(table: Table, count: int) -> None:
    pack = struct.Struct(">q").pack
    order = list(range(count))
    random.Random(5).shuffle(order)
    batches = [
        [(at, START_MS + at, b"user-%08d" % order[at], pack(at), None) for at in range(start, end)]
        for start in range(0, count, 5_000)
        for end in [min(start + 5_000, count)]
    ]
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    facts = ChangelogFacts(topic_id="t", log_start=0, log_end=count, delete_retention_ms=86_400_000)
    restorer = StoreRestorer(
        StoreSpec(name="counts"),
        StateDirectory(directory, "app").store(TaskId(0, 0), "counts"),
        facts,
        now_ms=START_MS,
        holder="benchmark",
    )
    process = resource.getrusage(resource.RUSAGE_SELF)
    with table.part("restore: apply, per record", count):
        for batch in batches:
            restorer.apply(batch, batch[-1][0] + 1)
    restorer.close()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - process.ru_utime - process.ru_stime
    table.note("restore: CPU of all threads until closed, per record", cpu / count * 1e9)
    shutil.rmtree(directory)


def yardstick(table: Table, keys: list[str], drawn: list[str]) -> None:
    held = {key: [0, START_MS] for key in keys}

    def look_up(key: str, _value: Any, timestamp: int, _headers: Any) -> None:
        entry = held[key]
        entry[0] += 1
        entry[1] = timestamp

    feed(table, "yardstick: count in a dict of lists", look_up, drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="run the parts whose name has this word")
    arguments = parser.parse_args()
    draw = random.Random(7)
    keys = [f"user-{n:08d}" for n in range(arguments.keys)]
    draw.shuffle(keys)
    drawn = draw.choices(keys, k=arguments.records)
    table = Table()
    parts: dict[str, Callable[[], None]] = {
        "yardstick": lambda: yardstick(table, keys, drawn),
        "cache": lambda: bench_count(table, "10 MB cache", 10_485_760, keys, drawn),
        "direct": lambda: bench_count(table, "no cache", 0, keys, drawn),
        "json": lambda: bench_json(table, 10_485_760, keys[:10_000], drawn[:50_000]),
        "restore": lambda: bench_restore(table, arguments.records),
    }
    for _ in range(arguments.rounds):
        for name, run in parts.items():
            if arguments.only in name:
                run()
    table.show()


if __name__ == "__main__":
    main()
