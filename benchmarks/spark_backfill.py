"""What Spark costs: backfills and continuous running against native replay and Spark's own ways.

    python -m benchmarks.spark_backfill [--records 1000000] [--keys 100000] [--rounds 3]
        [--per-key-records 20000] [--memory-keys 100000 1000000] [--systems native t1 ...]

One private broker, one input; the systems (``benchmarks/spark_systems.py``) take turns. Writes
``benchmarks/SPARK.md``; ``--no-page`` prints it only. A line of it is a ``Ratio`` in
``benchmarks/spark_page.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import inputs
from benchmarks.latency import Probe
from benchmarks.spark_memory import SETTINGS, TARGETS, peaks
from benchmarks.spark_page import LATENCIES, WARM_UP_S, Found, Latency, now_load, page
from benchmarks.spark_systems import MASTER, ROOT, SYSTEMS, Bench, Source, backfill, sql
from headwater.local.broker import KafkaBroker
from headwater.spark.cluster import start
from headwater.spark.tables.connector import connector_jars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TABLE: Final = Path(__file__).parent / "SPARK.md"
_STREAMED: Final = 4_000_000
"""Eight micro-batches: the first starts the task hosts, and is counted with the others."""
_WARM: Final = 1_000


def main() -> int:
    options = _options()
    settings = {**SETTINGS, "spark.jars": connector_jars()}
    session = start(MASTER, settings)
    try:
        with KafkaBroker() as broker:
            bench = _loaded(broker.bootstrap_servers, options, settings)
            found = Found(options=" ".join(sys.argv[1:]), load=[now_load()])
            for number in range(options.rounds if options.latency else 0):
                for work in LATENCIES:
                    found.latencies.setdefault(work, []).append(_latency(bench, work, number))
            found.memory = [
                peaks(bench.servers, _input(bench.servers, "bench-memory", 2 * keys, keys), target)
                for keys in options.memory_keys
                for target in TARGETS
            ]
            for number in range(options.rounds):
                _round(bench, options.systems, number, found)
                text = page(bench, found)
                if options.page:
                    TABLE.write_text(text)
    finally:
        session.stop()
    print(text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--per-key-records", type=int, default=20_000)
    parser.add_argument("--memory-keys", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--latency", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def _loaded(servers: str, options: argparse.Namespace, settings: dict[str, str]) -> Bench:
    """Load the inputs, and let every part of Spark and of the broker run once."""
    small = _input(servers, "bench-small", options.records // 10, options.keys)
    large = _input(servers, "bench-large", options.records, options.keys)
    bench = Bench(
        servers=servers,
        large=large,
        small=small,
        streamed=large
        if large.records <= _STREAMED
        else _input(servers, "bench-streamed", _STREAMED, options.keys),
        short=_drawn(servers, "bench-short", options.per_key_records, options.keys),
        shorter=_drawn(servers, "bench-shorter", options.per_key_records // 10, options.keys),
        settings=settings,
    )
    inputs.await_coordinator(servers)
    warm = _input(servers, "bench-warm", _WARM, options.keys)
    for target in ("t1", "t2"):
        backfill(bench, warm, target)
    sql(bench, warm)
    return bench


def _input(servers: str, name: str, records: int, keys: int) -> Source:
    topic = f"{name}-{records}"
    if topic not in _made:
        inputs.create(servers, topic)
        inputs.load(servers, topic, _keyed(records, keys))
        _made.add(topic)
    return Source(topic=topic, records=records, keys=min(keys, records))


def _drawn(servers: str, topic: str, records: int, keys: int) -> Source:
    """Load what a micro-batch in the midst of the input is like: any of its keys."""
    draw = random.Random(7)
    chosen = [f"key-{draw.randrange(keys):08d}" for _ in range(records)]
    inputs.create(servers, topic)
    inputs.load(servers, topic, [(key, f"value-{n:034d}") for n, key in enumerate(chosen)])
    return Source(topic=topic, records=records, keys=len(set(chosen)))


_made: Final[set[str]] = set()


def _keyed(records: int, keys: int) -> Iterator[tuple[str, str]]:
    """Every key once, as far as the records go, then drawn ones; a key keeps its partition."""
    draw = random.Random(7)
    for number in range(records):
        partition = number % inputs.PARTITIONS
        drawn = draw.randrange(keys // inputs.PARTITIONS) * inputs.PARTITIONS + partition
        yield f"key-{number if number < keys else drawn:08d}", f"value-{number:034d}"


def _round(bench: Bench, systems: Sequence[str], number: int, found: Found) -> None:
    """Let each system have its turn."""
    for name in systems:
        rate = SYSTEMS[name](bench)
        found.rates.setdefault(name, []).append(rate)
        if name in bench.whole:
            found.rates.setdefault(f"{name}, whole", []).append(bench.whole[name])
        found.load.append(now_load())
        print(f"round {number + 1}, {name}: {rate:,.0f} records/s", flush=True)


def _latency(bench: Bench, work: str, number: int) -> Latency:
    """How long micro-batches take at a steady rate, and a record to its output."""
    source = f"bench-latency-{work}-{number}"
    sink = f"{source}-out"
    inputs.create(bench.servers, source, sink)
    command = [sys.executable, "-m", "benchmarks.spark_continuous", "--bootstrap", bench.servers]
    command += ["--work", work, "--input", source, "--output", sink]
    command += ["statestore.cache.max.bytes=0"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said: list[str] = []
        for line in process.stderr or ():
            said.append(line)
            if line.startswith("RUNNING"):
                break
        else:
            raise RuntimeError(f"the driver ended before it ran: {''.join(said)[-4000:]}")
        threading.Thread(target=process.stderr.read, daemon=True).start()  # type: ignore[union-attr]
        probe = Probe(bench.servers, source, sink, counts=work == "count", warm_up_s=WARM_UP_S)
        delays_ms = probe.delays()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        told = json.loads(process.stdout.read().splitlines()[-1])
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    found = Latency(batches_s=list(told["took"]), delays_ms=delays_ms)
    print(f"round {number + 1}, latency of {work}: {found.middle_s():.2f} s", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
