"""The memory of a keyed count at cache 0: all processes of a worker against a small JVM.

Java gets the smallest heap that keeps 95 % of the rate it has with 2 GB. Memory is the peak of the
sum of the proportional set sizes of all processes, looked at every quarter of a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.java.tool import QUIET

from benchmarks import inputs, systems

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.machine import Surroundings
    from benchmarks.systems import Job

HEAPS_MB = (48, 64, 96, 128, 192, 256, 512)
_KEPT = 0.95
_LOOK_S = 0.25


def compare(
    servers: str, job: Job, runs: int, around: Callable[[], Surroundings]
) -> list[dict[str, Any]]:
    """Find Java's smallest heap, then measure both in turn."""
    heap = smallest_heap(servers, job)
    found = []
    for _ in range(runs):
        for name in ("headwater", "java"):
            surroundings = around()
            with systems.names(servers) as (application_id, sink), systems.directory() as state:
                if name == "java":
                    jvm = (f"-Xmx{heap}m", QUIET)
                    command = systems.java_command(servers, job, application_id, sink, state, jvm)
                else:
                    command = _worker(servers, job, application_id, sink, state)
                result = _watched(command, servers, sink, job.source.records)
            result |= {"system": name, "records": job.source.records}
            if name == "java":
                result["heap_mb"] = heap
            result["load"] = round(os.getloadavg()[0], 1)
            result["others"] = round(surroundings.others(), 2)
            print(f"  {result}", flush=True)
            found.append(result)
    return found


def smallest_heap(servers: str, job: Job) -> int:
    """Return the smallest ``-Xmx`` (in MB) that keeps 95 % of the rate with 2 GB."""
    wide = systems.java(servers, job)
    print(f"  -Xmx2g: {wide.rate:,.0f} records/s", flush=True)
    for heap in HEAPS_MB:
        try:
            narrow = systems.java(servers, job, (f"-Xmx{heap}m", QUIET))
        except RuntimeError:
            print(f"  -Xmx{heap}m: does not run", flush=True)
            continue
        print(f"  -Xmx{heap}m: {narrow.rate:,.0f} records/s", flush=True)
        if narrow.rate >= _KEPT * wide.rate:
            return heap
    return 2048


def _worker(servers: str, job: Job, application_id: str, sink: str, state_dir: str) -> list[str]:
    settings = {
        "application.id": application_id,
        "bootstrap.servers": servers,
        "state.dir": state_dir,
        **job.settings,
    }
    return [
        *(sys.executable, "-m", "benchmarks.embedded", "--work", job.work),
        *("--input", job.source.topic, "--output", sink),
        *(f"{name}={value}" for name, value in settings.items()),
    ]


def _watched(command: list[str], servers: str, sink: str, wanted: int) -> dict[str, Any]:
    """Run until ``wanted`` records are in the output, looking at the memory all the while."""
    ends = Consumer({"bootstrap.servers": servers, "group.id": "memory"})
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + systems.RUN_TIMEOUT_S
    looks: list[float] = []
    parts: list[int] = []
    try:
        while _written(ends, sink) < wanted:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[:4]} did not write {wanted:,} records")
            found = [size for pid in family(process.pid) if (size := _pss_kb(pid))]
            if sum(found) / 1024 >= max(looks, default=0.0):
                parts = found
            looks.append(sum(found) / 1024)
            time.sleep(_LOOK_S)
        process.communicate(b"\n", timeout=60)
    finally:
        process.kill()
        process.wait()
        ends.close()
    return {
        "pss_mb": round(max(looks), 1),
        "pss_mb_mean": round(sum(looks) / len(looks), 1),
        "pss_mb_by_process": [round(size / 1024, 1) for size in parts],
    }


def _written(consumer: Consumer, topic: str) -> int:
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            for number in range(inputs.PARTITIONS)
        )
    except KafkaException:
        return 0  # a topic just made has no leader yet


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for parent in found:
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
            for task in tasks:
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it has ended meanwhile
    return found


def _pss_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
