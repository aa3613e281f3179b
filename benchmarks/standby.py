"""What standbys cost the processing: a keyed count on two workers, with and without them.

    python -m benchmarks.standby [--records 2000000] [--keys 100000] [--rounds 3]

Two workers of one StreamThread each over one private broker, exactly-once with a commit every 100
ms; each holds half of four tasks, and keeps the standbys of the other half, or none. The input is
there before they start. The rate is that of the committed input offsets between a tenth and the
end. Everything shares the cores: the broker, both workers, and the StateUpdaters that follow the
changelogs. What the standbys had left to read at the end, and how long that took, is told: a copy
that falls behind would cost nothing. So is the CPU time of each kind of process, from the grant on
until the standbys are at the end, of those that run then. Writes ``benchmarks/STANDBY.md``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess

from benchmarks import inputs
from benchmarks.report import measured, verdict
from headwater.ids import TaskId
from headwater.local.broker import KafkaBroker
from headwater.model.cluster import Role

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
    found: dict[str, list[_Run]] = {"without": [], "with": []}
    with KafkaBroker() as broker:
        for _ in range(options.rounds):
            for name, runs in found.items():
                run = _run(
                    broker.bootstrap_servers,
                    options.records,
                    options.keys,
                    standby=name == "with",
                )
                print(f"{name} standbys: {run}", flush=True)
                runs.append(run)
    TABLE.write_text(_page(found, options.records, options.keys))
    print(TABLE.read_text())
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What one run showed."""

    rate: float
    behind: int
    """Records that the standbys had left to read when the last input was committed."""
    behind_s: float
    """How long they took for that."""
    cpu_us: Mapping[str, float]
    """CPU time per record of the input, by kind of process."""
    promoted_s: float = 0.0
    """From the grant of tasks to the worker with their standbys until they are processed."""

    def __str__(self) -> str:
        cpu = ", ".join(f"{kind} {us:.2f}" for kind, us in self.cpu_us.items())
        return (
            f"{self.rate:,.0f} records/s, {self.behind:,} behind for {self.behind_s:.1f} s; "
            f"CPU us a record: {cpu}"
        )


def _run(servers: str, records: int, keys: int, *, standby: bool) -> _Run:
    counting = _filled(servers, records, keys)
    behind, behind_s, promoted_s = 0, 0.0, 0.0
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-s-")))
        workers = []
        for number in range(len(_HALVES)):
            worker = WorkerProcess(counting, directory, name=f"counting-w-{number}", threads=1)
            stack.callback(worker.close)
            worker.start().incarnation()
            workers.append(worker)
        progress = _Progress(counting, stack)
        before = _cpu_seconds()
        for number, worker in enumerate(workers):
            copies = _HALVES[1 - number] if standby else ()
            worker.grant(*_HALVES[number], standby=copies)
        rate = progress.rate(records)
        if standby:
            ended = time.monotonic()
            behind = sum(
                _left(worker, _HALVES[1 - number]) for number, worker in enumerate(workers)
            )
            for number, worker in enumerate(workers):
                _follows(worker, _HALVES[1 - number])
            behind_s = time.monotonic() - ended
        spent = {kind: used - before.get(kind, 0.0) for kind, used in _cpu_seconds().items()}
        assert counting.counted().total() == records
        if standby:
            promoted_s = _promotion(*workers)
        for worker in workers:
            worker.stop()
    return _Run(
        rate=rate,
        behind=behind,
        behind_s=behind_s,
        cpu_us={kind: used / records * 1e6 for kind, used in spent.items()},
        promoted_s=promoted_s,
    )


def _cpu_seconds() -> dict[str, float]:
    """CPU time so far of the processes that this one has started, by kind."""
    used = dict.fromkeys(("StreamThreads", "StateUpdaters", "broker", "others"), 0.0)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            command, times = " ".join(process.cmdline()), process.cpu_times()
            kinds = {"StreamThread": "StreamThreads", "StateUpdater": "StateUpdaters"}
            kind = next((kinds[word] for word in kinds if word in command), "others")
            kind = "broker" if "java" in process.name() else kind
            used[kind] += times.user + times.system
    return used


def _filled(servers: str, records: int, keys: int) -> Counting:
    counting = Counting(servers, f"standby-{uuid.uuid4().hex[:8]}", partitions=PARTITIONS)
    assert keys % PARTITIONS == 0, "a key stays in its partition"
    sent = ((b"key-%08d" % (number % keys), b"v") for number in range(records))
    inputs.load(servers, counting.topic, sent)
    return counting


