"""The worker's table: what its main process knows; ``observations`` go in, ``actions`` come out.

    slot   ABSENT -> STARTING -> READING -> CONFIRMED -> RUNNING -> STOPPING -> ABSENT
                        ^           |           |           |
                       DEAD <-------+-----------+-----------+--> FENCED -> ABSENT
    task   WAITING -> RESTORING -> READY -> STARTING -> RUNNING -> REVOKING -> gone
              |           +--> CANCELLING -> gone        (and back to WAITING as its slot ends)
    copy   WAITING -> FOLLOWING -> CLOSING -> gone       (standby, warm-up)
                          +--> RESTORING, as an active task: promoted

Only ``observe`` and ``reconcile`` change the table. All times are milliseconds of the boot-time
clock, which goes on while the machine sleeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headwater.model.cluster import LAG_UNKNOWN
from headwater.service.decide.balance import Loads

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.model.cluster import (
        ReleasedTask,
        Role,
        StoredTask,
        WorkerError,
        WorkerSpec,
    )
    from headwater.model.duties import DutyResult
    from headwater.model.hangs import Hang
    from headwater.model.livesettings import LiveSettings
    from headwater.model.rollon import RollOnStatus
    from headwater.model.topics import TopologyReport
    from headwater.native.messages import Located
    from headwater.service.decide.global_thread import GlobalThread

LEASE_MS: Final = 30_000
"""How long the control loop waits for a renewal, unless ``session.timeout.ms`` says otherwise."""

DRAIN_LIMIT_MS: Final = 60_000
"""A drain that takes longer is cut short by killing what is left."""

GROUP_WATCH_MS: Final = 30_000
"""On a cluster the group is looked at this often by whoever holds the first task."""

START_LIMIT_MS: Final = 120_000
"""A process says nothing while it starts and opens its clients; so long is patience enough."""

UPDATER_IDLE_MS: Final = 500
"""A StateUpdater without work ends after this long: it costs memory."""

REPORT_LAG_MS: Final = 3_000
"""A StreamThread's report that a broker is lost comes so late at most."""

TRIES: Final = 5
"""How often in a row something is tried that may be cured by another try, but need not."""

TRIES_UNKNOWN: Final = 3
"""As ``TRIES``, for exceptions that are none of ours."""


_LONGEST_PAUSE_MS: Final = 30_000


def pause_ms(failures: int) -> int:
    """Return how long to wait after the n-th failure in a row: 0, 1 s, 2 s, 4 s ... 30 s."""
    return 0 if failures <= 1 else min(_LONGEST_PAUSE_MS, 1_000 << min(failures - 2, 10))


class SlotPhase(StrEnum):
    """What the process of one slot is doing."""

    ABSENT = "absent"
    STARTING = "starting"
    """It initialises its transactional id."""
    READING = "reading"
    """It has its id; our own StreamWorker is to be read again."""
    CONFIRMED = "confirmed"
    """That was done and nothing has changed: it may be told to go."""
    RUNNING = "running"
    """It was told to go."""
    STOPPING = "stopping"
    DEAD = "dead"
    """Ended and awaited; what it left open is not known to be aborted."""
    FENCED = "fenced"
    """Another producer took its id; it stays down until the epoch grows."""


@dataclass(slots=True, kw_only=True)
class Slot:
    """One StreamThread's place."""

    number: int
    phase: SlotPhase = SlotPhase.ABSENT
    process: int = 0
    """How many processes this slot has had."""
    alive: bool = False
    """There is a process that was not awaited yet."""
    doomed: str = ""
    """Why the process is to be killed; empty if it is not."""
    heard_ms: int = 0
    began_ms: int = 0
    failures: int = 0
    """Ends in a row without a longer run in between."""
    restart_ms: int = 0
    fenced_epoch: int = 0
    sharers: int = 0
    """Among how many StreamThreads the process was told to share the record cache."""
    lease_told_ms: int = 0
    """The renewal that the process was told of last."""
    failed: str = ""
    """Why the last process ended, for people."""
    asked_ms: int = 0
    """When the process, silent for long, was asked where it is; 0 if it was not."""
    place: Located | None = None
    """What it has answered."""
    is_told_to_pause: bool = False
    is_paused: bool = False
    """The process has committed everything, and processes nothing."""

    @property
    def owes_fence(self) -> bool:
        """Whether an earlier process may have left a transaction open."""
        return self.process > 0 and self.phase in (SlotPhase.DEAD, SlotPhase.STARTING)


