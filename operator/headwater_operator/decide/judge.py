"""What a worker is, judged by a view of it and by memory: live, lost, and what it may hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headwater.model.cluster import Role
from headwater_operator.decide.observed import ProcessState

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.cluster import Lease, StreamWorker, TaskStatus, WorkerSpec, WorkerStatus
    from headwater_operator.decide.memory import WorkerMemory
    from headwater_operator.decide.observed import WorkerView

_UNSEEN_MS: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One worker with the verdict on it.

    Attributes:
        view: as observed.
        memory: as remembered.
        held: every task it may hold at this moment, in whatever state.
        is_live: the process that reports is alive for all we know, and has no error: it can be
            given duties and, unless something else forbids it, tasks.
        is_lost: it holds tasks, and the process that holds them has ended or is silent. Its tasks
            are to be taken away and its slots to be fenced.
        is_silent: it has a process, as far as can be seen, whose Lease is stale.
    """

    view: WorkerView
    memory: WorkerMemory
    held: frozenset[TaskId]
    is_live: bool
    is_lost: bool
    is_silent: bool

    @property
    def worker(self) -> StreamWorker:
        """The resource."""
        return self.view.worker

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.view.worker.name

    @property
    def spec(self) -> WorkerSpec:
        """What is wanted of it."""
        return self.view.worker.spec

    @property
    def status(self) -> WorkerStatus:
        """What it reports."""
        return self.view.worker.status

    @property
    def is_bound(self) -> bool:
        """Whether what its spec grants is granted to the process that reports."""
        return self.spec.incarnation == self.status.incarnation

    @property
    def copies(self) -> dict[TaskId, TaskStatus]:
        """What its living process says of the standby and warm-up tasks its spec grants.

        Whether one has caught up is told by its exact lag where that is known. How near it is stays
        a bucket: an order that changes with every batch would move the target.
        """
        if not self.is_live or not self.is_bound or self.owes_fence:
            return {}
        granted = {*self.spec.standby, *self.spec.warmup}
        return {
            status.task: self._exactly(status)
            for status in self.status.tasks
            if status.role is not Role.ACTIVE and status.task in granted
        }

    def _exactly(self, status: TaskStatus) -> TaskStatus:
        lag = self.view.lags.get(status.task)
        if lag is None:
            return status
        return replace(status, caught_up=lag <= self.spec.acceptable_lag)

    @property
    def owes_fence(self) -> bool:
        """Whether its slots have to be fenced: it is lost, or that was found before."""
        return self.is_lost or self.spec.is_fencing

    @property
    def is_importing(self) -> bool:
        """Whether its process says that it still imports its topology."""
        return self.status.importing and self.has_reported and not self.has_ended

    @property
    def has_reported(self) -> bool:
        """Whether its process, and not only one before it, has said anything."""
        return self.status.incarnation not in ("", self.memory.dead)

    @property
    def has_ended(self) -> bool:
        """Whether certainly no process of it runs."""
        return self.view.process.is_proof_of_end

    @property
    def is_retired(self) -> bool:
        """Whether it is meant to be without a process, has none and holds nothing."""
        return self.spec.drain and self.has_ended and not self.held and not self.owes_fence


def judge(view: WorkerView, memory: WorkerMemory, now_ms: int) -> Judged:
    """Judge one worker.

    Args:
        view: as observed.
        memory: brought up to date with ``view`` before (``recall.remember``).
        now_ms: of the control loop's monotonic clock.
    """
    spec, status = view.worker.spec, view.worker.status
    held = held_tasks(spec, status)
    fresh = has_fresh_lease(view, memory, now_ms)
    ended = view.process.is_proof_of_end
    is_live = (
        bool(status.incarnation)
        and status.incarnation != memory.dead
        and not ended
        and status.error is None
        and not status.importing
        and fresh
        and view.lease is not None
        and view.lease.holder == status.incarnation
    )
    gone = (
        ended
        or view.is_tampered
        or spec.incarnation in ("", memory.dead)
        or status.incarnation not in ("", spec.incarnation)
        or not fresh
    )
    return Judged(
        view=view,
        memory=memory,
        held=held,
        is_live=is_live,
        is_lost=bool(held) and not spec.is_fencing and gone,
        is_silent=not ended and not fresh,
    )


def held_tasks(spec: WorkerSpec, status: WorkerStatus) -> frozenset[TaskId]:
    """Return every task the worker may hold at this moment.

    What was granted, what is being revoked until its release is acknowledged, and what the process
    lists itself. Of a worker being fenced: everything that was taken from it.
    """
    if spec.is_fencing:
        return frozenset(spec.revoking)
    reports = status.incarnation == spec.incarnation
    has_acknowledged = reports and status.acknowledged_epoch >= spec.epoch
    listed = listed_as_active(status) if reports else frozenset()
    revoking = frozenset(spec.revoking)
    return frozenset(spec.active) | listed | (revoking & listed if has_acknowledged else revoking)


def listed_as_active(status: WorkerStatus) -> frozenset[TaskId]:
    """Return the active tasks that a process lists; a copy keeps nobody from anything."""
    return frozenset(task.task for task in status.tasks if task.role is Role.ACTIVE)


def is_quiet(view: WorkerView, memory: WorkerMemory, now_ms: int) -> bool:
    """Whether a process that runs has not renewed its Lease for a third of what it may take.

    Or for some seconds: so long it may take a renewal to be seen.
    """
    lease = view.lease
    return (
        view.process is ProcessState.RUNNING
        and lease is not None
        and lease.holder == view.worker.status.incarnation
        and now_ms - memory.lease_ms >= unseen_after_ms(lease)
    )


def unseen_after_ms(lease: Lease) -> int:
    """Return after how long without a renewal something may be wrong with the holder."""
    return max(lease.duration_ms // 3, _UNSEEN_MS)


def has_fresh_lease(view: WorkerView, memory: WorkerMemory, now_ms: int) -> bool:
    """Whether a renewal was seen within the Lease's duration; without a Lease, a first view."""
    duration_ms = view.lease.duration_ms if view.lease is not None else 30_000
    return now_ms - memory.lease_ms < duration_ms
