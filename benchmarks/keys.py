"""What a record costs by how much is held: counts, windows and joins beside Java Kafka Streams.

    python -m benchmarks.keys [--rows tumbling ...] [--runs 3] [--quick] [--patience 600]
    python -m benchmarks.keys --page

Each run goes through all steps of its row: it fills the stores until so many keys are held, then
measured records of keys at random follow, then the stores are filled up for the next step. Time
and CPU time are noted at the beginning and the end of each measured part. Here and in Java a record
is followed by as many others of its key within a second at each step: with more keys records are
closer together. Everything is committed ten times a second: each part has its share of commits.

Rows of one work with as many keys run in turn, so that those with a record cache can be compared
with those without.

The page is ``benchmarks/KEYS.md``. ``--page`` writes it from the runs that are known, and
``--quick`` makes one round of the first two steps and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks import inputs, report, systems
from benchmarks.machine import Surroundings, wait_until_quiet
from benchmarks.works import OTHER
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.inputs import Entry

RAW: Final = report.HERE / "keys.json"
PAGE: Final = report.HERE / "KEYS.md"
WARM_UP: Final = 50_000
"""Records before the first step that nobody measures: Java's compiler is at work then."""
MEASURED: Final = 100_000
_BASE: Final = 10_000
"""With so many keys there is a record a millisecond."""
_SETTINGS: Final = {"commit.interval.ms": "100"}
_SEED: Final = 7
_APART_MS: Final = 20_000
_WAIT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Step:
    """So much is held; so many records go before, so many are measured."""

    held: int
    before: int
    measured: int


@dataclass(frozen=True, slots=True)
class Row:
    """One work on a growing amount of state."""

    title: str
    work: str
    steps: tuple[Step, ...]
    unit: str
    cache: int = 0

    @property
    def topic(self) -> str:
        """The input: works of equal steps share one."""
        kind = "streams" if self.work == "stream_join" else self.unit.split(maxsplit=1)[0]
        last = self.steps[-1]
        sizes = "-".join(str(one) for one in (len(self.steps), last.held, last.measured))
        return f"held-{kind}-{sizes}"

    @property
    def marks(self) -> list[int]:
        """Numbers of records at the beginnings and the ends of the measured parts."""
        found, number = [], 0
        for step in self.steps:
            found += [number + step.before, number + step.before + step.measured]
            number = found[-1]
        return found


def by_keys(*keys: int) -> tuple[Step, ...]:
    """Return steps that fill the stores up to so many keys."""
    return tuple(
        Step(now, now - before + (0 if before else WARM_UP), MEASURED)
        for before, now in zip((0, *keys), keys, strict=False)
    )


_BY_KEYS: Final = by_keys(10_000, 100_000, 1_000_000)
_BY_MANY_KEYS: Final = by_keys(10_000, 100_000, 1_000_000, 10_000_000)
CACHED: Final = "-cached"
"""What the name of a row ends in that has a record cache; the same without it has none."""
_CACHE: Final = 10 << 20
_SLIDING: Final = (Step(10, 20_000, 20_000), Step(100, 1_000, 5_000), Step(1_000, 1_000, 1_000))
_SESSION: Final = (Step(10, 20_000, 20_000), Step(100, 1_000, 20_000), Step(1_000, 1_000, 10_000))

