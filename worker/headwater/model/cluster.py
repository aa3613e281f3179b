"""The resources by which control loop and workers talk: StreamWorker and Lease.

One small :class:`StreamWorker` per worker. The control loop alone writes ``spec``, the worker alone
writes ``status``; on Kubernetes they are custom resources, on one machine files, replaced by rename
under a lock.

    spec    what the worker may hold (tasks), what is being taken away (revoking), what it is to do
    (duties) status  what it has taken notice of (acknowledged_epoch), what it holds (tasks), what
    it stores, what it found

**Epoch.** Every write of a spec carries a greater epoch; the generation of the control loop's
leadership stands in its high 32 bits. A worker refuses an epoch lower than the highest it has seen.

**Who holds a task.** A worker may hold a task when its spec grants it, or when its status lists it,
or when the spec lists it as ``revoking`` and the worker has not acknowledged that epoch. Once
``acknowledged_epoch >= spec.epoch``, a revoking task that the status does not list is released:
committed and closed.

**Incarnation.** Tasks are granted to one process: ``spec.incarnation``. Another process of the same
worker (a restart, a zombie that woke) holds nothing, whatever the spec says, until the control loop
names it.

**Lost worker.** ``fencing_epoch`` is set, and ``tasks`` move to ``revoking``, in one write; then a
``Fence`` duty whose epoch is greater runs on a live worker; then ``revoking`` and ``fencing_epoch``
are cleared. Only then may the tasks be granted again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from headwater.errors import SpecError
from headwater.ids import SlotId, TaskId, TopicPartition
from headwater.model.codec import decode, encode_object
from headwater.model.duties import Duty, DutyResult  # noqa: TC001  # read by the codec
from headwater.model.fields import Rule, meta
from headwater.model.hangs import Hang  # noqa: TC001  # read by the codec
from headwater.model.lifecycle import ClientState, TaskState  # noqa: TC001  # read by the codec
from headwater.model.livesettings import LiveSettings  # noqa: TC001  # read by the codec
from headwater.model.rollon import RollOnStatus  # noqa: TC001  # read by the codec
from headwater.model.topics import TopologyReport  # noqa: TC001  # read by the codec

if TYPE_CHECKING:
    from collections.abc import Mapping

API_VERSION: Final = "headwater.dev/v1alpha1"
FORMAT_VERSION: Final = 1
"""The version of the JSON written by this module; a higher one is refused."""

OFFSET_BUCKET: Final = 10_000
"""Stored offsets are reported in steps of so many records, so that a status rarely changes."""

LAG_UNKNOWN: Final = 10**12
"""The lag of a standby or warm-up task that has not looked at its changelogs yet."""


def make_epoch(generation: int, counter: int) -> int:
    """Return the epoch of the ``counter``-th write of a leader generation; both below 2^32."""
    assert 0 <= generation < 1 << 32, generation
    assert 0 <= counter < 1 << 32, counter
    return generation << 32 | counter


def generation_of(epoch: int) -> int:
    """Return the leader generation in an epoch's high bits."""
    return epoch >> 32


def format_epoch(epoch: int) -> str:
    """Write an epoch for people: ``"3.17"`` is the 17th write of generation 3."""
    return f"{generation_of(epoch)}.{epoch & 0xFFFF_FFFF}"


def offset_bucket(offset: int) -> int:
    """Return ``offset`` rounded down to a multiple of :data:`OFFSET_BUCKET`."""
    return offset - offset % OFFSET_BUCKET


def lag_bucket(lag: int) -> int:
    """Return ``lag`` rounded up to 0 or a power of ten from 1,000 on.

    So a status changes a few times while a task catches up, not with every batch.
    """
    if lag <= 0:
        return 0
    bucket = 1_000
    while bucket < lag:
        bucket *= 10
    return bucket


