"""``headwater promote NEW --over OLD`` on Kubernetes: the old StreamApp is suspended.

Whether the new version has caught up is asked of the workers, through the API server: they have
Kafka clients, and whoever runs the command may have none that reaches the brokers. It has caught up
when none of its tasks has input left, and it has committed what the old version has committed.
"""

from __future__ import annotations

import sys
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError, UserError
from headwater.model.cluster import Role
from headwater.model.lifecycle import ClientState, Engine
from headwater_operator.kube.errors import ConflictError
from headwater_operator.local.on_cluster import ClusterApp, status_of
from headwater_operator.local.promoting import outputs_of, records
from headwater_operator.local.query_workers import ClusterWorkers
from headwater_operator.local.resetting import confirmed
from headwater_operator.local.running import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater_operator.kube.client import KubeClient

_STOP_S: Final = 180.0
_POLL_S: Final = 1.0
_NOT_SEEN: Final = "the operator has not seen its newest specification yet; does it run?"

Told = list[dict[str, Any]]
"""The active tasks of an application, as its workers show them at ``/tasks``."""


def promote(
    client: KubeClient,
    namespace: str,
    new: str,
    *,
    over: str,
    max_lag: int,
    wait_s: float,
    is_confirmed: bool,
) -> int:
    """Suspend a StreamApp once the one that is to replace it runs and has caught up.

    Args:
        client: with the rights of whoever asks.
        namespace: of both.
        new: the StreamApp that goes on.
        over: the one that is suspended.
        max_lag: how many records the new one may have left to read.
        wait_s: how long to wait until it runs and has no more than that.
        is_confirmed: nobody is asked.

    Raises:
        UserError: it is the same StreamApp twice, or Spark runs the new one.
        SpecError: there is no such StreamApp.
        EnvironmentProblemError: the new one does not run or has not caught up; nothing was changed.
            Or the old one does not stop.
        KubeApiError: the API server refused.
    """
    if new == over:
        raise UserError(f"{new} is named twice: name the version that goes on, and the one before")
    both = _Both(client, namespace, new, over)
    both.check()
    _await(both, max_lag=max_lag, wait_s=wait_s)
    if not is_confirmed and not confirmed(f"Suspend {over}, and have {new} go on alone?"):
        sys.stdout.write("nothing was changed\n")
        return 1
    outputs = [
        outputs_of((worker.status.topology for worker in workers.all()), name)
        for name, workers in ((over, both.old_workers), (new, both.new_workers))
    ]
    both.suspend()
    if not wait_until(both.is_stopped, timeout_s=_STOP_S):
        status = status_of(both.old.read())
        raise EnvironmentProblemError(
            f"{over} is suspended and has not stopped within {_STOP_S:.0f} s: "
            f"{_NOT_SEEN if status is None else status.reason}"
        )
    sys.stdout.write(
        f"{over} is suspended, with its state and offsets kept; {new} goes on\n"
        f"who reads {outputs[0]} is to read {outputs[1]} from now on\n"
        f"set spec.suspend in the file of {over}, too, if it is applied again and again\n"
        f"to go back: kubectl patch streamapp {over} --namespace {namespace} --type=merge "
        """--patch='{"spec":{"suspend":false}}', then """
        f"headwater promote {over} --over {new} --namespace {namespace}\n"
    )
    return 0


class _Both:
    """The two versions."""

    def __init__(self, client: KubeClient, namespace: str, new: str, old: str) -> None:
        self.new = ClusterApp(client, namespace, new)
        self.old = ClusterApp(client, namespace, old)
        self.new_workers = ClusterWorkers(client, namespace, new)
        self.old_workers = ClusterWorkers(client, namespace, old)

    def check(self) -> None:
        """Refuse what waiting does not cure."""
        spec = self.new.read()["spec"]
        self.old.read()
        if spec.get("engine") == Engine.SPARK.value:
            raise UserError(
                f"Spark runs {self.new.name}, and only workers say how many records they have left "
                f"to read: see `headwater lag`, then set spec.suspend of {self.old.name}"
            )

    def not_ready(self, max_lag: int) -> str | None:
        """Return why the new version cannot go on alone; ``None`` if it can."""
        found = self.new.read()
        name, spec, status = self.new.name, found["spec"], status_of(found)
        if spec.get("suspend"):
            return f"{name} is suspended: set its spec.suspend to false"
        if status is None or status.state is not ClientState.RUNNING:
            return f"{name}: {_NOT_SEEN}" if status is None else f"{name}: {status.reason}"
        try:
            lag = self._lag(status.tasks.total)
        except OSError as error:
            return str(error)
        if lag is None:
            return f"{name} does not know yet how many records it has to read"
        if spec.get("paused"):
            return f"{name} is paused, with {records(lag)} to read: set its spec.paused to false"
        return None if lag <= max_lag else f"{name} still has {records(lag)} to read"

    def _lag(self, count: int) -> int | None:
        """Return how many records the new version has left to read; ``None`` if nobody knows.

        Raises:
            OSError: a worker does not answer.
        """
        tasks = _tasks_of(self.new_workers)
        old = status_of(self.old.read())
        is_old_running = old is not None and old.state is ClientState.RUNNING
        before = _tasks_of(self.old_workers) if is_old_running else []
        return records_behind(tasks, before) if len(tasks) == count else None

    def suspend(self) -> None:
        """Write ``spec.suspend`` of the old version."""
        while True:
            found = self.old.read()
            if found["spec"].get("suspend"):
                return
            try:
                self.old.change(found, [{"op": "add", "path": "/spec/suspend", "value": True}])
            except ConflictError:
                continue  # somebody has written meanwhile
            return

    def is_stopped(self) -> bool:
        """Whether no process of the old version runs."""
        status = status_of(self.old.read())
        return status is not None and status.state is ClientState.NOT_RUNNING


def _await(both: _Both, *, max_lag: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    said = ""
    while (reason := both.not_ready(max_lag)) is not None:
        if time.monotonic() >= deadline:
            raise EnvironmentProblemError(f"{reason}; wait for it with --wait SECONDS")
        if reason != said:
            sys.stderr.write(f"{reason}\n")
            said = reason
        time.sleep(_POLL_S)


def _tasks_of(workers: ClusterWorkers) -> Told:
    """Return what the workers of an application say of their active tasks.

    Raises:
        OSError: one does not answer.
    """
    found: Told = []
    for worker in workers.all():
        if not worker.spec.active:
            continue  # it may have no pod
        try:
            status, answer = workers.get(worker, "/tasks")
        except OSError as error:
            raise OSError(f"{worker.name} does not answer: {error}") from error
        if status != HTTPStatus.OK:
            raise OSError(f"{worker.name} answers /tasks with HTTP status {status}")
        found += [task for task in answer["tasks"] if task["role"] == Role.ACTIVE.value]
    return found


def records_behind(
    new: Iterable[Mapping[str, Any]], old: Iterable[Mapping[str, Any]]
) -> int | None:
    """Return how many records a version has left to read; ``None`` while that is not known.

    What a task says of itself counts, and what the other version has committed of the same
    partitions: that is there, whether or not the task has heard of it.

    Args:
        new: the active tasks of the version.
        old: those of the other one.
    """
    before = {name: offset for task in old for name, offset in task["committed"].items()}
    total = 0
    for task in new:
        if task["lag"] is None:
            return None
        committed = task["committed"]
        missing = sum(max(0, before.get(name, 0) - offset) for name, offset in committed.items())
        total += max(task["lag"], missing)
    return total
