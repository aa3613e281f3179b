"""One application at one moment, as values: what the live view, the commands and the page show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.appstatus import ConditionStatus, ConditionType, TaskCounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.appstatus import AutoscalingStatus, Condition, Operation
    from headwater.model.cluster import Role
    from headwater.model.topics import TopologyReport
    from headwater_operator.overview.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker.

    Attributes:
        name: its name.
        state: one word: pending, starting, running, stopping, fenced, silent, stopped, ended.
        pid: its main process; 0 if none runs, or on another machine.
        is_alive: whether it has a process.
        node: of Kubernetes; empty on one machine, and while it has none.
        revision: of the specification that it runs; empty on one machine.
        lease_age_s: since it renewed its Lease; ``None`` without one.
        tasks: how many it holds.
        copies: how many standby and warm-up tasks it follows.
        records_per_s: what its StreamThreads process.
        open_transactions: StreamThreads with an open transaction.
        restored: changelog records that this process has read to restore stores.
        filling: records of global stores to be read before its tasks start; ``None`` once they may.
        problem: why it cannot go on, if it cannot.
        is_silent: it counts as running, and did not answer when it was asked just now.
    """

    name: str
    state: str
    pid: int = 0
    is_alive: bool = False
    node: str = ""
    revision: str = ""
    lease_age_s: float | None = None
    tasks: int = 0
    copies: int = 0
    records_per_s: float = 0.0
    open_transactions: int = 0
    restored: int = 0
    filling: int | None = None
    problem: str = ""
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """One standby or warm-up task.

    Attributes:
        worker: who follows the changelogs.
        role: standby or warm-up.
        behind: changelog records still to read; ``None`` if not known.
        is_rounded: ``behind`` is from the worker's status: rounded up to 0 or a power of ten.
        is_caught_up: whether it could take the task over at once.
        why: the reason for its place, as it was when it came.
    """

    worker: str
    role: Role
    behind: int | None = None
    is_rounded: bool = False
    is_caught_up: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task.

    Attributes:
        task: which.
        state: Kafka Streams' task state, or REVOKING, RELEASED, UNASSIGNED.
        worker: who holds it; empty for nobody.
        slot: on which StreamThread; ``None`` if on none.
        processed: records since the StreamThread took it.
        lag: records of its input that are not processed; ``None`` if not known.
        records_per_s: records processed.
        restored: changelog records applied in the restore under way.
        remaining: changelog offsets still to read; ``None`` if it does not restore.
        copies: its standbys and warm-ups, by worker.
        why: the reason for its place, as it was when it came.
        committed: next offset to read of each input partition, by ``topic-partition``.
        state_bytes: size of its stores on disk and in write buffers; ``None`` if not known.
        stored: workers that do not hold it and have state of it on disk, with the sum of the next
            offsets of its changelogs, rounded down to 10,000.
    """

    task: TaskId
    state: str
    worker: str = ""
    slot: int | None = None
    processed: int = 0
    lag: int | None = None
    records_per_s: float = 0.0
    restored: int = 0
    remaining: int | None = None
    copies: tuple[CopyRow, ...] = ()
    why: str = ""
    committed: Mapping[str, int] = field(default_factory=dict)
    state_bytes: int | None = None
    stored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRow:
    """Spark's driver.

    Attributes:
        state: one word: STARTING, RUNNING, STOPPING, FAILED, ended.
        pid: its process; 0 if none runs.
        generation: of the take-over that it runs for.
        last_batch: number of its last micro-batch; ``None`` before the first.
        batch_rows: records in it.
        batch_ms: how long it took.
        input_rows_per_s: what came in.
        processed_rows_per_s: while it processed.
        tasks: how many it runs.
        problem: why the last one ended, if not well.
    """

    state: str
    pid: int = 0
    generation: int = 0
    last_batch: int | None = None
    batch_rows: int = 0
    batch_ms: int = 0
    input_rows_per_s: float = 0.0
    processed_rows_per_s: float = 0.0
    tasks: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything of one application.

    Attributes:
        app: its name.
        namespace: of Kubernetes; empty on one machine.
        state: as Kafka Streams' client; ``starting`` before the control loop has looked at what
            is wanted now.
        reason: what is being done, or waited for.
        guarantee: the processing guarantee of the engine that has the application.
        epoch: of the assignment, for people.
        replicas: workers wanted.
        ready_replicas: workers that hold all their tasks, each of them running.
        threads: StreamThreads wanted in each worker.
        kafka: the broker's address; empty before it is known.
        is_private_kafka: whether the broker is ours.
        generation: of the control loop.
        engine: has the application.
        driver: of Spark; ``None`` if there never was one, or nothing is to be said of it.
        workers: by name.
        tasks: by id.
        paused: ``paused``, or ``pausing`` as long as anything is processed; empty if neither.
        counts: of tasks, as the control loop has reported them.
        operation: what is being done to the workers; ``None`` if nothing.
        conditions: as Kubernetes has them; empty on one machine.
        autoscaling: how many workers there should be, and why; ``None`` without autoscaling.
        topology: as a worker has reported it; ``None`` before the first.
        inexact: why numbers are missing or rounded; empty if every worker has told them.
        version: of Headwater that the control loop runs; empty if it has not said.
        unread: records of its input that lie in partitions which no task reads.
        events: the last ones, oldest first.
        rates: records per second of the whole application, oldest first.
        failure: why it does not run; empty if it does.
        uptime_s: since the view began.
    """

    app: str
    namespace: str = ""
    state: str = "CREATED"
    reason: str = ""
    guarantee: str = ""
    epoch: str = ""
    replicas: int = 0
    ready_replicas: int = 0
    threads: int = 1
    kafka: str = ""
    is_private_kafka: bool = False
    generation: int = 0
    engine: str = "Native"
    driver: DriverRow | None = None
    workers: tuple[WorkerRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    paused: str = ""
    counts: TaskCounts = field(default_factory=TaskCounts)
    operation: Operation | None = None
    conditions: tuple[Condition, ...] = ()
    autoscaling: AutoscalingStatus | None = None
    topology: TopologyReport | None = None
    inexact: str = ""
    version: str = ""
    unread: int = 0
    events: tuple[Event, ...] = ()
    rates: tuple[float, ...] = ()
    failure: str = ""
    uptime_s: float = 0.0

    @property
    def lag(self) -> int:
        """Records of all input that are known to be unprocessed."""
        return self.unread + sum(row.lag for row in self.tasks if row.lag is not None)

    @property
    def is_ready(self) -> bool:
        """Whether it processes all that it is to: Ready on a cluster, RUNNING on one machine."""
        for condition in self.conditions:
            if condition.type is ConditionType.READY:
                return condition.status is ConditionStatus.TRUE
        return self.state == "RUNNING" and not self.failure

    @property
    def records_per_s(self) -> float:
        """Records processed by the whole application."""
        on_spark = 0.0 if self.driver is None else self.driver.input_rows_per_s
        return on_spark + sum(row.records_per_s for row in self.workers)

    @property
    def running_tasks(self) -> int:
        """Tasks that process records."""
        return sum(row.state == "RUNNING" for row in self.tasks)

    @property
    def unassigned(self) -> int:
        """Tasks that nobody holds."""
        return self.counts.unassigned

    @property
    def copies(self) -> tuple[CopyRow, ...]:
        """Standby and warm-up tasks of all tasks."""
        return tuple(copy for row in self.tasks for copy in row.copies)

    @property
    def filling(self) -> int | None:
        """Records of global stores that workers read before their tasks start; ``None``: none."""
        left = [row.filling for row in self.workers if row.filling is not None and row.is_alive]
        return sum(left) if left else None

    @property
    def live_workers(self) -> int:
        """Workers with a process."""
        return sum(row.is_alive for row in self.workers)
