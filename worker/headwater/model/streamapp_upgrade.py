"""The StreamApp's ``spec.upgrade``: how a change that needs new pods is rolled out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headwater.model.fields import Change, meta
from headwater.model.rollon import RollOn  # noqa: TC001  # read by the codec


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
        roll_on: Secrets and ConfigMaps of this namespace whose change is rolled out, too: workers
            are replaced one at a time. Each is mounted in the workers, which compare it.
    """

    ready_timeout_ms: int = field(
        default=900_000, metadata=meta(json="readyTimeout", duration=True)
    )
    on_failure: OnFailure = OnFailure.HALT
    canary_ms: int = field(default=0, metadata=meta(json="canary", duration=True))
    roll_on: tuple[RollOn, ...] = field(
        default=(), metadata=meta(keys=("kind", "name"), max_items=20, change=Change.ROLL)
    )
