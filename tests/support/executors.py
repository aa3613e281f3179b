"""Executors of a Spark of this machine (``local-cluster``), to be killed or frozen."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psutil

from tests.support.freezing import freeze, thaw
from tests.support.local_cluster import is_gone
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    import subprocess

_END_S = 300


def is_executor(process: psutil.Process) -> bool:
    return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())


def executors(driver: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Those of a driver that runs."""
    found = []
    for process in psutil.Process(driver.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if is_executor(process):
                found.append(process)
    return found


class Sleeper:
    """An executor, frozen with its Python daemon, Python workers and task host.

    Args:
        caught: one of these, which was stopped first.
    """

    def __init__(self, caught: psutil.Process) -> None:
        self.caught = caught
        [self._executor] = [one for one in caught.parents() if is_executor(one)]
        freeze([self._executor])
        self._others = [
            one for one in self._executor.children(recursive=True) if one.pid != caught.pid
        ]
        freeze(self._others)

    @property
    def _family(self) -> list[psutil.Process]:
        return [self._executor, *self._others, self.caught]

    def kill_executor(self) -> None:
        """End the executor alone; its children sleep on, and so cannot notice."""
        self._executor.kill()

    def wake_caught(self) -> None:
        """Let that process alone go on."""
        thaw([self.caught])

    def wake(self) -> None:
        """Let all go on, and wait until they have ended, for want of a driver or executor."""
        thaw(self._family)
        wait_for(lambda: all(map(is_gone, self._family)), what="their end", timeout_s=_END_S)

    def kill(self) -> None:
        for process in self._family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
