"""Every row of the table of speed and memory, side by side with its yardstick: ``make bench``.

    python -m benchmarks.run [--rows count ...] [--runs 3] [--records 2000000]
                             [--patience 600]

One private broker with ephemeral data serves all systems. Inputs are loaded before; the systems of
a row take turns (A B C, A B C, A B C) and medians are compared. An independent consumer reads what
every run wrote. The table is written to ``benchmarks/RESULTS.md`` after each group of rows, with
the last known runs of the groups that were not asked for.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from benchmarks import inputs, latency, memory, report, restore, systems
from benchmarks.machine import Surroundings, wait_until_quiet
from benchmarks.systems import Job
from benchmarks.works import WINDOWED
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from benchmarks.inputs import Input
    from benchmarks.systems import Run

_CACHE_0 = {**systems.AT_LEAST_ONCE, "statestore.cache.max.bytes": "0"}
_BUSY_SHARE = 10
"""A record of the busy work costs ten times as much as others: a tenth of them is enough."""
_QUIX_SHARE = 5
_TIMED_SHARE = 4
"""A record that looks at windows costs several times as much as others."""
_CACHES = {"": systems.AT_LEAST_ONCE, "-0": _CACHE_0}
_UNCACHED = ("pairs", "stream_join", "versioned_join")
"""Kafka Streams has no record cache above these stores, whatever its size."""
_TIMED = (*WINDOWED, *_UNCACHED, "table_join")
_FINAL = ("suppress",)
"""What comes out of it does not depend on the cache."""
_CACHED_TABLES = {**systems.AT_LEAST_ONCE, "commit.interval.ms": "1000"}
"""What a cached table holds back waits for a commit: half a minute would be waited for."""
_LOADERS = {
    "stream_join": inputs.load_streams,
    "table_join": inputs.load_table,
    "versioned_join": inputs.load_versions,
    "foreign_join": inputs.load_foreign,
}


class Bench:
    """The broker's address, and inputs that are loaded when a row first asks for them."""

    def __init__(self, broker: KafkaBroker, records: int, runs: int, patience_s: float) -> None:
        self._patience_s = patience_s
        self._broker_pid = broker.pid
        self.servers = broker.bootstrap_servers
        self.records = records
        self.runs = runs
        self._loaded: dict[str, Input] = {}

    def around(self) -> Surroundings:
        """Wait for a quiet machine, if asked to; then look at it."""
        wait_until_quiet(self._broker_pid, self._patience_s)
        return Surroundings(self._broker_pid)

    def keyed(self, records: int) -> Input:
        """An input of the keyed count and the stateless work."""
        topic = f"input-keyed-{records}"
        if topic not in self._loaded:
            self._loaded[topic] = inputs.load_keyed(self.servers, topic, records)
        return self._loaded[topic]

    def timed(self, records: int) -> Input:
        """An input of what looks at times."""
        topic = f"input-timed-{records}"
        if topic not in self._loaded:
            self._loaded[topic] = inputs.load_timed(self.servers, topic, records)
        return self._loaded[topic]

    def of_work(self, work: str, records: int) -> Input:
        """An input of a join; of anything else, that of what looks at times."""
        if work not in _LOADERS:
            return self.timed(records)
        topic = f"input-{work}-{records}".replace("_", "-")
        if topic not in self._loaded:
            self._loaded[topic] = _LOADERS[work](self.servers, topic, records)
        return self._loaded[topic]

    def lines(self, lines: int) -> Input:
        """An input of the word count."""
        topic = f"input-lines-{lines}"
        if topic not in self._loaded:
            self._loaded[topic] = inputs.load_lines(self.servers, topic, lines)
        return self._loaded[topic]

    def in_turn(self, *chosen: Callable[[], Run]) -> list[dict[str, Any]]:
        """Let the systems take turns, round by round."""
        found = []
        for _ in range(self.runs):
            for run in chosen:
                around = self.around()
                result = run()
                others = round(around.others(), 2)
                print(f"  {result.line()}, others {others} cores", flush=True)
                found.append({**result.as_dict(), "rate": result.rate, "others": others})
        return found

    def job(self, settings: Mapping[str, str], **options: Any) -> Job:
        """The keyed count, unless said otherwise."""
        given = {"work": "count", "source": self.keyed(self.records), **options}
        return Job(settings=settings, **given)