def _left(worker: WorkerProcess, tasks: Sequence[TaskId]) -> int:
    """What copies of these tasks have left to read, as it was told last (twice a second)."""
    _, text = worker.get("/tasks")
    names = {str(task) for task in tasks}
    held = json.loads(text)["tasks"]
    return sum(item["remaining"] for item in held if item["task"] in names)


def _follows(worker: WorkerProcess, tasks: Sequence[TaskId]) -> None:
    """Check that the copies were really kept: they reach the end of their changelogs."""

    def are_complete() -> bool:
        caught_up = {held.task for held in worker.status.tasks if held.caught_up}
        return set(tasks) <= caught_up and _left(worker, tasks) == 0

    wait_for(are_complete, what=f"the standbys of {worker.name}", timeout_s=_PATIENCE_S)


def _promotion(giver: WorkerProcess, taker: WorkerProcess) -> float:
    """Take one worker's tasks away and give them to the other, which has followed them."""
    giver.write(active=())

    def are_released() -> bool:
        held = {held.task for held in giver.status.tasks if held.role is Role.ACTIVE}
        return not held

    wait_for(are_released, what=f"{giver.name} to release its tasks", timeout_s=_PATIENCE_S)
    began = time.monotonic()
    taker.grant(*_HALVES[0], *_HALVES[1], standby=())
    wait_for(
        lambda: taker.is_running(*_HALVES[0], *_HALVES[1]),
        what=f"{taker.name} to run all tasks",
        timeout_s=_PATIENCE_S,
        every_s=0.002,
    )
    return time.monotonic() - began


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
            try:
                found = self._consumer.committed(self._wanted, timeout=30)
            except KafkaException as error:
                # The topic of the offsets is just being made.
                if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                    raise
                found = []
            now, done = time.monotonic(), sum(max(0, each.offset) for each in found)
            if first is None and done >= records // 10:
                first = now, done
            elif first is not None and done >= records:
                return (done - first[1]) / (now - first[0])
            time.sleep(_LOOK_S)
        raise TimeoutError(f"{records} records took longer than {_PATIENCE_S:.0f} s")


def _page(found: Mapping[str, Sequence[_Run]], records: int, keys: int) -> str:
    rates = {name: [run.rate for run in runs] for name, runs in found.items()}
    medians = {name: statistics.median(each) for name, each in rates.items()}
    ratios = [a / b for a, b in zip(rates["with"], rates["without"], strict=True)]
    behind = statistics.median(run.behind for run in found["with"])
    behind_s = statistics.median(run.behind_s for run in found["with"])
    promoted = statistics.median(run.promoted_s for run in found["with"])
    kinds = list(found["with"][0].cpu_us)
    ratio = medians["with"] / medians["without"]
    lines = [
        "# What standbys cost the processing",
        "",
        f"Written by `python -m benchmarks.standby`: {records:,} records of {keys:,} keys in",
        f"{PARTITIONS} tasks on two workers of one StreamThread each, exactly-once with a commit",
        "every 100 ms, one standby each on the other worker, or none; in turn, on one broker, all",
        "on the same cores. The standbys reach the end of their changelogs afterwards.",
        "",
        f"Machine: {measured()}.",
        "",
        f"| standbys | records/s, median | each round | CPU us a record: {', '.join(kinds)} |",
        "|---|---|---|---|",
        *(
            f"| {name} | {medians[name]:,.0f} "
            f"| {', '.join(f'{run.rate:,.0f}' for run in runs)} "
            f"| {', '.join(f'{_cpu_us(runs, kind):.2f}' for kind in kinds)} |"
            for name, runs in found.items()
        ),
        "",
        f"Ratio **{ratio:.2f}x** ({min(ratios):.2f} to {max(ratios):.2f}); goal {_GOAL}x, floor",
        f"{_FLOOR}x: {verdict(ratio, _GOAL, _FLOOR, less_is_better=False)}.",
        f"When the last input was committed, the standbys had {behind:,.0f} records left to read;",
        f"{behind_s:.1f} s later they had none (told twice a second). Tasks granted to the worker",
        f"that had followed them were processed {promoted * 1000:.0f} ms later: two standbys",
        "closed, opened as stores and read to the end of what they missed.",
    ]
    return "\n".join(lines) + "\n"


def _cpu_us(runs: Sequence[_Run], kind: str) -> float:
    return statistics.median(run.cpu_us[kind] for run in runs)


if __name__ == "__main__":
    sys.exit(main())
