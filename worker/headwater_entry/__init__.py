"""Where every process of a container begins: SIGTERM is heeded before anything else is imported.

    interpreter ──► this module ──► imports, seconds of them ──► the command, its own handler

Linux drops a signal that the first process of a container does not handle: there is no default
action for it. A worker that is told to end while it imports would then live until its grace period
is over. So whoever is the first process, or was started with SIGTERM ignored, ends at once until
its command has something to close. Everybody else has the default action, which does the same.

This module imports nothing of Headwater, and nothing that takes time.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SAID = b"told to end (SIGTERM) before there was anything to close\n"


def end_at_once(number: int, _frame: object = None) -> NoReturn:
    """End this process as the default action of a signal would; a handler for signals.

    No exception is raised: code of the user that is being imported could catch it.
    """
    os.write(2, _SAID)
    os._exit(128 + number)


def heed_sigterm() -> None:
    """Have SIGTERM end this process at once, also where the default action would not."""
    if os.getpid() == 1 or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, end_at_once)


def main() -> int:
    """Run the command line ``headwater`` and return its exit code."""
    heed_sigterm()
    from headwater.cli.main import main as run  # noqa: PLC0415 - after the handler is there

    return run()
