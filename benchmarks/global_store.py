"""Global stores: how long they take to be filled, against Java, and what a look-up costs.

    python -m benchmarks.global_store [--rows 1000000] [--rounds 5]

``filled``: one table of 4 partitions, rows of a 12-byte key and a 32-byte value. Both sides are up
before: Java counts from the start of the store's restoration to its end, here the clock runs from
when the GlobalStreamThread has reached the broker until it says that its stores are filled. The two
take turns, each into a fresh directory. Every row is read back afterwards.

``joins``: what a StreamTask costs for each record that it joins with a row of a random key: of a
copy in the StreamThread's memory, as before there was a process for global stores, and of the files
of that process. CPU time, without Kafka; the two take turns. The page is ``benchmarks/GLOBAL.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.java.tool import QUIET, JavaTool

from benchmarks.micro.task import NullCollector
from benchmarks.report import measured
from benchmarks.restore import _cpu_seconds, _peak_rss_mb
from headwater import Serdes
from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.ids import TaskId, TopicPartition
from headwater.local.broker import KafkaBroker
from headwater.native.application import ApplicationSettings
from headwater.native.global_stores import open_global_store
from headwater.native.messages import ChildSettings, Failed, GlobalProgress, Stop
from headwater.native.process import ChildProcess
from headwater.processor.environment import GlobalStore
from headwater.processor.task import StreamTask
from headwater.state import BlockCache, MemoryBackend
from headwater.state.backends.rocks_shared import SharedRocks, SharedRocksReader
from headwater.state.directory import StateDirectory
from headwater.state.global_store import SETTLED_BYTES
from headwater.testing import ManualClock

if TYPE_CHECKING:
    from headwater import StreamsBuilder
    from headwater.ports import Backend, RawRecord

PAGE: Final = Path(__file__).parent / "GLOBAL.md"
PARTITIONS: Final = 4
INPUT: Final = "HEADWATER_BENCH_INPUT"
JOINED: Final = 200_000
SIZES: Final = (10_000, 100_000, 1_000_000)
_PATIENCE_S: Final = 300.0


def table(builder: StreamsBuilder) -> None:
    """A stream that is joined with a global table."""
    strings: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
    found = builder.global_table(f"{os.environ[INPUT]}-other", store="global", **strings)
    stream = builder.stream(os.environ[INPUT], **strings)
    stream.join(found, lambda key, _: key, lambda mine, its: mine + its)


def main() -> int:
    """Measure and write the page."""
    options = _arguments()
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        topic = f"global-{uuid.uuid4().hex[:8]}"
        prepare(servers, topic, options.rows)
        rows: dict[str, list[dict[str, Any]]] = {"headwater": [], "java": []}
        for _ in range(options.rounds):
            for name, run in (("headwater", headwater), ("java", java)):
                rows[name].append(run(servers, topic, options.rows))
                print(json.dumps({"engine": name, **rows[name][-1]}), flush=True)
    filled = {
        name: statistics.median(row["seconds"] for row in found) for name, found in rows.items()
    }
    print(f"filled: {filled['headwater'] / filled['java']:.2f} of Java's time")
    found = {size: joins(size, options.rounds) for size in SIZES}
    PAGE.write_text(_page(rows, filled, found, options.rows))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def key_of(number: int) -> str:
    """Return the key of a row."""
    return f"key-{number:08d}"


def prepare(servers: str, topic: str, rows: int) -> None:
    """Make the topics and fill the table's: one record a key."""
    admin = AdminClient({"bootstrap.servers": servers})
    compact = {"cleanup.policy": "compact"}
    topics = [
        NewTopic(topic, PARTITIONS, 1),
        NewTopic(f"{topic}-output", PARTITIONS, 1),
        NewTopic(f"{topic}-other", PARTITIONS, 1, config=compact),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "queue.buffering.max.messages": 2_000_000,
            "delivery.report.only.error": True,
        }
    )
    for number in range(rows):
        row = number * 7919 % rows
        while True:
            try:
                producer.produce(
                    f"{topic}-other", f"value-{row:026d}", key_of(row), row % PARTITIONS
                )
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(120)


def headwater(servers: str, topic: str, rows: int) -> dict[str, Any]:
    """Fill the store with a GlobalStreamThread, into a fresh directory."""
    os.environ[INPUT] = topic
    state_dir = tempfile.mkdtemp(prefix="headwater-bench-")
    child = ChildProcess(
        "headwater.native.global_thread:run",
        ChildSettings(
            application_id=topic,
            worker="bench-w-0",
            slot=0,
            application=ApplicationSettings(
                config={"application.id": topic, "bootstrap.servers": servers},
                topology="benchmarks.global_store:table",
            ),
            state_dir=state_dir,
            cache_bytes=0,
        ),
        name="bench-global",
    )
    try:
        _progress(child, filled=False)
        cpu, began = _cpu_seconds([child]), time.perf_counter()
        told = _progress(child, filled=True)
        seconds = time.perf_counter() - began
        cpu = _cpu_seconds([child]) - cpu
        peak = _peak_rss_mb(child.pid)
        child.send(Stop())
        child.wait(30)
        assert told.records == rows, told
        place = StateDirectory(Path(state_dir), topic).global_store("global")
        backend = SharedRocks(place.database)
        assert sum(1 for _ in backend.range(None, None)) == rows
        backend.close()
    finally:
        child.close()
        shutil.rmtree(state_dir, ignore_errors=True)
    return {"seconds": round(seconds, 3), "cpu": round(cpu, 2), "peak_mb": round(peak)}