def count(bench: Bench, settings: Mapping[str, str]) -> list[dict[str, Any]]:
    job = bench.job(settings)
    return bench.in_turn(
        partial(systems.headwater, bench.servers, job), partial(systems.java, bench.servers, job)
    )


def count_threads(bench: Bench) -> list[dict[str, Any]]:
    jobs = [bench.job(systems.AT_LEAST_ONCE, threads=threads) for threads in (1, 2)]
    return bench.in_turn(
        *(partial(systems.headwater, bench.servers, job) for job in jobs),
        *(partial(systems.java, bench.servers, job) for job in jobs),
    )


def count_as_often(bench: Bench) -> list[dict[str, Any]]:
    """The keyed count under exactly-once, with as many commits as Java makes at 100 ms.

    Java counts its interval from the end of a commit. So how often it commits is known only after
    its run, and ours gets what that came to as its interval.
    """
    job = bench.job(systems.EXACTLY_ONCE)
    apart_ms = [100.0]

    def yardstick() -> Run:
        run = systems.java(bench.servers, job)
        apart_ms[0] = run.seconds / max(1, run.commits) * 1_000
        return run

    def ours() -> Run:
        settings = {**systems.EXACTLY_ONCE, "commit.interval.ms": str(round(apart_ms[0]))}
        return systems.headwater(bench.servers, dataclasses.replace(job, settings=settings))

    return bench.in_turn(yardstick, ours)


