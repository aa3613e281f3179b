"""How far Spark is with the jobs of one thing that it computes, by its own status tracker."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError
from headwater.spark.progress import Computing, Watch
from headwater.spark.troubles import gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.spark.progress import Shown

_PROPERTIES: Final = ("spark.jobGroup.id", "spark.job.description")
_SETTLE_S: Final = 5.0
_PAUSE_S: Final = 0.02


@contextmanager
def tracked(context: Any, tell: Callable[[Shown], None]) -> Iterator[None]:
    """Tell now and then how far the jobs are that this thread has begun since.

    Args:
        context: the ``SparkContext``.
        tell: told, from another thread.
    """
    before = [context.getLocalProperty(name) for name in _PROPERTIES]
    group = f"headwater-{uuid.uuid4().hex}"
    context.setJobGroup(group, "DataFrames of a backfill")
    tracker = context.statusTracker()
    try:
        with Watch(partial(_look, tracker, group), tell):
            yield
            _settle(tracker, group)
    finally:
        # A Spark that is gone has said so already.
        with suppress(*gone()):
            for name, value in zip(_PROPERTIES, before, strict=True):
                context.setLocalProperty(name, value)


def _settle(tracker: Any, group: str) -> None:
    """Wait a little until the tracker knows what is done: it hears of that after its result."""
    deadline = time.monotonic() + _SETTLE_S
    with suppress(*gone()):
        while time.monotonic() < deadline:
            jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
            if not any(job is not None and job.status == "RUNNING" for job in jobs):
                return
            time.sleep(_PAUSE_S)


def _look(tracker: Any, group: str) -> Computing:
    try:
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        numbers = {number for job in jobs if job is not None for number in job.stageIds}
        stages = [tracker.getStageInfo(number) for number in sorted(numbers)]
    except gone() as error:
        raise EnvironmentProblemError(f"Spark does not answer: {error}") from error
    # What another job has left to be used again is never begun.
    begun = [s for s in stages if s is not None and (s.numActiveTasks or s.numCompletedTasks)]
    running = [stage for stage in begun if stage.numCompletedTasks < stage.numTasks]
    return Computing(
        stages=len(begun) - len(running),
        done=sum(stage.numCompletedTasks for stage in running),
        total=sum(stage.numTasks for stage in running),
    )