class TaskPhase(StrEnum):
    """Where one task is."""

    WAITING = "waiting"
    RESTORING = "restoring"
    CANCELLING = "cancelling"
    READY = "ready"
    STARTING = "starting"
    RUNNING = "running"
    REVOKING = "revoking"


@dataclass(slots=True, kw_only=True)
class Task:
    """One task this worker holds."""

    id: TaskId
    slot: int
    goal: int
    """The slot it is to run in; it goes there once the present one has released it."""
    stateful: bool
    phase: TaskPhase = TaskPhase.WAITING
    updater: int = -1
    dirty: bool = False
    """A process that ended without a word had it: it is not released before that slot is clean."""
    retry_ms: int = 0
    failures: int = 0
    """Restores in a row that failed."""
    restored: int = 0
    remaining: int = 0

    @property
    def on_thread(self) -> bool:
        """Whether a StreamThread may have its stores open."""
        return self.phase in (TaskPhase.STARTING, TaskPhase.RUNNING, TaskPhase.REVOKING)

    @property
    def on_updater(self) -> bool:
        """Whether a StateUpdater may have its stores open."""
        return self.phase in (TaskPhase.RESTORING, TaskPhase.CANCELLING)


class CopyPhase(StrEnum):
    """Where one standby or warm-up task is."""

    WAITING = "waiting"
    FOLLOWING = "following"
    CLOSING = "closing"


@dataclass(slots=True, kw_only=True)
class Copy:
    """One standby or warm-up task this worker holds."""

    id: TaskId
    role: Role
    phase: CopyPhase = CopyPhase.WAITING
    updater: int = -1
    retry_ms: int = 0
    failures: int = 0
    """Beginnings in a row that failed."""
    lag: int = LAG_UNKNOWN
    has_caught_up: bool = False
    """Its lag has been acceptable once."""
    told_lag: int = LAG_UNKNOWN
    """The bucket that the status shows."""
    told_ms: int = 0
    """When the lag was last as great as that."""
    told_caught_up: bool = False
    """What the status says of it."""
    caught_up_ms: int = 0
    """When the lag was last acceptable."""
    problem: str = ""
    """What keeps it from following, for people."""

    @property
    def on_updater(self) -> bool:
        """Whether a StateUpdater may have its stores open."""
        return self.phase is not CopyPhase.WAITING


@dataclass(slots=True, kw_only=True)
class Updater:
    """One StateUpdater process."""

    number: int
    alive: bool = False
    stopping: bool = False
    heard_ms: int = 0
    idle_since_ms: int = 0
    restart_ms: int = 0
    failures: int = 0


LEASE_LOST: Final = "the Lease was lost: another worker may own the tasks by now"