ROWS: Final = {
    "count": Row("keyed count", "count", _BY_MANY_KEYS, "keys"),
    "count-cached": Row("keyed count, 10 MB cache", "count", _BY_MANY_KEYS, "keys", _CACHE),
    "tumbling": Row("tumbling windows of 10 s", "tumbling", _BY_KEYS, "keys"),
    "tumbling-cached": Row(
        "tumbling windows of 10 s, 10 MB cache", "tumbling", _BY_KEYS, "keys", _CACHE
    ),
    "hopping": Row("windows of 5 s by 1 s", "hopping", _BY_KEYS, "keys"),
    "sliding": Row("sliding windows of 1 s", "sliding", _BY_KEYS, "keys"),
    "session": Row("sessions with a gap of 1 s", "session", _BY_KEYS, "keys"),
    "stream_join": Row("two streams joined within 5 s", "stream_join", _BY_KEYS, "keys"),
    "sliding-dense": Row("sliding windows of 1 s", "sliding", _SLIDING, "records a key"),
    "session-dense": Row("sessions with a gap of 1 s", "session", _SESSION, "records a key in 1 s"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, two steps, no page")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    parser.add_argument("--patience", type=float, default=0.0, help="as of benchmarks.run")
    options = parser.parse_args()
    if options.page:
        print(write())
        return 0
    # Ended from outside, we end what we have started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    failed = False
    with KafkaBroker() as broker:
        inputs.await_coordinator(broker.bootstrap_servers)
        loaded: set[str] = set()
        for names in in_turn(options.rows):
            rows = {n: shortened(ROWS[n]) if options.quick else ROWS[n] for n in names}
            runs = 1 if options.quick else options.runs
            print(f"{', '.join(names)} (load {os.getloadavg()[0]:.1f})", flush=True)
            try:
                found = _run_all(broker, rows, runs, options.patience, loaded)
            except (RuntimeError, OSError, KafkaException) as error:
                failed = True
                print(f"  failed: {error}", file=sys.stderr, flush=True)
                continue
            if not options.quick:
                for name in names:
                    report.keep(name, found[name], RAW)
                write()
    return 1 if failed else 0


def in_turn(names: Iterable[str]) -> list[list[str]]:
    """Return rows in the order given; those of one work with equal steps together."""
    found: dict[tuple[str, tuple[Step, ...]], list[str]] = {}
    for name in names:
        found.setdefault((ROWS[name].work, ROWS[name].steps), []).append(name)
    return list(found.values())


def shortened(row: Row) -> Row:
    """Return the first two steps of a row, with half of the measured records."""
    steps = tuple(Step(s.held, s.before, s.measured // 2) for s in row.steps[:2])
    return Row(row.title, row.work, steps, row.unit, row.cache)


def _run_all(
    broker: KafkaBroker, rows: Mapping[str, Row], runs: int, patience_s: float, loaded: set[str]
) -> dict[str, list[dict[str, Any]]]:
    """Run rows of one input in turn and return the runs of each."""
    servers = broker.bootstrap_servers
    first = next(iter(rows.values()))
    if first.topic not in loaded:
        _load(servers, first)
        loaded.add(first.topic)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in rows}
    for _, (name, row), system in product(range(runs), rows.items(), ("headwater", "java")):
        wait_until_quiet(broker.pid, patience_s)
        around = Surroundings(broker.pid)
        result = _run(servers, system, row)
        result["others"] = round(around.others(), 2)
        result["load"] = os.getloadavg()[0]
        print(f"  {name:<16} {system:<10} {_told(row, result)}", flush=True)
        found[name].append(result)
    for name, row in rows.items():
        if not row.cache and len({run["outputs"] for run in found[name]}) > 1:
            raise RuntimeError(f"{name}: not all runs have as many outputs: they are void")
    return found


def _told(row: Row, run: Mapping[str, Any]) -> str:
    parts = (
        f"{step.held:,}: {1e6 / part['us']:,.0f}/s {part['cpu_us']:.1f} us CPU"
        for step, part in zip(row.steps, run["parts"], strict=True)
    )
    return f"{'; '.join(parts)}; others {run['others']} cores"


def _run(servers: str, system: str, row: Row) -> dict[str, Any]:
    total = row.marks[-1]
    job = systems.Job(
        work=row.work,
        source=inputs.Input(row.topic, total, total, 0),
        settings={**_SETTINGS, "statestore.cache.max.bytes": str(row.cache)},
        marks=row.marks,
    )
    with systems.names(servers) as (application_id, sink), systems.directory() as state_dir:
        if system == "headwater":
            command = systems.headwater_command(servers, job, application_id, sink)
        else:
            command = systems.java_command(servers, job, application_id, sink, state_dir)
            command.append(f"records={total}")
        found = systems.json_of(command)
        return {
            "system": system,
            "parts": parts_of(found["marks"]),
            "outputs": _written(servers, sink),
            "peak_rss_mb": found["peak_rss_mb"],
        }


def parts_of(marks: Sequence[Sequence[float]]) -> list[dict[str, float]]:
    """Return microseconds and microseconds of CPU a record of each measured part.

    Args:
        marks: records, seconds and CPU seconds at the beginning and the end of each part.
    """
    found = []
    for begun, ended in zip(marks[::2], marks[1::2], strict=True):
        records = ended[0] - begun[0]
        us, cpu_us = ((ended[i] - begun[i]) / records * 1e6 for i in (1, 2))
        found.append({"us": round(us, 3), "cpu_us": round(cpu_us, 3)})
    return found


def _written(servers: str, topic: str) -> int:
    """Return how many records a topic has that is written without transactions."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "audit"})
    ends = (
        consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_WAIT_S)[1]
        for number in range(inputs.PARTITIONS)
    )
    written = sum(ends)
    consumer.close()
    return written


def _load(servers: str, row: Row) -> None:
    if row.unit != "keys":
        inputs.create(servers, row.topic)
        entries = dense(row.steps)
    else:
        inputs.create(servers, row.topic, row.topic + OTHER)
        entries = growing(row.steps)
    topics = (row.topic, row.topic + OTHER if row.work == "stream_join" else row.topic)
    inputs.send(servers, _entries(entries, topics))


def _entries(entries: Iterable[tuple[int, int]], topics: tuple[str, str]) -> Iterator[Entry]:
    begun_ms = inputs.now_ms()
    for number, (key, at) in enumerate(entries):
        name, partition = f"key-{key:07d}", key % inputs.PARTITIONS
        yield topics[number % 2], partition, name, inputs.value_of(number), begun_ms + at


def growing(steps: Iterable[Step]) -> Iterator[tuple[int, int]]:
    """Yield keys and milliseconds: each new key once, then keys of all that are there.

    A key is followed by itself after ten seconds on average, however many there are.
    """
    draw = random.Random(_SEED)
    there, at = 0, 0.0
    for step in steps:
        new = list(range(there, step.held))
        draw.shuffle(new)
        there = step.held
        for number in range(step.before + step.measured):
            yield new[number] if number < len(new) else draw.randrange(there), int(at)
            at += _BASE / there


def dense(steps: Iterable[Step]) -> Iterator[tuple[int, int]]:
    """Yield keys of one partition and milliseconds: so many records of a key in each second."""
    draw = random.Random(_SEED)
    at = 0
    for step in steps:
        keys = 1_000 // step.held
        for _ in range(step.before + step.measured):
            yield draw.randrange(keys) * inputs.PARTITIONS, at
            at += 1
        at += _APART_MS


def write(raw: Path = RAW, page: Path = PAGE) -> str:
    """Write the page from all runs that are known and return its text."""
    known = report.known(raw)
    lines = [_HEAD.format(machines=report.machines(known)), _TABLE, "|---|---|---|---|---|---|---|"]
    for name, row in ROWS.items():
        if name in known:
            lines += lines_of(row, known[name]["runs"])
    compared = [
        line
        for name in ROWS
        if name in known and name + CACHED in known
        for line in beside(ROWS[name], known[name]["runs"], known[name + CACHED]["runs"])
    ]
    lines += ["", *([_BESIDE, *compared, ""] if compared else []), _EXPLAINED]
    page.write_text("\n".join(lines), encoding="utf-8")
    return page.read_text(encoding="utf-8")


def lines_of(row: Row, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table that one row makes, a line for each step."""
    sides = {
        system: [run["parts"] for run in runs if run["system"] == system]
        for system in ("headwater", "java")
    }
    found = []
    for number, step in enumerate(row.steps):
        rates, cpu, grown = [], [], []
        for rounds in sides.values():
            medians = [
                statistics.median(parts[at]["cpu_us"] for parts in rounds)
                for at in range(number + 1)
            ]
            rates.append(1e6 / statistics.median(parts[number]["us"] for parts in rounds))
            cpu.append(medians[number])
            grown.append(f"{medians[number] / medians[number - 1]:.2f}" if number else "")
        found.append(
            f"| {row.title} | {step.held:,} {row.unit} | {rates[0]:,.0f}, {rates[1]:,.0f} "
            f"| **{rates[0] / rates[1]:.2f}x** ({_spread(sides, number)}) "
            f"| {cpu[0]:.1f}, {cpu[1]:.1f} | {', '.join(filter(None, grown))} "
            f"| {report.others_of(runs)}{report.caveat(runs)} |"
        )
    return found


def beside(
    row: Row, without: Sequence[Mapping[str, Any]], cached: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return what a record cache costs, a line for each step.

    Args:
        row: what is done without a cache.
        without: its runs.
        cached: runs of the same with a cache.
    """
    found = []
    for number, step in enumerate(row.steps):
        cells = []
        for system in ("headwater", "java"):
            costs = [
                statistics.median(
                    run["parts"][number]["cpu_us"] for run in runs if run["system"] == system
                )
                for runs in (without, cached)
            ]
            cells.append(f"{costs[0]:.1f}, {costs[1]:.1f} | {costs[1] / costs[0]:.2f}")
        found.append(f"| {row.title} | {step.held:,} {row.unit} | {' | '.join(cells)} |")
    return found


def _spread(sides: Mapping[str, list[Any]], number: int) -> str:
    rounds = [
        its[number]["us"] / mine[number]["us"]
        for mine, its in zip(sides["headwater"], sides["java"], strict=False)
    ]
    return f"{min(rounds):.2f} to {max(rounds):.2f}" if len(rounds) > 1 else "one round"


_HEAD: Final = """# What a record costs by how much is held

Written by `python -m benchmarks.keys`: counts, windows and joins on one StreamThread with RocksDB,
beside Java Kafka Streams 4.3.1, in turns, medians. Cache 0 unless said otherwise. A run fills its
stores up to 10,000, 100,000 and 1,000,000 keys in four tasks; for counts 10,000,000 follow. At each
step, 100,000 records of keys at random are measured, and commits, of which there are ten a second,
with them. With more keys records
are closer together, so that a key is seen again after ten seconds at each step: windows hold as
many records of a key, and joins find as many. In the last rows there are so many records of each
key within a second, in one task. `--quick` takes a few minutes; it makes one round of two steps,
and changes nothing here.

{machines}

How to read it: "grown" is the CPU time of a record over that of the step before, ours and Java's.
It says more than rates where others use the machine, too. Java's compiler is at work in the first
step still, so Java's growth looks smaller than it is. CPU time is that of the whole process, with
the threads of RocksDB and of the client. A line is provisional if there were fewer than three
rounds or others took more than 0.3 cores.
"""
_TABLE: Final = (
    "| work | held | records/s: ours, Java | ratio (each round) | CPU us a record: ours, Java "
    "| grown: ours, Java | others' cores |"
)
_BESIDE: Final = """## What a record cache costs

CPU us a record, by medians, and that of a cache over that of none. The goal is that no number of
keys makes a cache cost more than none. A record that finds its key in the cache costs less: its
change is not sent at once. If keys do not fit, nearly all are read and pushed out again.

| work | held | CPU us, ours: cache 0, 10 MB | over | Java's: cache 0, 10 MB | over |
|---|---|---|---|---|---|"""
_EXPLAINED: Final = """## What grows, and why

With 10,000 keys all rows are above Java's rate. With 100,000 tumbling windows still are, with
1,000,000 none is. The goal, a cost that stays flat, is missed for keys; it is met for sessions of
many records, and for sliding windows by the number of updates.

* Java gets faster from step to step, because its compiler goes on. Only its later steps show what
  it costs when it is warm: 8 to 10 us for a single update or a join, where we take 13 to 19. In
  windows of 5 s by 1 s it takes 30 us, and we take 41. With a cache both take 15.
* A window that is new and a join that finds nothing mostly cost no look into RocksDB. A store knows
  about how late the rows of a key can be (`worker/headwater/state/newest.py`). It knows that by the
  hash of a key, and only of what was written since it was opened.
* What a commit has reached and memory has let go of is read with a single `get` or `seek`. With
  10,000 keys windows are over before that. To ask for many at once, a task would have to know the
  windows of records before its operators have seen them.
* By `perf`, the interpreter has half of the time of tumbling windows with up to 1,000,000 keys.
  RocksDB has a sixth (a tenth for `get`, a twentieth for writes), the client a seventh, and malloc
  a tenth. No function stands out. Rows as Python's objects do not fit the processor's cache: entry,
  identity, key and value are a miss each, when a row is made, and again when it is let go of.
* One task in process, by CPU time of its thread, has less to keep: a tumbling count took 2.9, 4.1
  and 5.5 us with 10,000, 100,000 and 1,000,000 keys, of which the last makes half as many rows more
  (`python benchmarks/micro/windows.py "keys, cache 0" --commit-every 20000`). A join took 7.6, 11.5
  and 16.8 us. It took 8.9, 14.2 and 19.2 before a store knew how late rows can be.
* With the record cache of 10 MB, rows make room for others from some tens of thousands of windows
  on. What it holds is what Kafka Streams' holds; making room takes a tenth of a record's time.
* The windows and sessions of a key are found by key, so others do not count. A record changes each
  sliding window that holds it: 10, 100 or 1,000 of them cost as many updates, in Java as well. The
  sessions of a key are one session, however many records it has.
* Segments that have expired are dropped with their files; no row is looked at
  (`tests/contract/test_timed_stores.py`). Windows that have closed are found by time
  (`tests/contract/test_closed_windows.py`).
"""


if __name__ == "__main__":
    sys.exit(main())
