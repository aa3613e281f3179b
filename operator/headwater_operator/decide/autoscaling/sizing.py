"""How many workers a load needs, and how long it takes until another one is of use.

Tasks are shared out by their number, so the StreamThread with most of them is what counts: 6 tasks
on 4 StreamThreads are no faster than on 3. A task is processed by one StreamThread; what it has
beyond that, no worker can help.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.streamapp_autoscaling import AutoscalingSpec
    from headwater_operator.decide.autoscaling.load import Load

UP_MARGIN: Final = 1.1
"""Workers are to be able to do so many times what they need to."""
DOWN_MARGIN: Final = 1.4
"""The same of those that stay when others go: so much that they are not soon missed."""
_HOT: Final = 0.95
"""A task with such a part of a StreamThread's capacity of its own is hot."""
_LAG_WORKED_OFF_S: Final = 120.0
"""With targetLag, what is beyond half of it is to be processed within this time."""
START_S: Final = 20.0
"""So long a new worker takes until it can begin to warm up."""
RESTORE_RATE: Final = 100_000.0
"""Changelog records per second that a warm-up reads while the others process.

benchmarks/RESULTS.md has 375,375 for a restore with two cores of its own.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What tasks are shared out among.

    Attributes:
        tasks: how many there are.
        threads: StreamThreads of a worker.
        state: changelog records of all tasks together that a copy would have to read.
    """

    tasks: int
    threads: int
    state: int = 0

    @property
    def most_useful(self) -> int:
        """With so many workers every task has a StreamThread of its own."""
        return max(1, ceil(self.tasks / self.threads))

    def useful(self, workers: int) -> int:
        """Return the fewest workers whose StreamThreads have no more tasks than of so many."""
        fullest = self.fullest(workers)
        return next((n for n in range(1, workers) if self.fullest(n) == fullest), workers)

    def fullest(self, workers: int) -> int:
        """Return how many tasks the StreamThread with most tasks has."""
        return ceil(self.tasks / (workers * self.threads))


def backlog(policy: AutoscalingSpec, load: Load) -> dict[TaskId, float]:
    """Return records per second to process beyond arrivals to keep to the target, by task."""
    lags = {task: reading.lag or 0 for task, reading in load.readings.items()}
    if policy.target_catch_up_ms is not None:
        seconds = max(1.0, policy.target_catch_up_ms / 1000)
        return {task: lag / seconds for task, lag in lags.items()}
    total, allowed = sum(lags.values()), (policy.target_lag or 0) / 2
    share = max(0.0, total - allowed) / total if total else 0.0
    return {task: lag * share / _LAG_WORKED_OFF_S for task, lag in lags.items()}


def demand(policy: AutoscalingSpec, load: Load) -> float:
    """Return records per second that are to be processed, without what no worker could help."""
    more = backlog(policy, load)
    tasks = load.readings.keys() | load.arrivals.keys()
    return sum(
        min(load.capacity, load.arrivals.get(task, 0.0) + more.get(task, 0.0)) for task in tasks
    )


def wanted(rate: float, load: Load, shape: Shape, *, margin: float) -> int:
    """Return the fewest workers that can process a rate, with a margin.

    The capacity is known, or the rate is 0.
    """
    if rate <= 0 or shape.tasks == 0:
        return 1
    most = shape.most_useful
    of_a_task = rate * margin / shape.tasks
    fits = (n for n in range(1, most) if shape.fullest(n) * of_a_task <= load.capacity)
    return next(fits, most)


def throughput(load: Load, shape: Shape, workers: int) -> float:
    """Return records per second that so many workers can process, evenly loaded."""
    fullest = shape.fullest(workers)
    return load.capacity * shape.tasks / fullest if fullest else 0.0


def hot(load: Load) -> list[TaskId]:
    """Return the tasks that have more to do than one StreamThread can."""
    if not load.is_measured:
        return []
    return sorted(task for task, rate in load.arrivals.items() if rate >= _HOT * load.capacity > 0)


def useful_after_s(shape: Shape, workers: int) -> float:
    """Return how long it takes until another worker has warmed up its share."""
    return START_S + shape.state / (workers + 1) / RESTORE_RATE


def gone_after_s(load: Load, shape: Shape, workers: int) -> float | None:
    """Return how long these workers take to process what waits; ``None`` if they never will."""
    spare = throughput(load, shape, workers) - load.arrival * UP_MARGIN
    if hot(load) or spare <= 0:
        return None
    return load.lag / spare
