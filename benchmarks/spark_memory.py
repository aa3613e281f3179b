"""What the processes of a backfill, or of a streaming query, keep resident at the most.

    python -m benchmarks.spark_memory --bootstrap HOST:PORT --input T --target t1|t2
        --records N --keys N

backfills a count once, in a process that does nothing else; ``peaks`` runs that and looks on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.spark_systems import MASTER, ROOT, Bench, Source, backfill
from headwater.spark.cluster import start

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGETS: Final = ("t1", "t2", "continuous")
SETTINGS: Final = {"spark.driver.memory": "1g"}
_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peaks in megabytes.

    Attributes:
        keys: how many there were.
        target: how it was computed: one of ``TARGETS``.
        java_mb: the JVM of driver and executor.
        driver_mb: the driver's Python.
        worker_mb: the largest Python worker, or task host.
    """

    keys: int
    target: str
    java_mb: float
    driver_mb: float
    worker_mb: float


def peaks(servers: str, source: Source, target: str) -> Memory:
    """Count a topic in processes of their own, and look at them meanwhile.

    Raises:
        RuntimeError: the count has failed.
    """
    found = {"java": 0.0, "driver": 0.0, "worker": 0.0}
    over = threading.Event()
    with subprocess.Popen(
        _command(servers, source, target),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:

        def look() -> None:
            while not over.wait(_LOOK_S):
                for kind, found_mb in _resident(process.pid):
                    found[kind] = max(found[kind], found_mb)

        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        _, said = process.communicate()
        over.set()
        watching.join()
    if process.returncode != 0:
        raise RuntimeError(f"{target} ended with {process.returncode}:\n{said[-4000:]}")
    print(f"{source.keys:,} keys, {target}: {found}", flush=True)
    return Memory(
        keys=source.keys,
        target=target,
        java_mb=found["java"],
        driver_mb=found["driver"],
        worker_mb=found["worker"],
    )


def _command(servers: str, source: Source, target: str) -> list[str]:
    told = ["--bootstrap", servers, "--input", source.topic, "--records", str(source.records)]
    if target == "continuous":
        told += ["--work", "state", "--output", "bench-none"]
        return [sys.executable, "-m", "benchmarks.spark_continuous", *told]
    told += ["--keys", str(source.keys), "--target", target]
    return [sys.executable, "-m", "benchmarks.spark_memory", *told]


def _resident(driver: int) -> Iterator[tuple[str, float]]:
    """Yield the resident sets of a driver, of its JVM, its Python workers and task hosts."""
    try:
        root = psutil.Process(driver)
        yield "driver", root.memory_info().rss / 2**20
        below = root.children(recursive=True)
    except psutil.Error:
        return
    for process in below:
        try:
            command, resident = " ".join(process.cmdline()), process.memory_info().rss / 2**20
        except psutil.Error:
            continue
        if "org.apache.spark" in command:
            yield "java", resident
        elif "pyspark.daemon" in command or "headwater.spark.turns.hosting" in command:
            yield "worker", resident


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--target", required=True, choices=("t1", "t2"))
    parser.add_argument("--records", required=True, type=int)
    parser.add_argument("--keys", required=True, type=int)
    options = parser.parse_args()
    source = Source(topic=options.input, records=options.records, keys=options.keys)
    bench = Bench(
        servers=options.bootstrap,
        large=source,
        small=source,
        streamed=source,
        short=source,
        shorter=source,
        settings=SETTINGS,
    )
    session = start(MASTER, SETTINGS)
    try:
        backfill(bench, source, options.target)
    finally:
        session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
