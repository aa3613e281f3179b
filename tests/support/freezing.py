"""Freezes processes, and lets them go on."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def freeze(processes: list[psutil.Process]) -> None:
    """Send SIGSTOP to each that still lives."""
    _signal(processes, signal.SIGSTOP)


def thaw(processes: list[psutil.Process]) -> None:
    """Send SIGCONT to each that still lives."""
    _signal(processes, signal.SIGCONT)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
