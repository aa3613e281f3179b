"""What standbys cost the processing: a keyed count on two workers, with and without them.

    python -m benchmarks.standby [--records 2000000] [--keys 100000] [--rounds 3]

Two workers of one StreamThread each over one private broker, exactly-once with a commit every 100
ms; each holds half of four tasks, and keeps the standbys of the other half, or none. The input is
there before they start. The rate is that of the committed input offsets between a tenth and the
end. Everything shares the cores: the broker, both workers, and the StateUpdaters that follow the
changelogs. Writes ``benchmarks/STANDBY.md``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess

from benchmarks.report import machine
from headwater.ids import TaskId
from headwater.local.broker import KafkaBroker

TABLE: Final = Path(__file__).parent / "STANDBY.md"
PARTITIONS: Final = 4
_HALVES: Final = (
    (TaskId(0, 0), TaskId(0, 1)),
    (TaskId(0, 2), TaskId(0, 3)),
)
_LOOK_S: Final = 0.05
_PATIENCE_S: Final = 300.0
_GOAL, _FLOOR = 0.85, 0.7

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[float]] = {"without": [], "with": []}
    with KafkaBroker() as broker:
        for _ in range(options.rounds):
            for name, rates in found.items():
                rate = _rate(
                    broker.bootstrap_servers,
                    options.records,
                    options.keys,
                    standby=name == "with",
                )
                print(f"{name} standbys: {rate:,.0f} records/s", flush=True)
                rates.append(rate)
    TABLE.write_text(_page(found, options.records, options.keys))
    print(TABLE.read_text())
    return 0


def _rate(servers: str, records: int, keys: int, *, standby: bool) -> float:
    counting = _filled(servers, records, keys)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-s-")))
        workers = []
        for number in range(len(_HALVES)):
            worker = WorkerProcess(counting, directory, name=f"counting-w-{number}", threads=1)
            stack.callback(worker.close)
            worker.start().incarnation()
            workers.append(worker)
        progress = _Progress(counting, stack)
        for number, worker in enumerate(workers):
            copies = _HALVES[1 - number] if standby else ()
            worker.grant(*_HALVES[number], standby=copies)
        rate = progress.rate(records)
        assert counting.counted().total() == records
        if standby:
            for number, worker in enumerate(workers):
                _follows(worker, _HALVES[1 - number])
        for worker in workers:
            worker.stop()
    return rate


def _filled(servers: str, records: int, keys: int) -> Counting:
    counting = Counting(servers, f"standby-{uuid.uuid4().hex[:8]}", partitions=PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
        }
    )
    for number in range(records):
        if number % 500_000 == 0:
            producer.flush(120)
        key = number % keys
        producer.produce(counting.topic, b"v", b"key-%08d" % key, partition=key % PARTITIONS)
    producer.flush(120)
    return counting


def _follows(worker: WorkerProcess, tasks: Sequence[TaskId]) -> None:
    """Check that the copies were really kept: they reach the end of their changelogs."""

    def are_complete() -> bool:
        caught_up = {held.task for held in worker.status.tasks if held.caught_up}
        return set(tasks) <= caught_up

    wait_for(are_complete, what=f"the standbys of {worker.name}", timeout_s=_PATIENCE_S)


class _Progress:
    """Looks at the committed offsets of the input."""

    def __init__(self, counting: Counting, stack: ExitStack) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": counting.bootstrap_servers,
                "group.id": counting.application_id,
            }
        )
        stack.callback(self._consumer.close)
        self._wanted = [TopicPartition(counting.topic, number) for number in range(PARTITIONS)]

    def rate(self, records: int) -> float:
        """Records a second between a tenth and the end."""
        first: tuple[float, int] | None = None
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            found = self._consumer.committed(self._wanted, timeout=30)
            now, done = time.monotonic(), sum(max(0, each.offset) for each in found)
            if first is None and done >= records // 10:
                first = now, done
            elif first is not None and done >= records:
                return (done - first[1]) / (now - first[0])
            time.sleep(_LOOK_S)
        raise TimeoutError(f"{records} records took longer than {_PATIENCE_S:.0f} s")


def _page(found: Mapping[str, Sequence[float]], records: int, keys: int) -> str:
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    ratios = [a / b for a, b in zip(found["with"], found["without"], strict=True)]
    ratio = medians["with"] / medians["without"]
    verdict = "goal met" if ratio >= _GOAL else "floor met" if ratio >= _FLOOR else "missed"
    now = datetime.now(UTC)
    lines = [
        "# What standbys cost the processing",
        "",
        f"Written by `python -m benchmarks.standby`: {records:,} records of {keys:,} keys in",
        f"{PARTITIONS} tasks on two workers of one StreamThread each, exactly-once with a commit",
        "every 100 ms, one standby each on the other worker, or none; in turn, on one broker, all",
        "on the same cores. The standbys reach the end of their changelogs afterwards.",
        "",
        f"Machine: {machine()}. Measured {now:%Y-%m-%d %H:%M}, load {os.getloadavg()[0]:.1f}.",
        "",
        "| standbys | records/s, median | each round |",
        "|---|---|---|",
        *(
            f"| {name} | {medians[name]:,.0f} | {', '.join(f'{rate:,.0f}' for rate in rates)} |"
            for name, rates in found.items()
        ),
        "",
        f"Ratio **{ratio:.2f}x** ({min(ratios):.2f} to {max(ratios):.2f}); goal {_GOAL}x, floor",
        f"{_FLOOR}x: {verdict}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
