"""What the control loop can do to the world, as values. Two interpreters carry them out.

They are carried out in the order given; the first that fails ends the round, and the next round
decides afresh. The process that carries them out may be killed between any two. So an action must
be safe to see twice: starting a worker that runs, or stopping one that has ended, does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.cluster import WorkerSpec


class Reason(StrEnum):
    """Why an action is taken: the one sentence that log, event and status show."""

    WORKER_CREATED = "the application needs another worker"
    WORKER_RETURNS = "the worker is wanted again"
    WORKER_LOST = "the worker is lost: its tasks are taken away, then its slots are fenced"
    WORKER_FENCED = "every slot of the lost worker is fenced"
    FENCE_LOST_WORKER = "the slots of a lost worker are fenced before its tasks move"
    SLOT_FENCED = "a slot was fenced by a late duty: its tasks start again under a new epoch"
    TAMPERED = "somebody else has changed the StreamWorker: what it says is written anew"
    ADOPTED = "a new run of the control loop takes the worker over"
    TASKS_GRANTED = "tasks that nobody holds are granted"
    TASKS_REVOKED = "tasks are asked back"
    COPIES = "standby and warm-up tasks go where they are to be"
    ACCEPTABLE_LAG = "another lag counts as caught up"
    DUTY = "the control loop needs something from Kafka"
    DUTY_WITHDRAWN = "a duty is out of date"
    THREADS = "another number of threads is to run"
    JOINS = "whether it waits for its share of the tasks has changed"
    LIVE_SETTINGS = "processes are to take over other settings"
    PAUSED = "processing is to pause"
    RESUMED = "processing is to go on"
    DRAIN = "the worker is to release everything and to end"
    NO_PROCESS = "the worker has no process"
    DRAINED = "the worker has released everything"
    SILENT = "the worker has not renewed its Lease for too long"
    NEVER_REPORTED = "the worker was started but has not reported"
    MOUNT_AGAIN = "a Secret or ConfigMap was missing: a new pod finds it sooner"
    IMPORT_TIMED_OUT = "importing the topology takes longer than spec.topology.importTimeout"
    NEW_REVISION = "the worker is replaced by one of the new revision"
    RESTART = "a StreamAction asks for new processes"
    NOT_WANTED = "the worker is not needed any more"
    ENGINE_TAKEN = "the application was taken over for Spark"
    ENGINE_LEAVES = "the application is handed over"
    DRIVER_ENDED = "the driver has ended"
    DRIVER_NOT_WANTED = "nothing is to run"
    DRIVER_SILENT = "the driver says nothing"
    DRIVER_STALLED = "the driver's micro-batch does not end"
    DRIVER_OUTDATED = "the driver is of an earlier take-over"
    DRIVER_CHANGED = "what the driver was started from has changed"
    EXECUTORS = "another number of executors is to run"


class StopHow(StrEnum):
    """How a worker's process is ended."""

    GRACEFULLY = "Gracefully"
    """SIGTERM, or deletion of the pod: what is open is committed and closed."""
    AT_ONCE = "AtOnce"
    """SIGKILL; where that is not possible, as gracefully as it can be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteWorkerSpec:
    """Write the spec of one StreamWorker; create the StreamWorker if it does not exist.

    Attributes:
        worker: the StreamWorker's name.
        spec: the new spec; its epoch is greater than ``replaces``.
        replaces: the epoch this spec was computed from. The write must fail when the stored spec
            has another epoch (0: when one exists): then somebody else has written, and the decision
            is out of date.
        reason: why.
    """

    worker: str
    spec: WorkerSpec
    replaces: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWorker:
    """Start one process (pod) of a worker that has none."""

    worker: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWorker:
    """End the process (pod) of a worker. Its StreamWorker and its state directory stay."""

    worker: str
    how: StopHow
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorker:
    """Delete the StreamWorker and the Lease of a worker that has no process and holds nothing.

    Attributes:
        worker: the StreamWorker's name.
        delete_state: also delete its state directory (volume).
        replaces: as in :class:`WriteWorkerSpec`: nothing is deleted when the stored epoch differs.
        reason: why.
    """

    worker: str
    delete_state: bool
    replaces: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDriver:
    """Start the one driver of an engine that is not Native; nothing happens while one runs.

    Attributes:
        generation: of the take-over; the driver ends at once if another has come since.
        executors: how many there are to be.
        reason: why.
    """

    generation: int
    executors: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDriver:
    """End the driver. Gracefully: it finishes what is under way; killed when its grace is over."""

    how: StopHow
    reason: Reason


Action: TypeAlias = (
    WriteWorkerSpec | StartWorker | StopWorker | DeleteWorker | StartDriver | StopDriver
)


def describe_action(action: Action) -> str:
    """Write an action as one line for the log."""
    match action:
        case WriteWorkerSpec(worker=worker, spec=spec, reason=reason):
            tasks = _listed(spec.active) or "no tasks"
            standby = f", standby {_listed(spec.standby)}" if spec.standby else ""
            warmup = f", warm-up {_listed(spec.warmup)}" if spec.warmup else ""
            epoch = f"{spec.epoch >> 32}.{spec.epoch & 0xFFFFFFFF}"
            return f"{worker}: epoch {epoch}, {tasks}{standby}{warmup}: {reason}"
        case StartWorker(worker=worker, reason=reason):
            return f"{worker}: start: {reason}"
        case StopWorker(worker=worker, how=how, reason=reason):
            return f"{worker}: stop {how.value}: {reason}"
        case DeleteWorker(worker=worker, delete_state=delete_state, reason=reason):
            return f"{worker}: delete{' with its state' if delete_state else ''}: {reason}"
        case StartDriver(generation=generation, reason=reason):
            return f"driver: start, generation {generation}: {reason}"
        case StopDriver(how=how, reason=reason):
            return f"driver: stop {how.value}: {reason}"


def news_of(before: WorkerSpec, action: WriteWorkerSpec) -> str | None:
    """Tell people what a spec changes; ``None`` if that is no news.

    Args:
        before: the spec that is replaced.
        action: the write.
    """
    if action.reason is Reason.WORKER_CREATED:
        return None  # its start is told
    granted = _new(before.active, action.spec.active)
    revoked = _new(action.spec.active, before.active)
    stands_by = _new(before.standby, action.spec.standby)
    warms_up = _new(before.warmup, action.spec.warmup)
    known = {duty.id for duty in before.duties}
    duties = [_SPOKEN[duty.KIND] for duty in action.spec.duties if duty.id not in known]
    asked = [said for said in duties if said]
    moved = granted or revoked or stands_by or warms_up
    if (duties and not asked and not moved) or (action.reason is Reason.COPIES and not moved):
        return None
    parts = [
        *([f"takes {_listed(granted)}"] if granted else []),
        *([f"gives up {_listed(revoked)}"] if revoked else []),
        *([f"stands by for {_listed(stands_by)}"] if stands_by else []),
        *([f"warms up {_listed(warms_up)}"] if warms_up else []),
        *([f"is asked to {', '.join(asked)}"] if asked else []),
    ]
    what = "; ".join(parts)
    if not what:
        return str(action.reason)
    return what if action.reason in _UNSPOKEN else f"{what}: {action.reason}"


_UNSPOKEN: Final = frozenset({Reason.TASKS_GRANTED, Reason.COPIES, Reason.DUTY})
"""What was done says as much."""

_SPOKEN: Final[Mapping[str, str]] = {
    "DescribeTopics": "",
    "DescribeGroup": "",
    "CreateTopics": "create topics",
    "Fence": "fence the slots of a lost worker",
    "Reset": "reset the application",
    "TakeEngine": "take the application over for another engine",
}
"""Duties for people; the regular looks at Kafka are no news."""


def _new(before: tuple[TaskId, ...], now: tuple[TaskId, ...]) -> tuple[TaskId, ...]:
    return tuple(sorted(set(now) - set(before)))


def _listed(tasks: tuple[TaskId, ...]) -> str:
    return " ".join(map(str, tasks))
