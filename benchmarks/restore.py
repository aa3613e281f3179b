"""Restore of a changelog: StateUpdaters, on both paths, against Java Kafka Streams, interleaved.

    python -m benchmarks.restore [--bootstrap HOST:PORT] [--keys 2000000] [--rounds 3]

4 tasks; two StateUpdaters here, two StreamThreads (hence StateUpdaters) in Java. Java counts from
the start of the first store's restoration to the end of the last one's; here the clock runs from
the first ``Restore`` sent to the last ``Restored`` received. Processes are up before, in both.
Every store is counted afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import struct
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.java.tool import QUIET, JavaTool

from headwater.ids import TaskId
from headwater.local.broker import KafkaBroker
from headwater.native.application import ApplicationSettings
from headwater.native.messages import (
    Cancelled,
    CancelRestore,
    ChildSettings,
    Failed,
    Restore,
    Restored,
    Stop,
)
from headwater.native.process import ChildProcess
from headwater.state.backends.rocks import RocksBackend
from headwater.state.directory import StateDirectory

PARTITIONS = 4
UPDATERS = 2
LONG = struct.Struct(">q")


def main() -> int:
    options = _arguments()
    with ExitStack() as stack:
        servers = options.bootstrap
        if not servers:
            servers = stack.enter_context(KafkaBroker()).bootstrap_servers
        application_id = f"restore-{uuid.uuid4().hex[:8]}"
        prepare(servers, application_id, options.keys)
        systems = {
            "headwater": headwater,
            "in Python": partial(headwater, native="false"),
            **({} if options.without_java else {"java": java}),
        }
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in systems}
        for _ in range(options.rounds):
            for name, run in systems.items():
                rows[name].append(run(servers, application_id, options.keys))
                print(json.dumps({"engine": name, **rows[name][-1]}), flush=True)
    medians = {
        name: statistics.median(row["restore_seconds"] for row in found)
        for name, found in rows.items()
    }
    print(json.dumps({"median_seconds": medians}))
    ours = medians.pop("headwater")
    for name, seconds in medians.items():
        print(f"{seconds / ours:.2f}x {name}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", help="a running broker; a private one otherwise")
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-java", action="store_true")
    return parser.parse_args()


def prepare(servers: str, application_id: str, keys: int) -> None:
    """Make the topics and fill the changelog: one record a key, as a compacted one would be."""
    admin = AdminClient({"bootstrap.servers": servers})
    changelog = f"{application_id}-counts-changelog"
    compact = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    topics = [
        NewTopic(f"{application_id}-input", PARTITIONS, 1),
        NewTopic(f"{application_id}-output", PARTITIONS, 1),
        NewTopic(changelog, PARTITIONS, 1, config=compact),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
        }
    )
    now_ms = time.time_ns() // 1_000_000
    for number in range(keys):
        while True:
            try:
                producer.produce(
                    changelog,
                    LONG.pack(number),
                    f"key-{number * 7919 % keys:08d}".encode(),
                    number % PARTITIONS,
                    None,
                    None,
                    now_ms,
                )
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(120)


def headwater(servers: str, application_id: str, keys: int, native: str = "auto") -> dict[str, Any]:
    """Restore with StateUpdaters into a fresh directory.

    Args:
        servers: of the broker.
        application_id: whose changelog it is.
        keys: how many it has.
        native: ``headwater.native``, the path that records take.
    """
    os.environ["HEADWATER_BENCH_INPUT"] = f"{application_id}-input"
    os.environ["HEADWATER_BENCH_OUTPUT"] = f"{application_id}-output"
    state_dir = tempfile.mkdtemp(prefix="headwater-bench-")
    tasks = [TaskId(0, partition) for partition in range(PARTITIONS)]
    children = [
        ChildProcess(
            "headwater.native.updater:run",
            ChildSettings(
                application_id=application_id,
                worker="bench-w-0",
                slot=number,
                application=ApplicationSettings(
                    config={
                        "application.id": application_id,
                        "bootstrap.servers": servers,
                        "headwater.native": native,
                    },
                    topology="benchmarks.works:count",
                ),
                state_dir=state_dir,
                cache_bytes=0,
            ),
            name=f"bench-updater-{number}",
        )
        for number in range(UPDATERS)
    ]
    try:
        for child in children:
            child.send(CancelRestore(task=tasks[0]))
        _collect(children, Cancelled, UPDATERS)
        cpu_before = _cpu_seconds(children)
        started = time.perf_counter()
        for number, task in enumerate(tasks):
            children[number % UPDATERS].send(Restore(task=task, epoch=1))
        restored = _collect(children, Restored, len(tasks))
        seconds = time.perf_counter() - started
        cpu = _cpu_seconds(children) - cpu_before
        peak = sum(_peak_rss_mb(child.pid) for child in children)
        for child in children:
            child.send(Stop())
        for child in children:
            child.wait(30)
        stored = _stored(Path(state_dir), application_id, tasks)
        assert stored == keys, (stored, keys)
    finally:
        for child in children:
            child.close()
        shutil.rmtree(state_dir, ignore_errors=True)
    return {
        "restored": sum(message.records for message in restored),
        "restore_seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "peak_rss_mb": round(peak, 1),
    }


def _collect(children: list[ChildProcess], kind: type, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        wait([child.connection for child in children if not child.gone], timeout=60)
        for child in children:
            for message in child.receive():
                if isinstance(message, Failed):
                    sys.exit(f"{message.error}: {message.message}\n{message.traceback}")
                if isinstance(message, kind):
                    found.append(message)
            if child.gone:
                sys.exit(f"{child.name} ended with {child.exit_code}")
    return found


def _stored(state_dir: Path, application_id: str, tasks: list[TaskId]) -> int:
    directory = StateDirectory(state_dir, application_id)
    count = 0
    for task in tasks:
        backend = RocksBackend(directory.store(task, "counts").database)
        count += sum(1 for _ in backend.range(None, None))
        backend.close()
    return count


def _cpu_seconds(children: list[ChildProcess]) -> float:
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for child in children:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / ticks


def _peak_rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def java(servers: str, application_id: str, keys: int) -> dict[str, Any]:
    """Restore with Java Kafka Streams into a fresh directory."""
    state_dir = tempfile.mkdtemp(prefix="headwater-bench-java-")
    tool = JavaTool(Path(__file__).parent / "java")
    process = tool.start(
        "Yardstick",
        "work=restore",
        f"input={application_id}-input",
        f"output={application_id}-output",
        f"application.id={application_id}",
        f"bootstrap.servers={servers}",
        f"state.dir={state_dir}",
        f"num.stream.threads={UPDATERS}",
        "commit.interval.ms=30000",
        jvm=("-Xmx2g", QUIET),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"Java ended with {process.wait(30)}"
        result: dict[str, Any] = json.loads(line)
        process.wait(60)
    finally:
        process.kill()
        shutil.rmtree(state_dir, ignore_errors=True)
    assert result["restored"] == keys, result
    names = ("restored", "restore_seconds", "cpu_seconds", "peak_rss_mb")
    return {name: result[name] for name in names}


if __name__ == "__main__":
    sys.exit(main())
