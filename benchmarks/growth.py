"""Whether the memory of a StreamThread grows under steady load: an hour of a keyed count.

    python -m benchmarks.growth [--minutes 60] [--rate 500] [--keys 10000]

One embedded worker per variant counts the same input, whose set of keys is bounded. Once a minute
the proportional set size of each of its processes is read from ``/proc``, divided into the heap
(what ``malloc`` takes by ``brk``), other anonymous memory (its arenas, Python's, threads' stacks)
and files. What grows for ever shows as a slope in the last half of the hour.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from benchmarks import inputs, systems
from benchmarks.memory import family
from benchmarks.report import machine
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SAMPLE_S: Final = 60.0
_SLICE_S: Final = 0.1
_START_S: Final = 120.0
PAGE: Final = Path(__file__).with_name("GROWTH.md")
_SMALL: Final = {"segment.bytes": "16777216", "retention.bytes": "67108864"}


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the same application."""

    name: str
    settings: Mapping[str, str]
    environment: Mapping[str, str]


VARIANTS: Final = (
    Variant("exactly-once", {"processing.guarantee": "exactly_once_v2"}, {}),
    Variant("at-least-once", {"processing.guarantee": "at_least_once"}, {}),
    Variant(
        "exactly-once, one malloc arena",
        {"processing.guarantee": "exactly_once_v2"},
        {"MALLOC_ARENA_MAX": "1"},
    ),
)


_EXPLAINED: Final = (
    "It ends. What grows is the heap, and it is RocksDB's write buffers that fill: each store",
    "puts its changes into a buffer of 4 MiB, which is written to a file when it is full. A store",
    "takes a change per key and flush, so the fewer records there are, the longer the buffers take",
    "to fill, and the longer the growth looks like a straight line. It begins anew, from below,",
    "with each buffer that is written. Four stores alone, without Kafka and without StreamThreads,",
    "grow from 4 to 23 MB by the same number of changes, and no further.",
    "",
    "So a StreamThread takes up to 4 MiB more for each store than at its start, and some more",
    "where `malloc` cannot use what was freed. With one arena of `malloc` it is the same:",
    "fragmentation between arenas is not the cause. The other anonymous memory (Python's objects,",
    "the queues of librdkafka) grows by about 1 MB in the hour, most of it in the first half.",
)


class Worker:
    """A worker of one variant, and what was seen of its processes."""

    def __init__(self, servers: str, variant: Variant, source: str, home: Path) -> None:
        self.variant = variant
        number = VARIANTS.index(variant)
        sink = f"growth-out-{number}"
        inputs.create(servers, sink, **_SMALL)
        settings = {
            "application.id": f"growth-{number}",
            "bootstrap.servers": servers,
            "state.dir": str(home / str(number)),
            **variant.settings,
        }
        self._log = (home / f"{number}.log").open("wb")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.embedded", "--work", "count"),
                *("--input", source, "--output", sink),
                *(f"{name}={value}" for name, value in settings.items()),
            ],
            env={**os.environ, **variant.environment},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
        )
        self.samples: list[dict[str, Any]] = []

    def sample(self, minute: float) -> None:
        """Look at all processes once."""
        for pid in family(self.process.pid):
            sizes = _sizes_kb(pid)
            if sizes:
                self.samples.append(
                    {"minute": round(minute, 1), "process": _name(pid), "pid": pid, **sizes}
                )

    def close(self) -> None:
        """End it in order."""
        self.process.communicate(b"\n", timeout=60)
        self._log.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=500, help="records per second")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--samples", type=Path, help="also written there once a minute, as JSON")
    options = parser.parse_args()
    with KafkaBroker() as broker, systems.directory() as home:
        servers = broker.bootstrap_servers
        inputs.create(servers, "growth-in", **_SMALL)
        inputs.await_coordinator(servers)
        workers = [Worker(servers, variant, "growth-in", Path(home)) for variant in VARIANTS]
        started = time.monotonic()
        next_sample = started + _SAMPLE_S
        for now in _feed(servers, options.rate, options.keys, options.minutes * 60):
            if now >= next_sample:
                next_sample += _SAMPLE_S
                for worker in workers:
                    worker.sample((now - started) / 60)
                if options.samples is not None:
                    options.samples.write_text(json.dumps(_samples(workers)), encoding="utf-8")
        for worker in workers:
            worker.close()
    PAGE.write_text(page(_samples(workers), options.rate, options.keys), encoding="utf-8")
    return 0


