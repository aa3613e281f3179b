"""One benchmark of Headwater: StreamThreads as processes against a running broker.

    python -m benchmarks.headwater_run --bootstrap HOST:PORT --work count --input T --output T
        --application-id A --records N [--threads 2] [name=value ...]

``name=value`` are settings of the application. One line of JSON is printed, with the fields of the
Java yardstick, for all threads together. ``marks`` are those of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks.headwater_child import Closed, Measured, Wanted
from headwater.config import StreamsConfig
from headwater.model import metrics
from headwater.model.partitions import external_topics, plan
from headwater.model.reporting import report
from headwater.native.application import ApplicationSettings
from headwater.native.loading import topology_of
from headwater.native.messages import (
    AddTasks,
    ChildSettings,
    Failed,
    Go,
    Initialized,
    Stats,
    Stop,
)
from headwater.native.process import ChildProcess
from headwater.service.duties import Duties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.ids import TaskId
    from headwater.model.partitions import PartitionPlan

Driven: TypeAlias = "tuple[list[tuple[Measured, Closed]], list[Mapping[str, float]]]"
"""What each thread measured, and the shares of time that the threads told every second."""


def main() -> int:
    options = _arguments()
    os.environ["HEADWATER_BENCH_INPUT"] = options.input
    os.environ["HEADWATER_BENCH_OUTPUT"] = options.output
    given: dict[str, Any] = {
        "application.id": options.application_id,
        "bootstrap.servers": options.bootstrap,
        **dict(setting.split("=", 1) for setting in options.settings),
    }
    config = StreamsConfig.parse(given)
    planned = planned_for(config, options)
    create_internal_topics(config, planned)
    state_dir = options.state_dir or tempfile.mkdtemp(prefix="headwater-bench-")
    try:
        result = run(options, given, config, state_dir, planned.tasks)
    finally:
        if not options.state_dir:
            shutil.rmtree(state_dir, ignore_errors=True)
    print(json.dumps(result))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--application-id", default=f"bench-{time.time_ns()}")
    parser.add_argument("--records", type=int, required=True, help="until so many are processed")
    parser.add_argument("--marks", type=int, nargs="+", default=(), help="what is noted on the way")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--state-dir", help="kept; a temporary one otherwise")
    parser.add_argument("settings", nargs="*", metavar="name=value")
    return parser.parse_args()


def planned_for(config: StreamsConfig, options: argparse.Namespace) -> PartitionPlan:
    """Return tasks and internal topics of the work over topics of so many partitions."""
    topology = topology_of(f"benchmarks.works:{options.work}")
    found = report(topology, config.application_id)
    return plan(found, dict.fromkeys(external_topics(found), options.partitions))


def create_internal_topics(config: StreamsConfig, planned: PartitionPlan) -> None:
    """Create them as a worker does: a broker that has just created a topic may not show it yet."""
    Duties(config, client_id="bench").create_topics(planned.internal_topics)


def run(
    options: argparse.Namespace,
    given: dict[str, Any],
    config: StreamsConfig,
    state_dir: str,
    planned: Sequence[TaskId],
) -> dict[str, Any]:
    tasks = sorted(planned, key=lambda task: (task.partition, task.subtopology))
    shares = [tuple(tasks[slot :: options.threads]) for slot in range(options.threads)]
    if options.threads > 1:
        by_partition: dict[int, list[TaskId]] = {slot: [] for slot in range(options.threads)}
        for task in tasks:
            by_partition[task.partition % options.threads].append(task)
        shares = [tuple(by_partition[slot]) for slot in range(options.threads)]
    children = [
        ChildProcess(
            "benchmarks.headwater_child:run",
            Wanted(
                thread=ChildSettings(
                    application_id=config.application_id,
                    worker="bench-w-0",
                    slot=slot,
                    application=ApplicationSettings(
                        config=given, topology=f"benchmarks.works:{options.work}"
                    ),
                    state_dir=state_dir,
                    cache_bytes=config.statestore_cache_max_bytes // options.threads,
                ),
                records=options.records // options.threads,
                marks=tuple(options.marks),
            ),
            name=f"bench-{slot}",
        )
        for slot in range(options.threads)
    ]
    try:
        return _report(options, *_drive(children, shares))
    finally:
        for child in children:
            child.close()


def _drive(children: list[ChildProcess], shares: list[tuple[TaskId, ...]]) -> Driven:
    measured: dict[int, Measured] = {}
    closed: dict[int, Closed] = {}
    shares_of_time: list[Mapping[str, float]] = []
    ready: set[int] = set()
    stopping = False
    while len(closed) < len(children):
        wait([child.connection for child in children if not child.gone], timeout=60)
        for slot, child in enumerate(children):
            for message in child.receive():
                match message:
                    case Initialized():
                        ready.add(slot)
                    case Measured():
                        measured[slot] = message
                    case Closed():
                        closed[slot] = message
                    case Stats(numbers=numbers) if numbers.total(metrics.THREAD_PROCESS):
                        shares_of_time.append(
                            {
                                part: sum(numbers.rows(metric).values())
                                for part, metric in metrics.RATIOS.items()
                            }
                        )
                    case _:
                        _heed(message)
            if child.gone and slot not in closed:
                sys.exit(f"thread {slot} ended with {child.exit_code}")
        if len(ready) == len(children):
            ready.clear()
            _begin(children, shares)
        if len(measured) == len(children) and not stopping:
            stopping = True
            for child in children:
                child.send(Stop())
    found = [(measured[slot], closed[slot]) for slot in range(len(children))]
    return found, shares_of_time


def _begin(children: list[ChildProcess], shares: list[tuple[TaskId, ...]]) -> None:
    for child, tasks in zip(children, shares, strict=True):
        child.send(Go(epoch=1))
        child.send(AddTasks(tasks=tasks, epoch=1))


def _heed(message: object) -> None:
    if isinstance(message, Failed):
        sys.exit(f"{message.error}: {message.message}\n{message.traceback}")


def _report(
    options: argparse.Namespace,
    found: list[tuple[Measured, Closed]],
    shares_of_time: list[Mapping[str, float]],
) -> dict[str, Any]:
    return {
        "work": options.work,
        "records": sum(m.records for m, _ in found),
        "start_seconds": round(max(m.start_seconds for m, _ in found), 3),
        "seconds": round(max(m.seconds for m, _ in found), 3),
        "seconds_closed": round(max(c.seconds for _, c in found), 3),
        "cpu_seconds": round(sum(c.cpu_seconds for _, c in found), 3),
        "marks": found[0][0].marks,
        "commits": sum(c.commits for _, c in found),
        "produced": sum(c.produced for _, c in found),
        "peak_pss_mb": round(sum(c.peak_pss_mb for _, c in found), 1),
        "peak_rss_mb": round(sum(c.peak_rss_mb for _, c in found), 1),
        "ratios": {
            name: round(statistics.mean(share[name] for share in shares_of_time), 3)
            for name in (shares_of_time[0] if shares_of_time else ())
        },
    }


if __name__ == "__main__":
    sys.exit(main())
