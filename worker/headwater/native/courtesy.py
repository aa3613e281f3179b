"""Work that lets others go first: done by a thread of low priority, while its caller waits.

A process without privileges can lower its priority but never raise it again. On Linux a thread has
a priority of its own: what is urgent stays with the caller's thread.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

NICENESS: Final = 5
"""By so much it steps back, to a third of the weight: on a full machine it still goes on."""
_LOWEST: Final = 19


class CourteousThread:
    """A thread of low priority that does one thing after the other."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[tuple[Callable[[], None], Callable[[], bool]]] = (
            queue.SimpleQueue()
        )
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="courteous", daemon=True).start()

    def repeat(self, work: Callable[[], None], may_go_on: Callable[[], bool]) -> None:
        """Have ``work`` done while ``may_go_on`` says so, and wait until it has ended.

        What either raises is raised here.
        """
        self._wanted.put((work, may_go_on))
        error = self._ended.get()
        if error is not None:
            raise error

    def _run(self) -> None:
        _step_back()
        while True:
            work, may_go_on = self._wanted.get()
            try:
                while may_go_on():
                    work()
            except BaseException as error:  # noqa: BLE001 - raised where the work was asked for
                self._ended.put(error)
            else:
                self._ended.put(None)


def _step_back() -> None:
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    try:
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness, _LOWEST))
    except OSError as error:
        log.info("following at ordinary priority: %s", error)
