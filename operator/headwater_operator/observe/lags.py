"""Exact lags of standby and warm-up tasks, asked for where something depends on them just now.

A status holds a bucket and a verdict that may be some seconds old. That is enough for a copy that
is far from the end of its changelogs, or at it. Of a warm-up, and of a standby whose bucket is near
``acceptableRecoveryLag``, the process itself is asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.model.cluster import LAG_UNKNOWN, lag_bucket
from headwater_operator.decide.observed import ProcessState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater_operator.decide.observed import Observed, WorkerView
    from headwater_operator.observe.numbers import NumbersSource, WorkerAnswer

_MOST: Final = 32
"""So many workers are asked for one decision; those with warm-ups are the first."""


def with_lags(observed: Observed, endpoints: Mapping[str, str], source: NumbersSource) -> Observed:
    """Return a snapshot with exact lags, as far as they matter and are told.

    Args:
        observed: the snapshot, read just now.
        endpoints: ``host:port`` by worker.
        source: who is asked.
    """
    chosen = sorted(
        (view for view in observed.workers if is_to_ask(view)),
        key=lambda view: (not view.worker.spec.warmup, view.worker.name),
    )
    asked = {
        view.worker.name: endpoint
        for view in chosen[:_MOST]
        if (endpoint := endpoints.get(view.worker.name, ""))
    }
    if not asked:
        return observed
    answers = source.ask(asked)
    workers = tuple(
        replace(view, lags=_lags(view, answer))
        if (answer := answers.get(view.worker.name)) is not None
        else view
        for view in observed.workers
    )
    return replace(observed, workers=workers)


def is_to_ask(view: WorkerView) -> bool:
    """Whether a worker that answers, for all we know, has a copy that is at the point of counting.

    A copy counts as caught up with a lag of ``acceptableRecoveryLag`` at most, so its bucket does
    not tell from the one that this number is in to the next greater one.
    """
    spec, status, lease = view.worker.spec, view.worker.status, view.lease
    is_there = view.process is ProcessState.RUNNING and not view.is_stopping
    if not is_there or not status.incarnation or status.incarnation != spec.incarnation:
        return False
    if lease is None or lease.holder != status.incarnation:
        return False
    if spec.warmup:
        return True
    least = lag_bucket(spec.acceptable_lag)
    most = min(max(10 * least, lag_bucket(1)), LAG_UNKNOWN - 1)
    return any(task.task in spec.standby and least <= task.lag <= most for task in status.tasks)


def _lags(view: WorkerView, answer: WorkerAnswer) -> Mapping[TaskId, int]:
    """Return what an answer says if it is of the process that the snapshot is of."""
    return answer.lags if answer.incarnation == view.worker.status.incarnation else {}
