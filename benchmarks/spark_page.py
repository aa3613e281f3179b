"""The page of what Spark costs: goals and floors, rounds, memory, how cost grows."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from benchmarks import inputs
from benchmarks.report import machine, verdict
from benchmarks.spark_continuous import LIMIT
from benchmarks.spark_systems import COMMIT_MS, MASTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.spark_memory import Memory
    from benchmarks.spark_systems import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One system against another."""

    what: str
    system: str
    against: str
    goal: float
    floor: float


RATIOS: Final = [
    Ratio(what="backfill T2 / native, 2 threads", system="t2", against="native", goal=2, floor=1),
    Ratio(
        what="the same with gate, topics, manifest, offsets",
        system="t2, whole",
        against="native",
        goal=2,
        floor=1,
    ),
    Ratio(what="backfill T1 / native, 2 threads", system="t1", against="native", goal=1, floor=0.6),
    Ratio(
        what="the same with gate, topics, manifest, offsets",
        system="t1, whole",
        against="native",
        goal=1,
        floor=0.6,
    ),
    Ratio(
        what="continuous T1 / native, 2 threads",
        system="continuous",
        against="native, streamed",
        goal=0.5,
        floor=0.25,
    ),
    Ratio(
        what="backfill T1 / `transformWithStateInPandas` per key",
        system="t1",
        against="per key",
        goal=15,
        floor=8,
    ),
    Ratio(
        what="backfill T2 / Spark SQL, which writes nothing",
        system="t2",
        against="sql",
        goal=0.9,
        floor=0.7,
    ),
]
_LATENCY: Final = (0.7, 2.0)
"""Goal and floor in seconds, of all that a record waits for: its micro-batch and the one before."""
LATENCIES: Final = {"stateless": "no state", "count": "a count that sends each update"}
"""What is run for it (``benchmarks/works.py``)."""
WARM_UP_S: Final = 40.0
"""What runs without end is measured when Java has compiled what it runs."""
_TARGETS: Final = {"t1": "T1", "t2": "T2", "continuous": "continuous"}
_ROUNDS: Final = 3
_BUSY: Final = 3.0
"""Verdicts of fewer rounds, or beside more load than this, are provisional."""
_GROWN: Final = (("T1", "t1", "t1, a tenth"), ("T2", "t2", "t2, a tenth"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One round.

    Attributes:
        batches_s: how long each micro-batch took, in seconds, warm-up included.
        delays_ms: from each record's send to its output, in milliseconds.
    """

    batches_s: Sequence[float]
    delays_ms: Sequence[float]

    def middle_s(self) -> float:
        """Return the median from send to output."""
        return statistics.median(self.delays_ms) / 1000

    def high_s(self) -> float:
        """Return the 99th percentile from send to output."""
        return statistics.quantiles(self.delays_ms, n=100)[98] / 1000


@dataclass(slots=True, kw_only=True)
class Found:
    """All that was measured.

    Attributes:
        options: of the command.
        rates: of each system, records a second in each round.
        load: of the machine over the last minute, before and after each round.
        latencies: rounds of each of ``LATENCIES``.
        memory: of backfills.
    """

    options: str
    load: list[float]
    rates: dict[str, list[float]] = field(default_factory=dict)
    latencies: dict[str, list[Latency]] = field(default_factory=dict)
    memory: list[Memory] = field(default_factory=list)


def page(bench: Bench, found: Found) -> str:
    """Return the page as Markdown."""
    now = datetime.now(UTC)
    lines = [
        "# What Spark costs",
        "",
        f"Written by `python -m benchmarks.spark_backfill {found.options}`: a count of",
        f"{bench.large.records:,} records of {bench.large.keys:,} keys in {inputs.PARTITIONS}",
        f"partitions, on `{MASTER}` without the start of Spark. What runs continuously has",
        f"{bench.streamed.records:,} of them and `maxOffsetsPerTrigger` {LIMIT:,}, from the",
        "beginning of its first micro-batch with records, which starts its task hosts; `per key`",
        f"{bench.short.records:,} records of any of the keys, less a query of",
        f"{bench.shorter.records:,} and its time, so that the start is not in it. A latency is",
        f"measured after {WARM_UP_S:.0f} s of the same load. Exactly-once, a",
        f"commit every {COMMIT_MS // 1000} s. The systems take turns, on one broker, which shares",
        "the cores; medians, with every round. `benchmarks/spark_systems.py` says what each is.",
        "",
        f"Machine: {machine()}. Measured {now:%Y-%m-%d %H:%M}, beside a load of",
        f"{min(found.load):.1f} to {max(found.load):.1f}, ours among it: on two cores more than 2",
        "is other work, which takes its share of every system.",
        "",
        "Native replay counts from its first record, without its start; so the tasks of a backfill",
        "are compared with it, and, in the next line, all of the backfill but the start of Spark.",
        "",
        "| what | median | each round | goal | floor | |",
        "|---|---|---|---|---|---|",
        *(_line(ratio, found) for ratio in RATIOS),
        *(_latency(work, found) for work in LATENCIES),
        "",
        "| system | records/s, median | each round |",
        "|---|---|---|",
        *(
            f"| {name} | {statistics.median(rates):,.0f} | "
            f"{', '.join(f'{rate:,.0f}' for rate in rates)} |"
            for name, rates in found.rates.items()
        ),
        "",
        *_growth(bench, found.rates),
        *_memory(found.memory),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _line(ratio: Ratio, found: Found) -> str:
    ours, theirs = found.rates.get(ratio.system, []), found.rates.get(ratio.against, [])
    rounds = [a / b for a, b in zip(ours, theirs, strict=False)]
    if not rounds:
        return f"| {ratio.what} | not measured | | {ratio.goal}x | {ratio.floor}x | |"
    value = statistics.median(rounds)
    said = verdict(value, ratio.goal, ratio.floor, less_is_better=False)
    each = ", ".join(f"{one:.2f}" for one in rounds)
    if len(rounds) < _ROUNDS or max(found.load) > _BUSY:
        said += ", provisional"
    return f"| {ratio.what} | **{value:.2f}x** | {each} | {ratio.goal}x | {ratio.floor}x | {said} |"


def _latency(work: str, found: Found) -> str:
    goal, floor = _LATENCY
    what = f"continuous, from send to output at 5,000 records/s ({LATENCIES[work]}), p50"
    rounds = found.latencies.get(work, [])
    if not rounds:
        return f"| {what} | not measured | | {goal} s | {floor:.0f} s | |"
    value = statistics.median(one.middle_s() for one in rounds)
    batch_s = statistics.median(took for one in rounds for took in one.batches_s)
    each = ", ".join(f"{one.middle_s():.2f}" for one in rounds)
    high_s = statistics.median(one.high_s() for one in rounds)
    said = verdict(value, goal, floor, less_is_better=True)
    return (
        f"| {what} | **{value:.2f} s** | {each}; p99 {high_s:.2f} s; tasks of a micro-batch, p50, "
        f"{batch_s:.2f} s | {goal} s | {floor:.0f} s | {said} |"
    )


def _growth(bench: Bench, rates: Mapping[str, Sequence[float]]) -> Iterator[str]:
    known = [one for one in _GROWN if {one[1], one[2]} <= set(rates)]
    if not known:
        return
    yield "How a backfill's cost grows, with the same number of keys:"
    yield ""
    yield (
        f"| | {bench.small.records:,} records | {bench.large.records:,} records | "
        "a record, of the former |"
    )
    yield "|---|---|---|---|"
    for name, large, small in known:
        small_s = bench.small.records / statistics.median(rates[small])
        large_s = bench.large.records / statistics.median(rates[large])
        a_record = (large_s / bench.large.records) / (small_s / bench.small.records)
        yield f"| {name} | {small_s:.1f} s | {large_s:.1f} s | {a_record:.2f} |"
    yield ""


def _memory(memory: Sequence[Memory]) -> Iterator[str]:
    if not memory:
        return
    yield "Peaks of resident memory while two records of each key are counted, in processes that do"
    yield "nothing else; a worker of what runs continuously is a task host:"
    yield ""
    yield "| keys | | driver, Java (heap of 1 GB) | driver, Python | largest Python worker |"
    yield "|---|---|---|---|---|"
    for one in memory:
        yield (
            f"| {one.keys:,} | {_TARGETS[one.target]} | {one.java_mb:,.0f} MB | "
            f"{one.driver_mb:,.0f} MB | {one.worker_mb:,.0f} MB |"
        )


def now_load() -> float:
    """Return the machine's load over the last minute."""
    return os.getloadavg()[0]