def page(samples: Mapping[str, list[dict[str, Any]]], rate: int, keys: int) -> str:
    """Return the page that the samples make."""
    lines = [
        "# Whether a StreamThread grows",
        "",
        f"Written by `python -m benchmarks.growth`: a keyed count of {keys:,} keys in 4 tasks,",
        f"{rate} records/s, one embedded worker of one StreamThread per variant, side by side on",
        "one broker. Proportional set size in MB.",
        "",
        f"Machine: {machine()}.",
        "",
        "| variant | process | minute: MB | last: heap, other anonymous, files | last half, MB/h |",
        "|---|---|---|---|---|",
    ]
    for variant, found in samples.items():
        for process in sorted({sample["process"] for sample in found}):
            seen = [sample for sample in found if sample["process"] == process]
            lines.append(_row(variant, process, seen))
    return "\n".join([*lines, "", *_EXPLAINED, ""])


def _row(variant: str, process: str, seen: list[dict[str, Any]]) -> str:
    step = max(1, len(seen) // 10)
    shown = ", ".join(f"{one['minute']:.0f}: {one['pss'] / 1024:.1f}" for one in seen[::step])
    last = seen[-1]
    kinds = ", ".join(f"{last[kind] / 1024:.1f}" for kind in ("heap", "anonymous", "files"))
    half = seen[len(seen) // 2 :]
    slope = _slope([(one["minute"] / 60, one["pss"] / 1024) for one in half])
    return f"| {variant} | {process} | {shown} | {kinds} | {slope:+.1f} |"


def _slope(points: list[tuple[float, float]]) -> float:
    """The slope of the straight line that fits best."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def _feed(servers: str, rate: int, keys: int, seconds: float) -> Iterator[float]:
    """Send records at a steady rate; yield the time after each slice."""
    draw = random.Random(7)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    started = time.monotonic()
    sent = 0
    while (now := time.monotonic()) - started < seconds:
        while sent < (now - started) * rate:
            key = f"key-{draw.randrange(keys):06d}"
            producer.produce("growth-in", f"value-{sent:034d}", key)
            sent += 1
        producer.poll(0)
        time.sleep(_SLICE_S)
        yield now
    producer.flush(60)


def _samples(workers: list[Worker]) -> dict[str, list[dict[str, Any]]]:
    return {worker.variant.name: worker.samples for worker in workers}


def _name(pid: int) -> str:
    """The name that a worker gives its child; the worker's own process has none."""
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return command[3].decode() if command[1:2] == [b"-c"] else "worker"


def _sizes_kb(pid: int) -> dict[str, int]:
    """Proportional set size of a process by kind of memory, in kB; empty if it has ended."""
    sizes = {"pss": 0, "heap": 0, "anonymous": 0, "files": 0, "mappings": 0}
    try:
        lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    except OSError:
        return {}
    kind = "anonymous"
    for line in lines:
        first, *rest = line.split()
        if not first.endswith(":"):
            path = rest[4] if len(rest) > 4 else ""
            kind = "heap" if path == "[heap]" else "files" if path.startswith("/") else "anonymous"
            sizes["mappings"] += 1
        elif first == "Pss:":
            sizes[kind] += int(rest[0])
            sizes["pss"] += int(rest[0])
    return sizes


if __name__ == "__main__":
    sys.exit(main())
