"""The StreamApp's ``spec.upgrade``: how a change that needs new pods is rolled out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headwater.model.fields import meta


class OnFailure(StrEnum):
    """What follows when a new revision does not become ready."""

    HALT = "Halt"
    ROLL_BACK = "RollBack"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSpec:
    """How a change that needs new pods is rolled out: one worker at a time.

    Attributes:
        ready_timeout_ms: how long a replaced worker may take until it is ready; after that the
            roll-out halts, and the other workers go on as they are.
        on_failure: what follows then. RollBack replaces the workers of the new revision by those of
            the last one that was ready; the new one is tried again once the specification changes.
        canary_ms: how long the first worker of a new revision has to be ready before the next one
            is replaced; 0: it need not wait.
    """

    ready_timeout_ms: int = field(
        default=900_000, metadata=meta(json="readyTimeout", duration=True)
    )
    on_failure: OnFailure = OnFailure.HALT
    canary_ms: int = field(default=0, metadata=meta(json="canary", duration=True))
