"""Work that a failpoint holds half-way, to be looked at, in whichever process comes to it first."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.support.waiting import take, wait_for

if TYPE_CHECKING:
    from pathlib import Path


class Held:
    """Work that stands still whenever it comes to a failpoint, one process at a time.

    Args:
        name: of the failpoint.
        claim: its file. While it is there nobody stands still; who does writes it.
    """

    def __init__(self, name: str, claim: Path) -> None:
        self._name = name
        self._claim = claim
        claim.write_text("nobody yet")

    @property
    def failpoint(self) -> str:
        """What arms it in a process: an entry of ``HEADWATER_FAILPOINTS``."""
        return f"{self._name}=stop!{self._claim}"

    def arm(self) -> None:
        """Let whoever comes to it next stand still."""
        self._claim.unlink()

    def wait(self) -> int:
        """Wait until a process stands still; return its id."""
        told = wait_for(
            lambda: self._claim.read_text() if self._claim.exists() else "",
            what=f"a process that stands still at {self._name}",
        )
        return int(told)

    def step(self) -> None:
        """Let it go on, and whoever comes to the failpoint next stand still."""
        pid = self.wait()
        take(1)  # progress is told every half second
        self.arm()
        os.kill(pid, signal.SIGCONT)
        self.wait()

    def end(self) -> None:
        """Let it go on; nobody stands still after it."""
        os.kill(self.wait(), signal.SIGCONT)
