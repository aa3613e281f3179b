"""What a crash costs under exactly-once: records read again, against Java Kafka Streams.

    python -m benchmarks.crash [--keys 2000000] [--rounds 3]

Both count by key with a commit every 100 ms until every key is counted, then go on under a load of
5,000 records/s until all their processes are killed at once (SIGKILL). Both start again over the
same directory; Java tells what it restored by its ``StateRestoreListener``, here the worker does
(``/tasks``). Writes ``benchmarks/CRASH.md``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.java.tool import QUIET, JavaTool
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess

from benchmarks import inputs
from benchmarks.report import measured, verdict
from headwater.ids import TaskId
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLE: Final = Path(__file__).parent / "CRASH.md"
PARTITIONS: Final = 4
_TASKS: Final = tuple(TaskId(0, number) for number in range(PARTITIONS))
_LOAD_S: Final = 5.0
_PER_TICK: Final = 50
_TICK_S: Final = 0.01
_PATIENCE_S: Final = 600.0
_GOAL, _FLOOR = 0.05, 0.2


@dataclass(frozen=True)
class Crash:
    """What came after it.

    Attributes:
        restored: records read again.
        seconds: from the second start until all tasks ran, start of the program included.
    """

    restored: int
    seconds: float


class Load(threading.Thread):
    """Sends records of random keys at a steady rate."""

    def __init__(self, servers: str, topic: str, keys: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._topic = topic
        self._keys = keys
        self._over = threading.Event()

    def run(self) -> None:
        """Send until told to stop."""
        draw = random.Random(7)
        while not self._over.wait(_TICK_S):
            for _ in range(_PER_TICK):
                number = draw.randrange(self._keys)
                self._producer.produce(
                    self._topic, b"v", _key(number), partition=number % PARTITIONS
                )
            self._producer.poll(0)

    def stop(self) -> None:
        """Send no more."""
        self._over.set()
        self.join()
        self._producer.flush(30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[Crash]] = {"headwater": [], "java": []}
    with KafkaBroker() as broker:
        for _ in range(options.rounds):
            for name, run in (("headwater", _headwater), ("java", _java)):
                with tempfile.TemporaryDirectory(prefix="headwater-crash-") as directory:
                    crash = run(broker.bootstrap_servers, Path(directory), options.keys)
                print(f"{name}: {crash}", flush=True)
                found[name].append(crash)
        with tempfile.TemporaryDirectory(prefix="headwater-crash-") as directory:
            servers = broker.bootstrap_servers
            proof = _headwater(servers, Path(directory), options.keys, stores_deleted=True)
    assert proof.restored >= options.keys, "the counter of restored records does not count"
    TABLE.write_text(_page(found, options.keys, proof.restored))
    print(TABLE.read_text())
    return 0


def _key(number: int) -> bytes:
    return b"key-%08d" % number


def _filled(servers: str, keys: int, *, changelog: bool) -> Counting:
    """Topics of a fresh application, its input one record a key."""
    counting = Counting(
        servers, f"crash-{uuid.uuid4().hex[:8]}", partitions=PARTITIONS, changelog=changelog
    )
    inputs.load(servers, counting.topic, ((_key(number), b"v") for number in range(keys)))
    return counting


def _crashed(counting: Counting, keys: int, kill: Callable[[], None]) -> None:
    """Wait until every key is counted; then, under load, kill."""

    def is_counted() -> bool:
        return sum(max(0, offset) for offset in counting.committed().values()) >= keys

    wait_for(is_counted, what="all keys to be counted", timeout_s=_PATIENCE_S, every_s=0.5)
    load = Load(counting.bootstrap_servers, counting.topic, keys)
    load.start()
    before = sum(counting.committed().values())
    time.sleep(_LOAD_S)
    assert sum(counting.committed().values()) > before, "nothing is in flight"
    kill()
    load.stop()


def _headwater(servers: str, directory: Path, keys: int, *, stores_deleted: bool = False) -> Crash:
    counting = _filled(servers, keys, changelog=True)
    worker = WorkerProcess(counting, directory)
    try:
        worker.started_with(*_TASKS)

        def kill() -> None:
            for process in _family(worker.pid):
                process.kill()
            worker.exit_code()

        _crashed(counting, keys, kill)
        if stores_deleted:
            shutil.rmtree(worker.state_dir)
        began = time.monotonic()
        worker.started_with(*_TASKS)
        seconds = time.monotonic() - began
        _, text = worker.get("/tasks")
        restored = int(json.loads(text)["restoredTotal"])
        _all_is_counted(counting)
    finally:
        worker.close()
    return Crash(restored, seconds)


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _java(servers: str, directory: Path, keys: int) -> Crash:
    counting = _filled(servers, keys, changelog=False)
    tool = JavaTool(Path(__file__).parent / "java")

    def start(work: str) -> Any:
        return tool.start(
            "Yardstick",
            f"work={work}",
            f"input={counting.topic}",
            f"output={counting.topic}-counts",
            f"application.id={counting.application_id}",
            f"bootstrap.servers={servers}",
            f"state.dir={directory / 'state'}",
            "num.stream.threads=2",
            "processing.guarantee=exactly_once_v2",
            "commit.interval.ms=100",
            "session.timeout.ms=10000",
            jvm=("-Xmx2g", QUIET),
        )

    first = start("count")
    try:

        def kill() -> None:
            first.kill()
            first.wait(30)

        _crashed(counting, keys, kill)
    finally:
        first.kill()
    began = time.monotonic()
    second = start("restore")
    try:
        line = second.stdout.readline()
        seconds = time.monotonic() - began
        assert line, f"Java ended with {second.wait(30)}"
        return Crash(int(json.loads(line)["restored"]), seconds)
    finally:
        second.kill()


def _all_is_counted(counting: Counting) -> None:
    """Check that everything sent is counted, and nothing twice."""
    ends = Consumer({"bootstrap.servers": counting.bootstrap_servers, "group.id": "crash-ends"})
    wanted = {
        number: ends.get_watermark_offsets(TopicPartition(counting.topic, number), timeout=30)[1]
        for number in range(PARTITIONS)
    }
    ends.close()
    wait_for(lambda: counting.committed() == wanted, what="the rest", timeout_s=_PATIENCE_S)
    assert counting.counted().total() == sum(wanted.values())


def _rounds(crashes: list[Crash]) -> Iterator[str]:
    for crash in crashes:
        yield f"{crash.restored:,} ({crash.seconds:.1f} s)"


def _page(found: dict[str, list[Crash]], keys: int, proof: int) -> str:
    medians = {
        name: statistics.median(crash.restored for crash in crashes)
        for name, crashes in found.items()
    }
    ratio = medians["headwater"] / medians["java"]
    lines = [
        "# What a crash costs under exactly-once",
        "",
        f"Written by `python -m benchmarks.crash`: a count of {keys:,} keys in {PARTITIONS} tasks,",
        "killed (SIGKILL, all processes) under a load of 5,000 records/s, started again over the",
        "same directory; the same input for Java Kafka Streams 4.3.1 and Headwater, in turn, one",
        "broker. Restored: records of the changelog that were read again. Seconds: from the start",
        "of the program until all tasks run, which in Java includes joining the group.",
        "",
        f"Machine: {measured()}.",
        "",
        "| | restored, median | each round |",
        "|---|---|---|",
        *(
            f"| {name} | {medians[name]:,.0f} | {'; '.join(_rounds(crashes))} |"
            for name, crashes in found.items()
        ),
        "",
        f"Ratio **{ratio:.4f}x** (goal {_GOAL}x, floor {_FLOOR}x):",
        f"{verdict(ratio, _GOAL, _FLOOR)}. What counts the records does count: started with its",
        f"stores deleted, Headwater restored {proof:,} of at least {keys:,}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