def _progress(child: ChildProcess, *, filled: bool) -> GlobalProgress:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        wait([child.connection], timeout=60)
        for message in child.receive():
            if isinstance(message, Failed):
                sys.exit(f"{message.error}: {message.message}\n{message.traceback}")
            if isinstance(message, GlobalProgress) and message.filled >= filled:
                return message
        if child.gone:
            break
    sys.exit(f"{child.name} ended with {child.exit_code}")


def java(servers: str, topic: str, rows: int) -> dict[str, Any]:
    """Fill the store with Java Kafka Streams, into a fresh directory."""
    state_dir = tempfile.mkdtemp(prefix="headwater-bench-java-")
    process = JavaTool(Path(__file__).parent / "java").start(
        "Yardstick",
        "work=global_store",
        f"input={topic}",
        f"output={topic}-output",
        f"application.id={topic}-java",
        f"bootstrap.servers={servers}",
        f"state.dir={state_dir}",
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
    assert result["restored"] == rows, result
    return {
        "seconds": result["restore_seconds"],
        "cpu": round(result["cpu_seconds"], 2),
        "peak_mb": round(result["peak_rss_mb"]),
    }


def joins(rows: int, rounds: int) -> dict[str, float]:
    """Return microseconds of CPU time of a joined record: with a copy, and with shared files."""
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        writer, copy = SharedRocks(directory / "db"), MemoryBackend()
        _fill(writer, rows)
        _fill(copy, rows)
        reader = SharedRocksReader(directory / "db", directory / "reader", block_cache=BlockCache())
        tasks = {"copy": _joining(copy, None), "shared": _joining(reader, SETTLED_BYTES)}
        rng = random.Random(rows)
        took: dict[str, list[float]] = {name: [] for name in tasks}
        for _ in range(rounds + 1):  # the first one warms up
            batches = [
                [(0, 0, key_of(rng.randrange(rows)).encode(), b"mine", None) for _ in range(2_000)]
                for _ in range(JOINED // 2_000)
            ]
            for name, task in tasks.items():
                took[name].append(_microseconds(task, batches))
        for backend in (reader, writer):
            backend.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    found = {name: statistics.median(times[1:]) for name, times in took.items()}
    print(json.dumps({"rows": rows, **{name: round(us, 2) for name, us in found.items()}}))
    return found


def _fill(backend: Backend, rows: int) -> None:
    stamp = bytes(8)
    for start in range(0, rows, 5_000):
        numbers = range(start, min(rows, start + 5_000))
        backend.write(
            [(key_of(n).encode(), stamp + f"value-{n:026d}".encode()) for n in numbers], None
        )


def _joining(backend: Backend, settled_bytes_max: int | None) -> StreamTask:
    os.environ[INPUT] = "in"
    topology = build_topology(table, config={})
    (group,) = topology.global_subtopologies
    (spec,) = group.stores
    (joining,) = topology.subtopologies
    config = StreamsConfig.parse({"application.id": "bench", "bootstrap.servers": "none:1"})
    store = open_global_store(group, config, backend, settled_bytes_max)
    task = StreamTask(
        task_id=TaskId(joining.id, 0),
        subtopology=joining,
        partitions=[TopicPartition("in", 0)],
        config=config,
        collector=NullCollector(),
        stores={},
        clock=ManualClock(0),
        topic_name=str,
        warn=print,
        global_stores={spec.name: GlobalStore(store, spec.kind)},
    )
    task.initialize()
    return task


def _microseconds(task: StreamTask, batches: list[list[RawRecord]]) -> float:
    (partition,) = task.partitions
    began = time.process_time()
    for batch in batches:
        task.add_records(partition, batch)
        task.process(len(batch), 0)
    return 1e6 * (time.process_time() - began) / sum(map(len, batches))


def _page(
    rows: dict[str, list[dict[str, Any]]],
    filled: dict[str, float],
    found: dict[int, dict[str, float]],
    count: int,
) -> str:
    each = {name: ", ".join(f"{row['seconds']:.2f}" for row in runs) for name, runs in rows.items()}
    about = (
        f"A global table of {count:,} rows in {PARTITIONS} partitions, filled from its topic into "
        "an empty directory. The two sides take turns."
    )
    lines = [
        "# Global stores",
        "",
        measured(),
        "",
        about,
        "",
        "| | median | each run | CPU seconds | peak memory of the process |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    for name, title in (("headwater", "Headwater"), ("java", "Java Kafka Streams 4.3.1")):
        cpu = statistics.median(row["cpu"] for row in rows[name])
        peak = statistics.median(row["peak_mb"] for row in rows[name])
        seconds = f"{filled[name]:.2f} s | {each[name]}"
        lines.append(f"| {title} | {seconds} | {cpu:.1f} | {peak:,.0f} MB |")
    about_joins = (
        f"A stream joined with such a table, {JOINED:,} records of random keys in each run, "
        "without Kafka: CPU time of a StreamTask for each record. The table is a copy in the "
        "StreamThread's memory, or lies in the files that all StreamThreads of a worker share; of "
        "these a StreamThread keeps rows decoded, up to 64 MB."
    )
    lines += [
        "",
        f"Headwater takes **{filled['headwater'] / filled['java']:.2f}** of Java's time.",
        "",
        about_joins,
        "",
        "| rows | copy in memory | shared files | |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for size, us in found.items():
        both = f"{us['copy']:.2f} us | {us['shared']:.2f} us"
        lines.append(f"| {size:,} | {both} | {us['shared'] / us['copy']:.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
