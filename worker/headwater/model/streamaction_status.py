"""What the control loop reports about a StreamAction, and the transitions of it. Pure.

    Pending ──► Waiting ──► Running ──► Complete
       └───────────┴───────────┴──────► Failed      by itself, cancelled, or out of time

``Running`` is written before anything is done, together with all that whoever goes on has to know.
The conditions mean what those of a Job mean: ``kubectl wait --for=condition=Complete`` returns when
it is done, and ``Failed`` says why it never will be.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from headwater.model.appstatus import ConditionStatus
from headwater.model.codec import decode, encode_object
from headwater.model.fields import meta

_SENTENCE = meta(max_length=32_768, clip=True)
_COUNT = meta(minimum=0, maximum=10_000_000)
_DIGEST = meta(pattern="[0-9a-f]{12}", meaning="12 hexadecimal digits", max_length=12)
HISTORY_MAX: Final = 20
"""So many steps are remembered, the last ones."""


class ActionPhase(StrEnum):
    """How far a StreamAction has come."""

    PENDING = "Pending"
    WAITING = "Waiting"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        """Whether nothing more is done."""
        return self in (ActionPhase.COMPLETE, ActionPhase.FAILED)


class ActionConditionType(StrEnum):
    """What a condition of a StreamAction is about."""

    WAITING = "Waiting"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCondition:
    """One condition, as Kubernetes has them.

    Attributes:
        type: Complete is True when it is done, Failed when it never will be. Waiting and Running
            are True until then. Reconciling and Stalled say the same to tools that know kstatus.
        status: whether it holds.
        reason: why, as one word for programs.
        message: why, as a sentence with the next step.
        last_transition_time: when the status changed last.
        observed_generation: the generation of the StreamAction that this was said about.
    """

    type: ActionConditionType
    status: ConditionStatus
    reason: str = field(
        metadata=meta(
            pattern="[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", meaning="one word in CamelCase"
        )
    )
    message: str = field(default="", metadata=meta(max_length=32_768, always=True, clip=True))
    last_transition_time: str = field(metadata=meta(date_time=True))
    observed_generation: int = field(default=0, metadata=meta(minimum=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionStep:
    """One step that a StreamAction has taken.

    Attributes:
        at: when.
        step: which, as one word.
        message: a sentence.
    """

    at: str = field(metadata=meta(date_time=True))
    step: str = field(metadata=meta(max_length=63))
    message: str = field(default="", metadata=_SENTENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamActionStatus:
    """What the control loop reports about a StreamAction.

    Attributes:
        observed_generation: the generation of the specification that this is about.
        phase: how far it has come.
        step: what is being done now, as one word.
        reason: why it is so, as one word.
        message: a sentence: what is being done or waited for, or what to do next.
        done: how much of it is done: workers or tasks.
        total: of how much.
        progress: both, for people.
        started_at: when it was begun.
        finished_at: when it was complete or had failed.
        processes: digests of the processes that are to be replaced, noted when it was begun.
        result: the name of what was made, such as a VolumeSnapshot.
        history: the steps it has taken, the last 20.
        conditions: for programs that wait.
    """

    observed_generation: int = field(default=0, metadata=meta(minimum=-1, always=True))
    phase: ActionPhase = field(default=ActionPhase.PENDING, metadata=meta(always=True))
    step: str = field(default="", metadata=meta(max_length=63))
    reason: str = field(default="", metadata=meta(max_length=63))
    message: str = field(default="", metadata=_SENTENCE)
    done: int = field(default=0, metadata=_COUNT)
    total: int = field(default=0, metadata=_COUNT)
    progress: str = field(default="", metadata=meta(max_length=63))
    started_at: str | None = field(default=None, metadata=meta(date_time=True))
    finished_at: str | None = field(default=None, metadata=meta(date_time=True))
    processes: tuple[str, ...] = field(default=(), metadata=meta(max_items=10_000, each=_DIGEST))
    result: str = field(default="", metadata=meta(max_length=253))
    history: tuple[ActionStep, ...] = field(default=(), metadata=meta(max_items=HISTORY_MAX))
    conditions: tuple[ActionCondition, ...] = field(
        default=(), metadata=meta(keys=("type",), max_items=10)
    )

    def to_dict(self) -> dict[str, object]:
        """Return the status as JSON values."""
        return encode_object(self)

    @classmethod
    def from_dict(cls, data: object) -> StreamActionStatus:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the status is damaged.
        """
        return decode(cls, data, path="status", strict=False)

    def condition(self, kind: ActionConditionType) -> ActionCondition | None:
        """Return a condition; ``None`` if it was never written."""
        return next((each for each in self.conditions if each.type is kind), None)

    def at(self, clock: str, generation: int) -> StreamActionStatus:
        """Return this with times, history and conditions brought up to date.

        Args:
            clock: the time of day.
            generation: of the specification that it is about.
        """
        now = replace(
            self,
            observed_generation=generation,
            progress=f"{self.done}/{self.total}" if self.total else "",
        )
        if now.phase is ActionPhase.RUNNING and now.started_at is None:
            now = replace(now, started_at=clock)
        if now.phase.is_final and now.finished_at is None:
            now = replace(now, finished_at=clock)
        return replace(now, conditions=tuple(_judged(now, kind, clock) for kind in _KINDS))

    def took(self, step: str, clock: str) -> StreamActionStatus:
        """Return this with a step added to the history."""
        taken = ActionStep(at=clock, step=step, message=self.message)
        return replace(self, history=(*self.history, taken)[-HISTORY_MAX:])


def _judged(status: StreamActionStatus, kind: ActionConditionType, clock: str) -> ActionCondition:
    is_so = _HOLDS[kind](status.phase)
    holds = ConditionStatus.TRUE if is_so else ConditionStatus.FALSE
    before = status.condition(kind)
    is_same = before is not None and before.status is holds
    return ActionCondition(
        type=kind,
        status=holds,
        reason=status.reason or str(status.phase),
        message=status.message,
        last_transition_time=(
            before.last_transition_time if before is not None and is_same else clock
        ),
        observed_generation=max(0, status.observed_generation),
    )


_KINDS: Final = tuple(ActionConditionType)
_HOLDS: Final = {
    ActionConditionType.WAITING: lambda phase: phase in (ActionPhase.PENDING, ActionPhase.WAITING),
    ActionConditionType.RUNNING: lambda phase: phase is ActionPhase.RUNNING,
    ActionConditionType.COMPLETE: lambda phase: phase is ActionPhase.COMPLETE,
    ActionConditionType.FAILED: lambda phase: phase is ActionPhase.FAILED,
    ActionConditionType.RECONCILING: lambda phase: not phase.is_final,
    ActionConditionType.STALLED: lambda phase: phase is ActionPhase.FAILED,
}


def seconds_between(earlier: str | None, later: str) -> float:
    """Return how many seconds lie between two times; 0 if either is not known."""
    if not earlier or not later:
        return 0.0
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
