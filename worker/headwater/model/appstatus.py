"""The StreamApp's status: what the control loop reports, on one machine and on a cluster.

On a cluster the operator adds what only a cluster has: conditions, the revision that is rolled out,
the operation under way. Counts only, never lists of tasks: a status must not outgrow the store that
holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headwater.model.codec import decode, encode_object
from headwater.model.fields import meta
from headwater.model.lifecycle import ClientState, Engine
from headwater.model.streamapp_autoscaling import AutoscalingMode

_COUNT = meta(minimum=0, maximum=10_000_000, always=True)
_SENTENCE = meta(max_length=32_768, clip=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an application does not run, or stopped.

    Attributes:
        error: the class name in ``headwater.errors``.
        message: what happened and what to do next.
        worker: the worker that said so; empty when the control loop found it.
        is_final: the control loop has given up and stops the application; otherwise it keeps
            trying.
    """

    error: str
    message: str = field(metadata=_SENTENCE)
    worker: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """How many tasks there are and what they are doing.

    Attributes:
        total: tasks of the topology.
        running: active tasks that process records.
        restoring: active tasks that are granted and not running yet.
        revoking: tasks taken from a worker that has not released them yet.
        unassigned: tasks that nobody holds.
        standby: standby tasks that there are to be.
        caught_up: standby tasks that could take over at once.
        warmup: copies that are restored so that a task, or a standby, can move there.
    """

    total: int = field(default=0, metadata=_COUNT)
    running: int = field(default=0, metadata=_COUNT)
    restoring: int = field(default=0, metadata=_COUNT)
    revoking: int = field(default=0, metadata=_COUNT)
    unassigned: int = field(default=0, metadata=_COUNT)
    standby: int = field(default=0, metadata=_COUNT)
    caught_up: int = field(default=0, metadata=_COUNT)
    warmup: int = field(default=0, metadata=_COUNT)


class ConditionType(StrEnum):
    """What a condition is about; Ready is the one to trust."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    SPEC_VALID = "SpecValid"
    ASSIGNMENT_CONVERGED = "AssignmentConverged"
    STATE_RESTORED = "StateRestored"
    STANDBYS_READY = "StandbysReady"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"
    PAUSED = "Paused"
    SCALING_LIMITED = "ScalingLimited"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"

    @property
    def when_well(self) -> ConditionStatus:
        """What it says when all is well and at rest."""
        return ConditionStatus.FALSE if self in _NEWS else ConditionStatus.TRUE


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


_NEWS: Final = frozenset(
    {
        ConditionType.PROGRESSING,
        ConditionType.DEGRADED,
        ConditionType.SUSPENDED,
        ConditionType.PAUSED,
        ConditionType.SCALING_LIMITED,
        ConditionType.RECONCILING,
        ConditionType.STALLED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, as Kubernetes has them.

    Attributes:
        type: what it is about. When all is well and at rest, Ready, SpecValid,
            AssignmentConverged, StateRestored and StandbysReady are True; Progressing, Degraded,
            Suspended, Paused, ScalingLimited, Reconciling and Stalled are False.
        status: whether it holds; Unknown before the first decision.
        reason: why, as one word for programs.
        message: why, as a sentence with the next step.
        last_transition_time: when the status changed last.
        observed_generation: the generation of the StreamApp that this was said about.
    """

    type: ConditionType
    status: ConditionStatus
    reason: str = field(
        metadata=meta(
            pattern="[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", meaning="one word in CamelCase"
        )
    )
    message: str = field(default="", metadata=meta(max_length=32_768, always=True, clip=True))
    last_transition_time: str = field(metadata=meta(date_time=True))
    observed_generation: int = field(default=0, metadata=meta(minimum=0))


