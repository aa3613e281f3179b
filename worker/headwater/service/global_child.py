"""The GlobalStreamThread as a child process of the worker: started, told, killed, listened to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, assert_never

from headwater.service.decide.actions import KillGlobalThread, StartGlobalThread, TellGlobalThread
from headwater.service.decide.observations import GlobalThreadEnded, GlobalThreadSaid

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from headwater.native.process import ChildProcess
    from headwater.service.decide.observations import Observation

    GlobalThreadAction: TypeAlias = StartGlobalThread | TellGlobalThread | KillGlobalThread

log = logging.getLogger(__name__)

TARGET: Final = "headwater.native.global_thread:run"


class GlobalChild:
    """The process, if there is one.

    Args:
        start: starts a child of a target, a name and a number.
        reap: waits for the end of one that has closed its pipe, and returns its exit code.
    """

    def __init__(
        self,
        start: Callable[[str, str, int], ChildProcess],
        reap: Callable[[ChildProcess], int],
    ) -> None:
        self._start = start
        self._reap = reap
        self.child: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id, if there is a process."""
        return None if self.child is None else self.child.pid

    def act(self, action: GlobalThreadAction) -> list[Observation]:
        """Carry out what was decided; return what is observed at once."""
        match action:
            case StartGlobalThread(number=number):
                self.child = self._start(TARGET, "GlobalStreamThread", number)
            case TellGlobalThread(message=message):
                # One that cannot be delivered shows as the end of the process.
                if self.child is not None:
                    self.child.send(message)
            case KillGlobalThread(reason=reason, shows_stacks=shows_stacks):
                return self._kill(reason, shows_stacks=shows_stacks)
            case _:
                assert_never(action)
        return []

    def _kill(self, reason: str, *, shows_stacks: bool) -> list[Observation]:
        if self.child is None:
            return []
        if reason:
            log.warning("killing the GlobalStreamThread: %s", reason)
        child, self.child = self.child, None
        if shows_stacks:
            child.show_stacks()
        code = child.kill()
        said = child.receive()
        child.close()
        return [
            *(GlobalThreadSaid(message=message) for message in said),
            GlobalThreadEnded(exit_code=code),
        ]

    def observe(self) -> list[Observation]:
        """Return what it has said since the last call, and whether it has ended."""
        child = self.child
        if child is None:
            return []
        found: list[Observation] = [GlobalThreadSaid(message=said) for said in child.receive()]
        if child.gone:
            self.child = None
            found.append(GlobalThreadEnded(exit_code=self._reap(child)))
        return found
