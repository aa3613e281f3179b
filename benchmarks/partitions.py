"""What a partition costs: the same records over 4, 64 and 512 partitions, one StreamThread.

    python -m benchmarks.partitions [--records 300000] [--runs 3] [--partitions 4 64 512]

A stateless work and a keyed count, with a record cache of 10 MB and without one. Variants run in
turn, so that a noisy minute meets all of them. The start runs from the moment at which the thread
gets its tasks until all of them run; a record's CPU time from the first record to the last.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import inputs, systems
from benchmarks.report import machine
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE: Final = Path(__file__).with_name("PARTITIONS.md")
PARTITIONS: Final = (4, 64, 512)
CACHE_BYTES: Final = 10 * 1024 * 1024
WORKS: Final = (("stateless", 0), ("count", CACHE_BYTES), ("count", 0))
_KEYS: Final = 51_200
_WAIT_S: Final = 120
_SMALL: Final = {"segment.bytes": "16777216"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS)
    parser.add_argument("--works", nargs="+", default=("stateless", "count"))
    parser.add_argument("settings", nargs="*", metavar="name=value")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    works = [work for work in WORKS if work[0] in options.works]
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        inputs.await_coordinator(servers)
        for partitions in options.partitions:
            create(servers, source_of(partitions), partitions)
            inputs.send(servers, _records(source_of(partitions), partitions, options.records))
        for _ in range(options.runs):
            for work, cache_bytes in works:
                for partitions in options.partitions:
                    result = measured(servers, work, cache_bytes, partitions, options)
                    print(f"  {result}", flush=True)
                    found.append(result)
    if not options.settings and tuple(options.partitions) == PARTITIONS:
        PAGE.write_text(page(found, options.records), encoding="utf-8")
    return 0


def source_of(partitions: int) -> str:
    """Return the name of the input with so many partitions."""
    return f"partitions-{partitions}"


def create(servers: str, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=_SMALL)]).values():
        future.result(_WAIT_S)


def _records(topic: str, partitions: int, records: int) -> Iterator[inputs.Entry]:
    """Keys in turn: each partition has as many records and keys as any other."""
    begun_ms = inputs.now_ms()
    for number in range(records):
        key = number * 7_919 % _KEYS
        yield topic, key % partitions, f"key-{key:06d}", inputs.value_of(number), begun_ms


def measured(
    servers: str, work: str, cache_bytes: int, partitions: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Run one work over one input."""
    with systems.names(servers) as (application_id, _), systems.directory() as state_dir:
        sink = f"{application_id}-sink"
        create(servers, sink, partitions)
        settings = {
            **systems.AT_LEAST_ONCE,
            "statestore.cache.max.bytes": str(cache_bytes),
            **dict(setting.split("=", 1) for setting in options.settings),
        }
        command = [
            *(sys.executable, "-m", "benchmarks.headwater_run", "--bootstrap", servers),
            *("--work", work, "--input", source_of(partitions), "--output", sink),
            *("--application-id", application_id, "--records", str(options.records)),
            *("--partitions", str(partitions), "--state-dir", state_dir, "--"),
            *(f"{name}={value}" for name, value in settings.items()),
        ]
        result = systems.json_of(command)
    return {
        "work": work,
        "cache": cache_bytes,
        "partitions": partitions,
        "start_s": result["start_seconds"],
        "cpu_us": round(result["cpu_seconds"] / options.records * 1e6, 2),
        "seconds": result["seconds"],
        "pss_mb": result["peak_pss_mb"],
        "close_s": round(result["seconds_closed"] - result["seconds"], 2),
    }


def page(found: Sequence[dict[str, Any]], records: int) -> str:
    """Return the page that the runs make: medians."""
    lines = [
        "# What a partition costs",
        "",
        f"Written by `python -m benchmarks.partitions`: {records:,} records, one StreamThread,",
        "at-least-once. Medians; the start is until all tasks run, CPU time is of the thread's",
        "process from the first record to the last, memory the greatest proportional set size.",
        "",
        f"Machine: {machine()}.",
        "",
        "| work | cache, MB | partitions | start, s | CPU, us a record | spread | memory, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for work, cache in WORKS:
        for partitions in PARTITIONS:
            rows = [
                one
                for one in found
                if (one["work"], one["cache"], one["partitions"]) == (work, cache, partitions)
            ]
            if rows:
                lines.append(_row(work, cache, partitions, rows))
    return "\n".join([*lines, ""])


def _row(work: str, cache: int, partitions: int, rows: Sequence[dict[str, Any]]) -> str:
    def median(name: str) -> float:
        return float(statistics.median(row[name] for row in rows))

    cpu = [row["cpu_us"] for row in rows]
    return (
        f"| {work} | {cache // 1024 // 1024} | {partitions} | {median('start_s'):.1f} "
        f"| {median('cpu_us'):.1f} | {min(cpu):.1f} to {max(cpu):.1f} | {median('pss_mb'):.0f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