def count_quix(bench: Bench) -> list[dict[str, Any]]:
    source = bench.keyed(bench.records // _QUIX_SHARE)
    cached = bench.job(systems.AT_LEAST_ONCE, source=bench.keyed(bench.records))
    every = bench.job(_CACHE_0, source=bench.keyed(bench.records))

    def uncached() -> Run:
        run = systems.headwater(bench.servers, every)
        return dataclasses.replace(run, system="headwater cache 0")

    return bench.in_turn(
        partial(systems.headwater, bench.servers, cached),
        uncached,
        partial(systems.quixstreams, bench.servers, bench.job(_CACHE_0, source=source)),
    )


def stateless(bench: Bench) -> list[dict[str, Any]]:
    job = bench.job(systems.AT_LEAST_ONCE, work="stateless", counts=False)
    chosen = (systems.headwater, systems.java, systems.bare)
    return bench.in_turn(*(partial(system, bench.servers, job) for system in chosen))


def timed(bench: Bench, work: str, settings: Mapping[str, str]) -> list[dict[str, Any]]:
    source = bench.of_work(work, bench.records // _TIMED_SHARE)
    job = bench.job(settings, work=work, source=source, counts=False)
    found = bench.in_turn(
        partial(systems.headwater, bench.servers, job), partial(systems.java, bench.servers, job)
    )
    # What a cache lets out depends on when it is full; what was counted in the end does not.
    equal = ["counted"] if work in WINDOWED else ["outputs"]
    if settings is _CACHE_0 or work in _FINAL:
        equal.append("outputs")
    for what in equal:
        if len({run[what] for run in found}) > 1:
            raise RuntimeError(f"{work}: not all systems have as many {what}: the runs are void")
    return found


def words(bench: Bench) -> list[dict[str, Any]]:
    job = bench.job(systems.AT_LEAST_ONCE, work="words", source=bench.lines(bench.records // 4))
    return bench.in_turn(
        partial(systems.headwater, bench.servers, job), partial(systems.java, bench.servers, job)
    )


def busy(bench: Bench) -> list[dict[str, Any]]:
    source = bench.keyed(bench.records // _BUSY_SHARE)
    jobs = [
        bench.job(systems.AT_LEAST_ONCE, work="busy", source=source, threads=threads, counts=False)
        for threads in (1, 2)
    ]
    return bench.in_turn(*(partial(systems.headwater, bench.servers, job) for job in jobs))


def restored(bench: Bench) -> list[dict[str, Any]]:
    """Restores, by the program that measures only them."""
    application_id = f"restore-{uuid.uuid4().hex[:8]}"
    restore.prepare(bench.servers, application_id, bench.records)
    found = []
    for _ in range(bench.runs):
        for name, run in (("headwater", restore.headwater), ("java", restore.java)):
            around = bench.around()
            result = run(bench.servers, application_id, bench.records)
            rate = result["restored"] / result["restore_seconds"]
            result |= {
                "system": name,
                "records": result["restored"],
                "rate": rate,
                "cpu_us": result["cpu_seconds"] / result["restored"] * 1e6,
                "load": os.getloadavg()[0],
                "others": round(around.others(), 2),
            }
            print(f"  {name:<14} {rate:>9,.0f} records/s", flush=True)
            found.append(result)
    inputs.delete(bench.servers, application_id)
    return found


def remembered(bench: Bench) -> list[dict[str, Any]]:
    job = bench.job(_CACHE_0)
    return memory.compare(bench.servers, job, bench.runs, bench.around)


def delayed(bench: Bench, plan: latency.Plan) -> list[dict[str, Any]]:
    return latency.compare(bench.servers, plan, bench.runs, bench.around)


GROUPS: dict[str, Callable[[Bench], list[dict[str, Any]]]] = {
    "count": partial(count, settings=systems.AT_LEAST_ONCE),
    "count-0": partial(count, settings=_CACHE_0),
    "count-eos": partial(count, settings=systems.EXACTLY_ONCE),
    "count-eos-as-often": count_as_often,
    "stateless": stateless,
    "words": words,
    **{
        f"{work}{ending}": partial(timed, work=work, settings=settings)
        for work in _TIMED
        for ending, settings in _CACHES.items()
        if ending == "" or work not in _UNCACHED
    },
    "foreign_join": partial(timed, work="foreign_join", settings=_CACHED_TABLES),
    "foreign_join-0": partial(timed, work="foreign_join", settings=_CACHE_0),
    "count-quix": count_quix,
    "restore": restored,
    "busy": busy,
    "count-threads": count_threads,
    "memory": remembered,
    "latency-stateless": partial(delayed, plan=latency.Plan(work="stateless")),
    "latency-count": partial(delayed, plan=latency.Plan(work="count")),
    "latency-count-eos": partial(delayed, plan=latency.COMMITTED),
    "latency-count-eos-50k": partial(delayed, plan=latency.COMMITTED_FAST),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        help="seconds to wait before each run until others leave the machine alone",
    )
    options = parser.parse_args()
    # Ended from outside, we end what we have started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with KafkaBroker() as broker:
        inputs.await_coordinator(broker.bootstrap_servers)
        bench = Bench(broker, options.records, options.runs, options.patience)
        failed = _run(bench, options.rows)
    print(report.write())
    return 1 if failed else 0


def _run(bench: Bench, groups: Iterable[str]) -> list[str]:
    """Run the groups; one that fails does not keep the others from running."""
    failed = []
    for group in groups:
        print(f"{group} (load {os.getloadavg()[0]:.1f})", flush=True)
        try:
            report.keep(group, GROUPS[group](bench))
        except (RuntimeError, OSError, AssertionError, KafkaException) as error:
            failed.append(group)
            print(f"  failed: {error}", file=sys.stderr, flush=True)
        report.write()
    return failed


if __name__ == "__main__":
    sys.exit(main())
