"""Says for people how a worker's process ended."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from headwater_operator.local import files

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.local.pods import PodProcess


def describe_end(process: PodProcess, log: Path) -> str:
    """Return why a process ended; empty if it ended well.

    Args:
        process: one that has ended.
        log: what it printed; the last line says more than a number.
    """
    code = process.exit_code
    if code == 0:
        return ""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    last = files.tail(log, 1).strip()
    return f"exit code {code}: {last}" if last else f"exit code {code}"
