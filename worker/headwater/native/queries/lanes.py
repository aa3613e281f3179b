"""Threads for questions: some for all stores on disk, others for each store in memory.

A store in memory is read by its StreamThread, which may be stuck in a function of the user. Whoever
waits for it waits in the lane of that store, and in nobody else's way.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Lane(Generic[T]):
    """Works off what is put into it, first come, first served, in threads of its own.

    Args:
        name: of its threads.
        work: called with each item; raises nothing.
        threads: as many at most; each is started when it is needed.
        waiting: so many items may wait.
    """

    def __init__(self, name: str, work: Callable[[T], None], *, threads: int, waiting: int) -> None:
        self._name = name
        self._work = work
        self._left = threads
        self._waiting: queue.Queue[T] = queue.Queue(waiting)
        self._idle = threading.Semaphore(0)

    def put(self, item: T) -> bool:
        """Have an item worked off soon; ``False`` if too many wait. One thread calls this."""
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            return False
        if not self._idle.acquire(blocking=False) and self._left:
            self._left -= 1
            name = f"{self._name}-{self._left}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        return True

    def _run(self) -> None:
        while True:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                self._idle.release()
                item = self._waiting.get()
            self._work(item)
