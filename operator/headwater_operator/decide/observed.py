"""What the control loop sees of one application, and what one decision is.

    observe ──► Observed ──► decide(observed, memory, now_ms) ──► Decision ──► act
                               ▲                                     │
                               └───────────── memory ────────────────┘

``Observed`` is one snapshot, read afresh for every decision. ``Memory`` (``decide.memory``) is what
one run of the control loop remembers between two decisions: times by its own monotonic clock, and
answers to duties. It starts empty with every run; nothing is lost by that but time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headwater.model.appstatus import AppStatus
from headwater_operator.decide.limits import LOOK_AGAIN_MS
from headwater_operator.rollout import Roll

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.model.cluster import Lease, StreamWorker
    from headwater.model.streamapp import StreamApp
    from headwater_operator.actions import Action
    from headwater_operator.decide.autoscaling.load import Reading
    from headwater_operator.decide.memory import Memory
    from headwater_operator.decide.streamactions.asked import ActionView
    from headwater_operator.decide.streamactions.objects import Work
    from headwater_operator.decide.streamactions.ruling import Ruling


RESET_NOW: Final = "now"
"""The application begins by ``auto.offset.reset`` after a reset."""
RUNNING: Final = "RUNNING"
"""What a driver calls itself while its query runs."""


class Intent(StrEnum):
    """What the user wants of the application as a whole."""

    RUN = "Run"
    STOP = "Stop"
    """Stop every worker; keep StreamWorkers and state."""
    RESET = "Reset"
    """Stop, then delete internal topics, committed offsets and all local state."""
    DELETE = "Delete"
    """Stop, then delete the StreamWorkers, and their state as the StreamApp says."""


class ProcessState(StrEnum):
    """What is known about the process (container) of a worker, by looking at the process itself."""

    NONE = "None"
    """There is none: never started, or its end was seen and recorded. A proof."""
    RUNNING = "Running"
    ENDED = "Ended"
    """The last one that was started has ended. A proof."""
    UNKNOWN = "Unknown"
    """It cannot be looked at (its node does not answer): only its Lease can tell."""

    @property
    def is_proof_of_end(self) -> bool:
        """Whether certainly no process of this worker runs."""
        return self in (ProcessState.NONE, ProcessState.ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One worker as it was read: its StreamWorker, its Lease if there is one, its process.

    Attributes:
        worker: the resource.
        process: what is known about its process.
        lease: its sign of life.
        revision: of the specification that its process was started from; empty when it has none.
        waits_for: what its process, which counts as running, waits for before it can begin: a node,
            an image. Empty once it has begun.
        problem: why its process cannot begin, if it is known that somebody has to do something.
        is_hopeless: its process is known not to begin by itself: its image cannot be had, or its
            container cannot be made. Nothing is known against one that merely waits for a node.
        process_id: tells its process from every other one; empty where that is not known.
        lacks_file: its pod waits for a Secret or ConfigMap that was not there when it was last to
            be mounted.
        is_stopping: its process was told to end.
        is_tampered: somebody else has changed its spec; what its process made of that is unknown.
        labels: of the place where its process runs, by topology key: its zone, its node. Empty when
            that is not known.
        lags: changelog records that its copies have still to read, as its process has told when it
            was asked just now. Empty if it was not asked, or has not answered: then what its status
            says counts.
    """

    worker: StreamWorker
    process: ProcessState = ProcessState.NONE
    lease: Lease | None = None
    revision: str = ""
    waits_for: str = ""
    problem: str = ""
    is_hopeless: bool = False
    process_id: str = ""
    lacks_file: bool = False
    is_stopping: bool = False
    is_tampered: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    lags: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverView:
    """The driver of an engine that is not Native, as it was seen.

    Attributes:
        process: what is known about its process.
        generation: of the take-over that it was started for.
        executors: how many it was started with.
        is_stopping: it was told to end.
        attempt: tells its processes apart; 0 before the first.
        has_answered: whether it has just told of itself.
        state: what it calls itself, or has called itself when it told something last: STARTING,
            RUNNING, STOPPING or FAILED; empty if it has never told. So with the numbers below.
        batches: how many micro-batches it has done: its sign of progress.
        last_batch: number of its last micro-batch; -1 before the first.
        input_rows_per_second: during that batch.
        processed_rows_per_second: during that batch.
        tasks: how many it runs.
        end: why its last process ended; empty if it ended well, or runs.
        error: the class name in ``headwater.errors`` of that; empty if it is not known.
        is_fenced: it ended because somebody else has taken the application over.
        is_hopeless: it would end in the same way again, until somebody changes something.
        was_disrupted: it did not end by itself: its machine is gone, or wanted to be rid of it.
        started_from: a digest of what it was started from; empty where that is not told.
        waits_for: what its process, which counts as running, waits for before it can begin.
        executors_there: how many there are; ``None`` where nobody can see them.
        executors_ready: how many of them could do something.
    """

    process: ProcessState = ProcessState.NONE
    generation: int = 0
    executors: int = 0
    is_stopping: bool = False
    attempt: int = 0
    has_answered: bool = False
    state: str = ""
    batches: int = 0
    last_batch: int = -1
    input_rows_per_second: int = 0
    processed_rows_per_second: int = 0
    tasks: int = 0
    end: str = ""
    error: str = ""
    is_fenced: bool = False
    is_hopeless: bool = False
    was_disrupted: bool = False
    started_from: str = ""
    waits_for: str = ""
    executors_there: int | None = None
    executors_ready: int = 0

    @property
    def is_running(self) -> bool:
        """Whether it says that its query runs."""
        return not self.process.is_proof_of_end and self.state == RUNNING

    @property
    def is_processing(self) -> bool:
        """Whether it has done a micro-batch, and so all executors and stores that one needs."""
        return self.is_running and self.batches > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One snapshot of one application.

    Attributes:
        app: the StreamApp.
        intent: what is wanted of it.
        generation: of this run of the control loop; greater than that of any run before, at least
            1.
        workers: every StreamWorker of the application.
        driver: of an engine that is not Native.
        status: the application's status as last written; a final failure in it is heeded until it
            is cleared.
        revision: of the specification as it is now; empty where processes have none.
        failed_revision: the one that is, or was, rolled back to ``revision``; empty if none is.
        started_from: a digest of what a driver would be started from now; empty as above.
        hour: the time of day, in hours since 1970; 0 when it is not known.
        minute: the same in minutes.
        loads: what workers that were asked for it just now tell of their active tasks, by worker;
            one that has not answered is left out. ``None`` if nobody was asked.
        scaled_by: who else writes ``spec.replicas`` through the scale subresource, as an
            autoscaler does; empty if nobody is known to.
        look_again_ms: topics and group members are looked up this often.
        request: counts up whenever somebody asks for something; what was done for an earlier
            request is no answer to a later one.
        reset_to: where the application begins after a reset (``headwater.model.resetting``).
        actions: the StreamActions of the application.
        clock: the time of day; empty where there are no actions.
        driver_log: says where the log of a driver that was killed is to be found; empty if nowhere.
    """

    app: StreamApp
    generation: int
    intent: Intent = Intent.RUN
    workers: tuple[WorkerView, ...] = ()
    driver: DriverView = field(default_factory=DriverView)
    status: AppStatus = field(default_factory=AppStatus)
    revision: str = ""
    failed_revision: str = ""
    started_from: str = ""
    hour: int = 0
    minute: int = 0
    loads: Mapping[str, Mapping[TaskId, Reading]] | None = None
    scaled_by: str = ""
    look_again_ms: int = LOOK_AGAIN_MS
    request: int = 0
    reset_to: str = RESET_NOW
    actions: tuple[ActionView, ...] = ()
    clock: str = ""
    driver_log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now.

    Attributes:
        actions: to carry out in this order.
        status: the application's status, to be written when it differs from the one observed.
        memory: to hand to the next decision of this run.
        again_after_ms: decide again after so long even when nothing changes.
        roll: how far a rolling change has come.
        unsettled: why the assignment is not what it is to be, although all tasks may run; empty
            when it is.
        waits_for: the part of ``unsettled`` that is not about tasks that move: a worker that has
            yet to join, or something to look up first; empty for nothing.
        warnings: what is not as the StreamApp says, although it runs.
        importing: which workers import their topology; empty if none does.
        held_back: which moves wait for a window until when; empty for none.
        rulings: the next statuses of StreamActions, to be written before anything is done.
        work: what StreamActions need done to other objects than workers.
    """

    actions: tuple[Action, ...]
    status: AppStatus
    memory: Memory
    again_after_ms: int
    roll: Roll = field(default_factory=Roll)
    unsettled: str = ""
    waits_for: str = ""
    importing: str = ""
    held_back: str = ""
    warnings: tuple[str, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    work: tuple[Work, ...] = ()