def changelogs_digest(topic_ids: Mapping[str, str]) -> str:
    """Return 8 hexadecimal digits that name changelog topics together with their UUIDs.

    A deleted and re-created topic has another UUID, so state that was restored from it is told
    apart.
    """
    lines = "\n".join(f"{topic}={topic_id}" for topic, topic_id in sorted(topic_ids.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:8]


_TASKS: Final = meta(max_items=20_000)
_SLOTS: Final = meta(max_items=1_000)


class Role(StrEnum):
    """In which way a worker holds a task."""

    ACTIVE = "Active"
    STANDBY = "Standby"
    WARMUP = "Warmup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Why some tasks have come to where they are.

    Attributes:
        reason: a sentence; it was true when they came.
        tasks: which.
    """

    reason: str = field(metadata=meta(max_length=200))
    tasks: tuple[TaskId, ...] = field(default=(), metadata=_TASKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """What the control loop wants of one worker.

    Attributes:
        app: the StreamApp's name.
        epoch: of this write; grows with every write.
        incarnation: the worker process to which ``active``, ``standby`` and ``warmup`` are granted;
            empty for none.
        active: tasks to process, sorted.
        standby: tasks to keep a copy of.
        warmup: tasks to restore in order to take them over.
        revoking: tasks taken away whose release is not known yet.
        duties: what it is to do with Kafka on behalf of the control loop.
        slots: every StreamThread slot this worker was ever given, in any incarnation; it only
            grows.
        threads: how many StreamThreads run at a time: those of the first so many ``slots``; 0: of
            all of them.
        paused: process nothing; what was processed is committed, copies are kept up.
        drain: release everything and end; the worker is going to be stopped.
        fencing_epoch: the epoch of the write that took everything from a lost worker; 0 when no
            fencing is under way.
        acceptable_lag: with at most so many changelog records to read (summed over the task), a
            standby or warm-up task counts as caught up (KIP-441's ``acceptable.recovery.lag``).
        live: what its processes take over while they run; left out: what they were started with.
        joining: it has yet to get its share of the tasks: moves to it wait for no window.
        why: why each task of ``active``, ``standby`` and ``warmup`` is here.
    """

    app: str = field(metadata=meta(max_length=63))
    epoch: int = field(default=0, metadata=meta(minimum=0))
    incarnation: str = ""
    active: tuple[TaskId, ...] = field(default=(), metadata=_TASKS)
    standby: tuple[TaskId, ...] = field(default=(), metadata=_TASKS)
    warmup: tuple[TaskId, ...] = field(default=(), metadata=_TASKS)
    revoking: tuple[TaskId, ...] = field(default=(), metadata=_TASKS)
    duties: tuple[Duty, ...] = ()
    slots: tuple[int, ...] = field(default=(), metadata=_SLOTS)
    threads: int = field(default=0, metadata=meta(minimum=0))
    paused: bool = False
    drain: bool = False
    fencing_epoch: int = 0
    acceptable_lag: int = 10_000
    live: LiveSettings | None = None
    joining: bool = False
    why: tuple[Placement, ...] = field(default=(), metadata=meta(max_items=100))

    def tasks_of(self, role: Role) -> tuple[TaskId, ...]:
        """Return the tasks granted in ``role``."""
        match role:
            case Role.ACTIVE:
                return self.active
            case Role.STANDBY:
                return self.standby
            case Role.WARMUP:
                return self.warmup

    def active_for(self, incarnation: str) -> tuple[TaskId, ...]:
        """Return the active tasks that the process ``incarnation`` may hold: none if not named."""
        return self.active if incarnation and incarnation == self.incarnation else ()

    def copies_for(self, incarnation: str) -> dict[TaskId, Role]:
        """Return the standby and warm-up tasks that the process ``incarnation`` is to follow.

        None if it is not named, and none that is active here as well. A task that is still being
        taken away is followed only once its release is acknowledged: until then, whether the
        status lists it says whether it is released.
        """
        if not incarnation or incarnation != self.incarnation:
            return {}
        others = {*self.active, *self.revoking}
        return {
            task: role
            for role in (Role.WARMUP, Role.STANDBY)
            for task in self.tasks_of(role)
            if task not in others
        }

    @property
    def running_slots(self) -> tuple[int, ...]:
        """The slots that may have tasks now; the others are kept for the sake of their fences."""
        return self.slots[: self.threads] if self.threads else self.slots

    @property
    def is_fencing(self) -> bool:
        """Whether the worker is lost and its slots are not known to be fenced yet."""
        return self.fencing_epoch > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One task that the worker holds in any way; a closed task is not listed.

    Attributes:
        task: which.
        state: a standby or warm-up task is RESTORING until it has caught up for the first time,
            then RUNNING.
        role: in which it is held.
        slot: of an active task.
        lag: of a standby or warm-up task: changelog records still to read, rounded up by
            :func:`lag_bucket`, or :data:`LAG_UNKNOWN`; exact numbers travel by HTTP.
        caught_up: of a standby or warm-up task: whether the exact lag is acceptable, or was up to
            10 s ago and is not beyond twice that.
    """

    task: TaskId
    state: TaskState
    role: Role = Role.ACTIVE
    slot: int = 0
    lag: int = 0
    caught_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """The next offset to read of one input partition.

    Attributes:
        partition: topic and number.
        offset: the next one to read.
    """

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedTask:
    """A task that was committed and closed because its spec took it away.

    Attributes:
        task: which.
        epoch: the epoch that took it away.
        offsets: the final committed offsets of its input partitions.
    """

    task: TaskId
    epoch: int
    offsets: tuple[PartitionOffset, ...] = field(default=(), metadata=meta(max_items=10_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """A task whose state is in the worker's directory, and up to where.

    Attributes:
        task: which.
        offset_bucket: sum of the next offsets of its changelog partitions, rounded by
            :func:`offset_bucket`.
        changelogs: the changelog topics its positions belong to, as :func:`changelogs_digest`.
        saved_hour: when the oldest of its stores was last committed, in hours since 1970.
    """

    task: TaskId
    offset_bucket: int = 0
    changelogs: str = ""
    saved_hour: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerError:
    """Why a worker cannot go on.

    Attributes:
        error: the class name in ``headwater.errors``.
        message: what happened and what to do next.
        task: the task it happened in, if one.
        shuts_down_application: whether all workers are to end because of it.
    """

    error: str
    message: str = field(metadata=meta(max_length=32_768, clip=True))
    task: TaskId | None = None
    shuts_down_application: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """What one worker process reports; written on change, never periodically.

    Attributes:
        incarnation: a UUID of the worker process; empty before the first report.
        acknowledged_epoch: the highest spec epoch that the process has taken notice of. From then
            on it holds nothing but the tasks it lists and those the spec grants.
        tasks: every task it holds, in whatever state, revoked ones until they are closed.
        released: tasks revoked at or before the acknowledged epoch, until the spec no longer lists
            them as revoking.
        stored: tasks with state in its directory that it does not hold.
        fenced_slots: slots whose producer was fenced under the acknowledged epoch. Their tasks are
            dropped without a commit and start again only under a greater epoch.
        group_in_use: whether the consumer group had members when the worker last looked; only the
            holder of the application's first task looks.
        hangs: functions that have not returned, and that no later attempt has got past.
        duty_results: for the duties in the spec, as they are done.
        topology: what was built from the import path; ``None`` until then.
        endpoint: ``host:port`` of its HTTP service; empty until it listens.
        state: of the process in Kafka Streams' words: CREATED while it imports its topology,
            REBALANCING while a task that it holds does not run; ``None`` from an older release.
        paused: whether its spec wants it paused, and nothing of its tasks is processed or
            uncommitted any more.
        running: how many of the active tasks that it holds run, as "2/3".
        copies: how many of its standby and warm-up tasks have caught up, as "1/1".
        importing: whether the process still imports its topology. It holds nothing, takes nothing
            and does not renew its Lease; quick imports are never told.
        roll_on: what it has found of ``spec.upgrade.rollOn``; ``None`` while all is as it was.
        error: set when the process is about to end, or cannot begin, because of it.
    """

    incarnation: str = ""
    acknowledged_epoch: int = 0
    tasks: tuple[TaskStatus, ...] = field(default=(), metadata=_TASKS)
    released: tuple[ReleasedTask, ...] = field(default=(), metadata=_TASKS)
    stored: tuple[StoredTask, ...] = field(default=(), metadata=_TASKS)
    fenced_slots: tuple[int, ...] = field(default=(), metadata=_SLOTS)
    group_in_use: bool = False
    hangs: tuple[Hang, ...] = ()
    duty_results: tuple[DutyResult, ...] = ()
    topology: TopologyReport | None = None
    endpoint: str = ""
    state: ClientState | None = None
    paused: bool = False
    running: str = field(default="", metadata=meta(max_length=20))
    copies: str = field(default="", metadata=meta(max_length=20))
    importing: bool = False
    roll_on: RollOnStatus | None = None
    error: WorkerError | None = None

    @property
    def held(self) -> frozenset[TaskId]:
        """The tasks listed, in any role."""
        return frozenset(status.task for status in self.tasks)

    def result_of(self, duty_id: str) -> DutyResult | None:
        """Return the result of a duty, or ``None`` while there is none."""
        for result in self.duty_results:
            if result.id == duty_id:
                return result
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWorker:
    """One worker: its name, what is wanted of it, what it reports. It outlives its process."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.spec.app == oldSelf.spec.app",
            message="a worker stays with its StreamApp",
            field="spec.app",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel=(
                "(has(self.spec.epoch) ? self.spec.epoch : 0) >= "
                "(has(oldSelf.spec.epoch) ? oldSelf.spec.epoch : 0)"
            ),
            message="the epoch never goes down: another control loop has written since",
            field="spec.epoch",
            reason="FieldValueForbidden",
        ),
        Rule(
            cel=(
                "!has(oldSelf.spec.slots) || (has(self.spec.slots) && "
                "oldSelf.spec.slots.all(slot, slot in self.spec.slots))"
            ),
            message="slots are never taken out: each has a transactional id that may need fencing",
            field="spec.slots",
            reason="FieldValueForbidden",
        ),
    )

    name: str
    spec: WorkerSpec
    status: WorkerStatus = WorkerStatus()

    def transactional_ids(self, application_id: str) -> tuple[str, ...]:
        """Return the transactional ids of every slot this worker was ever given."""
        return tuple(
            SlotId(self.name, slot).transactional_id(application_id) for slot in self.spec.slots
        )

    def to_dict(self) -> dict[str, object]:
        """Return the resource as JSON values."""
        return _resource(
            "StreamWorker", self.name, encode_object(self.spec), encode_object(self.status)
        )

    @classmethod
    def from_dict(cls, data: object) -> StreamWorker:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the resource is damaged or was written in a newer format.
        """
        name, spec, status = _parts("StreamWorker", data)
        return cls(
            name=name,
            spec=decode(WorkerSpec, spec, path=f"StreamWorker {name}: spec", strict=False),
            status=decode(WorkerStatus, status, path=f"StreamWorker {name}: status", strict=False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker process' sign of life: a counter that whoever reads it judges by its own clock.

    Attributes:
        worker: whose.
        holder: the incarnation that renews it.
        duration_ms: without a renewal for so long, the holder is to be taken for dead.
        renewals: counts up with every renewal of this holder.
    """

    worker: str
    holder: str
    duration_ms: int = 30_000
    renewals: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the resource as JSON values."""
        return _resource("Lease", self.worker, encode_object(self), {})

    @classmethod
    def from_dict(cls, data: object) -> Lease:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the resource is damaged or was written in a newer format.
        """
        name, spec, _ = _parts("Lease", data)
        return decode(cls, spec, path=f"Lease {name}: spec", strict=False)


def worker_name(app: str, ordinal: int) -> str:
    """Return the name of the ``ordinal``-th worker of an application: ``word-count-w-0``."""
    return f"{app}-w-{ordinal}"


def worker_ordinal(name: str) -> int:
    """Return the ordinal at the end of a worker's name."""
    return int(name.rpartition("-")[2])


def _resource(kind: str, name: str, spec: object, status: object) -> dict[str, object]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "formatVersion": FORMAT_VERSION,
        "metadata": {"name": name},
        "spec": spec,
        "status": status,
    }


def _parts(kind: str, data: object) -> tuple[str, object, object]:
    """Check the outside of a resource; return its name, spec and status."""
    if not isinstance(data, dict) or data.get("kind") != kind:
        raise SpecError(
            f"expected a {kind} resource, got {data!r:.80}; the file is damaged or of another kind"
        )
    version = data.get("formatVersion", FORMAT_VERSION)
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise SpecError(
            f"{kind}: format version {version!r} is newer than {FORMAT_VERSION}, the newest of "
            "this release; use the release that wrote it"
        )
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise SpecError(f"{kind}: metadata.name: required field is missing")
    return name, data.get("spec", {}), data.get("status") or {}
