"""What one run of the control loop remembers between decisions; empty at the start of every run.

Everything here can be lost without harm: leases are watched for a full duration again, the group
and the topics are looked up again, a worker that starts or leaves and a warm-up get their full time
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater_operator.decide.autoscaling.verdict import ScalingMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.appstatus import Failure
    from headwater.model.duties import DutyFailed, GroupMember
    from headwater.model.lifecycle import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMemory:
    """What is remembered of one worker. Times are of the control loop's monotonic clock.

    Attributes:
        lease: holder and renewals of its Lease as last seen; ``None`` when there was none.
        lease_ms: when the last change of its Lease was seen.
        started_ms: when its process was started, or first seen; ``None`` while there is none.
        waiting_ms: since when its process has been waiting to begin; ``None`` while none does.
        is_made_anew: its process was ended before it had begun, and another one is to be started.
        stopped_ms: when it was last told to stop.
        stopping_ms: since when its process is seen to be stopping, whoever told it to.
        ended_ms: when its last end was seen; ``None`` before one was.
        gone_ms: since when it is not there because its process ended; ``None`` while it is live.
        live_ms: since when it is live; ``None`` while it is not.
        heard: the last incarnation that has reported in this run.
        heard_revision: its revision; empty where processes have none.
        dead: the last incarnation whose end was seen.
        revision: of its last process; empty where processes have none.
        unheard: how many of its processes in a row, of this revision, had their time to start and
            did not report.
        early_deaths: how often in a row it ended soon after its start, with this revision.
        unready_ms: since when it is to have a process of this revision and is not ready; ``None``
            while it is ready, and while it is to have no process.
        ready_ms: since when it is ready; ``None`` while it is not.
        leaving_ms: since when it is to release everything and end; ``None`` while it is not.
    """

    lease: tuple[str, int] | None = None
    lease_ms: int = 0
    started_ms: int | None = None
    waiting_ms: int | None = None
    is_made_anew: bool = False
    stopped_ms: int | None = None
    stopping_ms: int | None = None
    ended_ms: int | None = None
    gone_ms: int | None = None
    live_ms: int | None = None
    heard: str = ""
    heard_revision: str = ""
    dead: str = ""
    revision: str = ""
    unheard: int = 0
    early_deaths: int = 0
    unready_ms: int | None = None
    ready_ms: int | None = None
    leaving_ms: int | None = None

    def of_revision(self, revision: str) -> WorkerMemory:
        """Return this with a process of a revision.

        Another revision is not blamed for earlier ends, nor for the time without a ready process.
        """
        if revision in ("", self.revision):
            return self
        return replace(self, revision=revision, early_deaths=0, unheard=0, unready_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupMemory:
    """A warm-up, and when it came nearer to the end last.

    Attributes:
        lag: the smallest that was seen.
        progress_ms: when it was first seen.
    """

    lag: int
    progress_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverMemory:
    """What is remembered of the driver. Times are of the control loop's monotonic clock.

    Attributes:
        attempt: of the process that was seen last.
        started_ms: when that was started, or first seen; ``None`` while there is none.
        heard_ms: when it has told last that it runs, or was started.
        answered_ms: when it has told anything last, or was started.
        batches: how many micro-batches it had done when it told of itself last.
        progress_ms: when that number was first seen, or it was not running yet.
        stopped_ms: when it was last told to stop.
        is_silent: that was because it did not tell that it runs.
        is_stalled: that was because no micro-batch ended.
        has_run: whether it has ever told so.
        has_processed: whether it has ended a micro-batch.
        ended_ms: when its end was seen; ``None`` before one was.
        early_deaths: how often in a row it ended by itself, or was killed as silent, soon after its
            start or before it had ended a micro-batch.
        blamed: how many of these were for no cause that may pass.
        failure: why the last one ended by itself or was killed, until one has ended a micro-batch.
    """

    attempt: int = 0
    started_ms: int | None = None
    heard_ms: int = 0
    answered_ms: int = 0
    batches: int = 0
    progress_ms: int = 0
    stopped_ms: int | None = None
    is_silent: bool = False
    is_stalled: bool = False
    has_run: bool = False
    has_processed: bool = False
    ended_ms: int | None = None
    early_deaths: int = 0
    blamed: int = 0
    failure: Failure | None = None

    def started(self, now_ms: int) -> DriverMemory:
        """Return this with a process that has just been started, or is seen for the first time."""
        return replace(
            self,
            started_ms=now_ms,
            heard_ms=now_ms,
            answered_ms=now_ms,
            batches=0,
            progress_ms=now_ms,
            stopped_ms=None,
            is_silent=False,
            is_stalled=False,
            has_run=False,
            has_processed=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMemory:
    """Which engine has the application, as Kafka had it when it was looked up last.

    Attributes:
        engine: it.
        generation: of the take-over.
        is_fenced: the take-over was finished; before, nobody may run the application.
        is_ours: this run of the control loop has had it taken over.
    """

    engine: Engine
    generation: int
    is_fenced: bool = True
    is_ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The last failure of a kind of duty, and when it was seen."""

    result: DutyFailed
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The control loop's memory.

    Attributes:
        workers: by name.
        members: foreign members of the consumer group; ``None`` before the first answer.
        partitions: partition counts by topic; ``None`` before the first answer.
        topic_ids: UUIDs by topic, as far as they are known.
        unread: how many records of each source topic lie in partitions without a committed offset;
            counted only where topics do not fit the topology any more, ``None`` before.
        delete_retention_ms: of changelogs, as far as it is known.
        warmups: by worker and task; those that were given up stay here until they are tried again.
        looked_ms: when the last look-up was handed out; ``None`` before the first.
        failed: by kind of duty (for fences: and worker), until one of that kind succeeds.
        answered: ids of the duties whose results have been taken in and still stand in a spec.
        request: what was wanted when this was remembered (``Observed.request``).
        asked_epoch: the greatest epoch of a spec when that was first seen.
        reset_done: the reset of this request was carried out.
        engine: which engine has the application; ``None`` before the first answer.
        driver: of an engine that is not Native.
        scaling: what autoscaling has learned.
        unsettled: why the assignment was not what it is to be at the last decision; ``None``
            before the first.
    """

    workers: Mapping[str, WorkerMemory] = field(default_factory=dict)
    members: tuple[GroupMember, ...] | None = None
    partitions: Mapping[str, int] | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, int] | None = None
    delete_retention_ms: Mapping[str, int] = field(default_factory=dict)
    warmups: Mapping[tuple[str, TaskId], WarmupMemory] = field(default_factory=dict)
    looked_ms: int | None = None
    failed: Mapping[str, Failed] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    request: int | None = None
    asked_epoch: int = 0
    reset_done: bool = False
    engine: EngineMemory | None = None
    driver: DriverMemory = field(default_factory=DriverMemory)
    scaling: ScalingMemory = field(default_factory=ScalingMemory)
    unsettled: str | None = None

    def of(self, worker: str) -> WorkerMemory:
        """Return what is remembered of a worker; an empty memory if nothing is."""
        return self.workers.get(worker, WorkerMemory())