class OperationType(StrEnum):
    """What is being done to the workers of an application."""

    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    ROLL = "Roll"
    REPLACE = "Replace"
    RESTART = "Restart"
    DRAIN = "Drain"
    BACKFILL = "Backfill"
    SUSPEND = "Suspend"
    RESET = "Reset"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is being done; written before it is begun, so that whoever takes over goes on with it.

    Attributes:
        type: what is done.
        target: the worker it is about; empty when it is about all.
        phase: how far it has come, as one word.
        revision: the revision that is rolled out.
        started_at: when it was begun.
    """

    type: OperationType
    target: str = field(default="", metadata=meta(max_length=63))
    phase: str = field(default="", metadata=meta(max_length=63))
    revision: str = field(default="", metadata=meta(max_length=63))
    started_at: str = field(metadata=meta(date_time=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Which versions of the specification the workers run.

    Attributes:
        current: the one that all workers ran last.
        update: the one that is being rolled out, or was last.
        last_stable: the one that was ready last.
        failed: the one that was rolled back; it is not tried again before the specification
            changes.
        failed_message: why.
    """

    current: str = field(default="", metadata=meta(max_length=63))
    update: str = field(default="", metadata=meta(max_length=63))
    last_stable: str = field(default="", metadata=meta(max_length=63))
    failed: str = field(default="", metadata=meta(max_length=63))
    failed_message: str = field(default="", metadata=_SENTENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """Which engine has the application; written before anything is given to it.

    Attributes:
        name: the engine.
        generation: of the take-over for it; 0 before the first.
        driver: what Spark's driver says of itself; empty while there is none, or it says nothing.
        last_batch: number of Spark's last micro-batch; -1 before the first.
        input_rows_per_second: what came in during that batch.
        processed_rows_per_second: what it has processed.
    """

    name: Engine = Engine.NATIVE
    generation: int = field(default=0, metadata=meta(minimum=0))
    driver: str = field(default="", metadata=meta(max_length=63))
    last_batch: int = -1
    input_rows_per_second: int = field(default=0, metadata=meta(minimum=0))
    processed_rows_per_second: int = field(default=0, metadata=meta(minimum=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingStatus:
    """How many workers there should be by lag, and why; written before anything is done about it.

    Attributes:
        mode: whether it is carried out.
        replicas: how many workers count now: in mode Auto what was decided last, else
            spec.replicas.
        desired: how many there should be.
        reason: a sentence: why so many, or what is waited for.
        since: since when so many are desired.
        min_replicas: the least number of workers now, by spec.autoscaling and its schedule.
        max_replicas: the greatest number of workers now.
        lag: input records that wait, of all tasks together; absent while it cannot be read.
        arrival_rate: records per second that come in.
        process_rate: records per second that are processed.
        capacity_per_worker: records per second that a worker can process; 0 while it is not known.
        spec_replicas: spec.replicas as it was when it was taken over last.
    """

    mode: AutoscalingMode = field(default=AutoscalingMode.ADVISE, metadata=meta(always=True))
    replicas: int = field(default=0, metadata=_COUNT)
    desired: int = field(default=0, metadata=_COUNT)
    reason: str = field(default="", metadata=_SENTENCE)
    since: str | None = field(default=None, metadata=meta(date_time=True))
    min_replicas: int = field(default=0, metadata=meta(minimum=0))
    max_replicas: int = field(default=0, metadata=meta(minimum=0))
    lag: int | None = field(default=None, metadata=meta(minimum=0))
    arrival_rate: int = field(default=0, metadata=meta(minimum=0))
    process_rate: int = field(default=0, metadata=meta(minimum=0))
    capacity_per_worker: int = field(default=0, metadata=meta(minimum=0))
    spec_replicas: int = field(default=0, metadata=meta(minimum=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class AppStatus:
    """What the control loop reports about a StreamApp.

    Attributes:
        observed_generation: the generation of the specification that everything below is about;
            on a cluster -1 before the operator has seen the StreamApp.
        state: as Kafka Streams' client; CREATED until the first task is granted.
        reason: a sentence: what is being done, or waited for.
        assignment_epoch: the highest epoch in use: the control loop's leader generation in the high
            32 bits, a counter in the low ones.
        topology_hash: a digest of the topology that runs.
        replicas: workers that exist.
        ready_replicas: workers that hold all their tasks, each of them running.
        updated_replicas: workers of the revision that is being rolled out, or was last.
        selector: selects the pods of the workers by their labels.
        tasks: how many tasks there are and what they are doing.
        unread_records: records in partitions that no task reads, because topics do not have the
            partitions that the topology needs; as of the last look at the topics.
        paused: whether nothing is processed, as spec.paused wants it: every worker has committed
            what it had processed.
        engine: which engine has the application.
        autoscaling: how many workers there should be by lag; absent without spec.autoscaling.
        revision: which versions of the specification the workers run.
        operation: what is being done to the workers.
        failure: set while something prevents the application from running.
        conditions: in detail, and for programs that wait; Ready is the summary.
        version: of Headwater that runs the control loop.
    """

    observed_generation: int = field(default=0, metadata=meta(minimum=-1, always=True))
    state: ClientState = field(default=ClientState.CREATED, metadata=meta(always=True))
    reason: str = field(default="", metadata=_SENTENCE)
    assignment_epoch: int = field(default=0, metadata=meta(minimum=0, always=True))
    topology_hash: str = field(default="", metadata=meta(max_length=128))
    replicas: int = field(default=0, metadata=_COUNT)
    ready_replicas: int = field(default=0, metadata=_COUNT)
    updated_replicas: int = field(default=0, metadata=_COUNT)
    selector: str = ""
    tasks: TaskCounts = field(default=TaskCounts(), metadata=meta(always=True))
    unread_records: int = field(default=0, metadata=meta(minimum=0))
    paused: bool = False
    engine: EngineStatus = EngineStatus()
    autoscaling: AutoscalingStatus | None = None
    revision: Revision = Revision()
    operation: Operation | None = None
    failure: Failure | None = None
    conditions: tuple[Condition, ...] = field(
        default=(), metadata=meta(keys=("type",), max_items=20)
    )
    version: str = field(default="", metadata=meta(max_length=63))

    def to_dict(self) -> dict[str, object]:
        """Return the status as JSON values."""
        return encode_object(self)

    @classmethod
    def from_dict(cls, data: object) -> AppStatus:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the status is damaged.
        """
        return decode(cls, data, path="status", strict=False)
