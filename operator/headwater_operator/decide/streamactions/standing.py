"""How one StreamAction stands, as its type finds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from headwater.model.streamaction_status import ActionPhase

if TYPE_CHECKING:
    from collections.abc import Collection

    from headwater_operator.decide.streamactions.asked import ActionView


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a type says about an action of it.

    Attributes:
        phase: Running, Complete or Failed.
        step: what is being done, as one word.
        reason: why, as one word.
        message: a sentence.
        done: how much of it is done.
        total: of how much.
        processes: to be remembered; ``None``: as they are.
        result: the name of what was made.
    """

    phase: ActionPhase
    step: str
    reason: str
    message: str
    done: int = 0
    total: int = 0
    processes: tuple[str, ...] | None = None
    result: str = ""


def runs(step: str, message: str, **rest: object) -> Standing:
    """Return how an action stands that goes on."""
    return Standing(phase=ActionPhase.RUNNING, step=step, reason=step, message=message, **rest)  # type: ignore[arg-type]


_SHOWN: Final = 20


def listed(names: Collection[object]) -> str:
    """Return the first names, and how many more there are: a message has to stay short."""
    shown = " ".join(map(str, islice(names, _SHOWN)))
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def waits(reason: str, message: str) -> Standing:
    """Return how an action stands that cannot begin as yet."""
    return Standing(phase=ActionPhase.WAITING, step="", reason=reason, message=message)


def lacks_right(view: ActionView) -> Standing:
    """Return how an action stands whose objects the operator may not read: it waits as it is."""
    why, status = view.objects.refused, view.status
    if not view.is_running:
        return waits("Forbidden", why)
    return replace(runs(status.step, why, done=status.done, total=status.total), reason="Forbidden")


def refused(standing: Standing, answer: str) -> Standing:
    """Return how an action stands to which the API server refuses a change that it needs."""
    said = (
        f"the API server refuses what this needs: {answer}. Allow it, or cancel this StreamAction; "
        "the operator tries again until it ends"
    )
    return replace(standing, reason="ActionRefused", message=said)


def complete(message: str, **rest: object) -> Standing:
    """Return how an action stands that is done."""
    return Standing(
        phase=ActionPhase.COMPLETE,
        step="Complete",
        reason="Complete",
        message=message,
        **rest,  # type: ignore[arg-type]
    )


def failed(reason: str, message: str) -> Standing:
    """Return how an action stands that will never be done."""
    return Standing(phase=ActionPhase.FAILED, step="Failed", reason=reason, message=message)