@dataclass(slots=True, kw_only=True)
class Table:
    """Everything the decisions depend on."""

    worker: str
    incarnation: str
    exactly_once: bool
    hung_ms: int
    cores: int
    """There are no more StateUpdaters than these, nor than StreamThreads."""
    import_timeout_ms: int = 0
    """Every child imports the topology, too, and says nothing meanwhile."""
    loads: Loads = field(default_factory=Loads)
    highest_epoch: int = 0
    """The highest epoch this worker's directory has ever seen."""
    remembered_epoch: int = 0
    """The highest epoch that is written down."""
    stateful: frozenset[int] = frozenset()
    """Sub-topologies with a changelog to restore."""
    in_memory: frozenset[int] = frozenset()
    """Sub-topologies with a store in memory, which a task that changes its slot fills anew."""
    topology: TopologyReport | None = None
    endpoint: str = ""
    spec: WorkerSpec | None = None
    lease_duration_ms: int = LEASE_MS
    """After so long without a renewal the control loop takes the worker for dead."""
    lease_ms: int | None = None
    """When the Lease was last renewed."""
    must_read: bool = True
    live: LiveSettings | None = None
    """What its processes have taken over; ``None``: what they were started with, unknown here."""
    idle_since_ms: int | None = None
    """Since when the spec has named no process of ours, so that nothing is granted."""
    slots: dict[int, Slot] = field(default_factory=dict)
    replaced: int = 0
    """Processes that were replaced in slots that are no more."""
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    copies: dict[TaskId, Copy] = field(default_factory=dict)
    """Standby and warm-up tasks. One that is to be active stays here until its restore begins."""
    updaters: dict[int, Updater] = field(default_factory=dict)
    global_thread: GlobalThread | None = None
    """Of a topology with global stores."""
    barred: dict[TaskId, int] = field(default_factory=dict)
    """Tasks dropped by a fence, and the epoch they must not start under again."""
    hangs: dict[TaskId, Hang] = field(default_factory=dict)
    """Where a function has hung last, until its task gets past that place."""
    released: dict[TaskId, ReleasedTask] = field(default_factory=dict)
    stored: dict[TaskId, StoredTask] = field(default_factory=dict)
    duty_results: dict[str, DutyResult] = field(default_factory=dict)
    duty_begun: str = ""
    """The duty under way."""
    group_watch_ms: int = 0
    """Whoever holds the first task looks at the group this often; 0 for never."""
    group_looked_ms: int | None = None
    """When the last look at the group began."""
    group_look_begun: bool = False
    group_in_use: bool = False
    """Whether the last look found members."""
    roll_on: RollOnStatus | None = None
    """What was found of ``spec.upgrade.rollOn``."""
    error: WorkerError | None = None
    exit_code: int = 0
    stopping_since_ms: int | None = None
    """Set once the worker is to end, for whatever reason."""
    last_tick_ms: int = 0
    patience_ms: int = 300_000
    """Without an answer from a broker for so long (``task.timeout.ms``) the worker gives up."""
    unanswered_since_ms: int = 0
    """When the first of the questions in a row was put that no broker answered; 0 for none."""

    @property
    def epoch(self) -> int:
        """The epoch in force."""
        return self.spec.epoch if self.spec is not None else self.highest_epoch

    @property
    def threads(self) -> int:
        """How many StreamThreads there may be now."""
        return max(1, len(self.spec.running_slots)) if self.spec is not None else 1

    @property
    def is_to_pause(self) -> bool:
        """Whether the spec in force wants nothing to be processed."""
        return self.spec is not None and self.spec.paused

    @property
    def max_updaters(self) -> int:
        """How many StateUpdaters there may be now."""
        return max(1, min(self.threads, self.cores))

    @property
    def held(self) -> frozenset[TaskId]:
        """The tasks held, in any role."""
        return frozenset(self.tasks) | frozenset(self.copies)

    @property
    def lease_limit_ms(self) -> int:
        """Without a renewal for so long we have no Lease: long before others say so."""
        return self.lease_duration_ms * 2 // 3

    @property
    def lease_margin_ms(self) -> int:
        """So long before the limit an at-least-once worker begins to commit and stop."""
        return self.lease_duration_ms // 6

    def has_lease(self, now_ms: int) -> bool:
        """Whether the Lease was renewed recently enough to take on anything new."""
        return self.lease_ms is not None and now_ms - self.lease_ms < self.lease_limit_ms

    def doom_holders(self, reason: str) -> None:
        """Have every StreamThread that holds tasks killed, uncommitted."""
        for slot in self.slots.values():
            if not slot.alive or slot.phase in (SlotPhase.STARTING, SlotPhase.FENCED):
                continue
            if any(task.slot == slot.number and task.on_thread for task in self.tasks.values()):
                slot.doomed = reason
