"""What ``reconcile`` may decide; the worker's main process carries each action out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from headwater.model.duties import Duty
    from headwater.model.livesettings import LiveSettings
    from headwater.native.messages import ToGlobals, ToThread, ToUpdater


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """Read the own StreamWorker now, uncached, and observe it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberEpoch:
    """Write down the highest epoch seen; it comes before anything done under that epoch."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartThread:
    """Start a process for a slot."""

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TellThread:
    """Send a message to a StreamThread."""

    slot: int
    message: ToThread


@dataclass(frozen=True, slots=True, kw_only=True)
class KillThread:
    """SIGKILL a StreamThread's process and wait for its end."""

    slot: int
    reason: str
    """Empty if the process itself has said why."""
    is_failure: bool = True
    """Whether something is wrong; else it has nothing to commit, and is not needed any more."""
    shows_stacks: bool = False
    """It hangs and has not said where: let it write its stacks first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUpdater:
    """Start a StateUpdater."""

    updater: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TellUpdater:
    """Send a message to a StateUpdater."""

    updater: int
    message: ToUpdater


@dataclass(frozen=True, slots=True, kw_only=True)
class KillUpdater:
    """SIGKILL a StateUpdater's process and wait for its end."""

    updater: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartGlobalThread:
    """Start the GlobalStreamThread."""

    number: int
    """How many processes there have been before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellGlobalThread:
    """Send a message to the GlobalStreamThread."""

    message: ToGlobals


@dataclass(frozen=True, slots=True, kw_only=True)
class KillGlobalThread:
    """SIGKILL the GlobalStreamThread's process and wait for its end."""

    reason: str
    """Empty if the process itself has said why."""
    shows_stacks: bool = False
    """It hangs and has not said where: let it write its stacks first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyLive:
    """Let main and every child take over settings while they run."""

    settings: LiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginDuty:
    """Re-read the own StreamWorker; carry the duty out if it still stands there."""

    duty: Duty


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAtGroup:
    """Find out whether the consumer group has members: none of them is ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Everything is closed: the worker's process may end."""

    exit_code: int


Action: TypeAlias = (
    ReadSpec
    | RememberEpoch
    | StartThread
    | TellThread
    | KillThread
    | StartUpdater
    | TellUpdater
    | KillUpdater
    | StartGlobalThread
    | TellGlobalThread
    | KillGlobalThread
    | ApplyLive
    | BeginDuty
    | LookAtGroup
    | End
)
