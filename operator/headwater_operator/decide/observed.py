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
from typing import TYPE_CHECKING

from headwater.model.appstatus import AppStatus
from headwater_operator.decide.limits import LOOK_AGAIN_MS
from headwater_operator.rollout import Roll

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.cluster import Lease, StreamWorker
    from headwater.model.streamapp import StreamApp
    from headwater_operator.actions import Action
    from headwater_operator.decide.memory import Memory


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
        is_stopping: its process was told to end.
        is_tampered: somebody else has changed its spec; what its process made of that is unknown.
        labels: of the place where its process runs, by topology key: its zone, its node. Empty when
            that is not known.
    """

    worker: StreamWorker
    process: ProcessState = ProcessState.NONE
    lease: Lease | None = None
    revision: str = ""
    waits_for: str = ""
    problem: str = ""
    is_stopping: bool = False
    is_tampered: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One snapshot of one application.

    Attributes:
        app: the StreamApp.
        intent: what is wanted of it.
        generation: of this run of the control loop; greater than that of any run before, at least
            1.
        workers: every StreamWorker of the application.
        status: the application's status as last written; a final failure in it is heeded until it
            is cleared.
        revision: of the specification as it is now; empty where processes have none.
        hour: the time of day, in hours since 1970; 0 when it is not known.
        look_again_ms: topics and group members are looked up this often.
    """

    app: StreamApp
    generation: int
    intent: Intent = Intent.RUN
    workers: tuple[WorkerView, ...] = ()
    status: AppStatus = field(default_factory=AppStatus)
    revision: str = ""
    hour: int = 0
    look_again_ms: int = LOOK_AGAIN_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now.

    Attributes:
        actions: to carry out in this order.
        status: the application's status, to be written when it differs from the one observed.
        memory: to hand to the next decision of this run.
        again_after_ms: decide again after so long even when nothing changes.
        roll: how far a rolling change has come.
    """

    actions: tuple[Action, ...]
    status: AppStatus
    memory: Memory
    again_after_ms: int
    roll: Roll = field(default_factory=Roll)
