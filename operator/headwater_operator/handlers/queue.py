"""A queue of keys: each waits once, is in one pair of hands at a time, and comes back when due."""

from __future__ import annotations

import heapq
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")


class WorkQueue(Generic[K]):
    """Keys to see to, from any thread to any thread.

    A key that is added while somebody works on it is handed out again afterwards.

    Args:
        now_ms: a clock that never goes back.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._guard = threading.Condition()
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0
        self._busy: set[K] = set()
        self._closed = False

    def add(self, key: K, after_ms: int = 0) -> None:
        """Have ``key`` handed out after so long, or when it was due already, if that is sooner."""
        at_ms = self._now_ms() + after_ms
        with self._guard:
            if key in self._due and self._due[key] <= at_ms:
                return
            self._due[key] = at_ms
            self._count += 1
            heapq.heappush(self._heap, (at_ms, self._count, key))
            self._guard.notify_all()

    def take(self) -> K | None:
        """Wait for a key and take it; ``None`` when the queue was closed.

        Whoever has taken it gives it back with :meth:`done`.
        """
        with self._guard:
            while not self._closed:
                key, wait_ms = self._next()
                if key is not None:
                    del self._due[key]
                    self._busy.add(key)
                    return key
                self._guard.wait(None if wait_ms is None else wait_ms / 1000)
            return None

    def done(self, key: K) -> None:
        """Say that the work on a key is over."""
        with self._guard:
            self._busy.discard(key)
            self._guard.notify_all()

    def close(self) -> None:
        """Hand nothing out any more."""
        with self._guard:
            self._closed = True
            self._guard.notify_all()

    def late_ms(self) -> int:
        """Return for how long the key that is due longest has been waiting, or is being worked on.

        A key in somebody's hands counts from when it was due again. 0 if none is due yet.
        """
        with self._guard:
            now_ms = self._now_ms()
            return max(
                (now_ms - at_ms for at_ms in self._due.values() if at_ms <= now_ms), default=0
            )

    def __len__(self) -> int:
        with self._guard:
            now_ms = self._now_ms()
            return sum(at_ms <= now_ms for at_ms in self._due.values())

    def _next(self) -> tuple[K | None, int | None]:
        """Return the key to hand out now, else how long to wait for the next."""
        now_ms = self._now_ms()
        put_back: list[tuple[int, int, K]] = []
        found: K | None = None
        wait_ms: int | None = None
        while self._heap:
            at_ms, count, key = heapq.heappop(self._heap)
            if self._due.get(key) != at_ms:
                continue  # it was handed out, or is due sooner, since
            if at_ms > now_ms:
                put_back.append((at_ms, count, key))
                wait_ms = at_ms - now_ms
                break
            if key in self._busy:
                put_back.append((at_ms, count, key))
                continue
            found = key
            break
        for entry in put_back:
            heapq.heappush(self._heap, entry)
        return found, wait_ms
