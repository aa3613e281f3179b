"""Runs functions that wait: coroutines in one event loop, plain functions in pools of threads.

They know no task: each call has a number, and its outcome goes to a queue of whoever asked for it
(``processor.callers`` is the port).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from headwater.processor.callers import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.processor.callers import Started


class ThreadCallers:
    """The threads of one process that call functions; they start with the first call.

    All tasks of a StreamThread share one. It is used by the thread that processes records.
    """

    def __init__(self) -> None:
        self._wake = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def monotonic(self) -> float:
        """Seconds by a clock that is never set."""
        return time.monotonic()

    def wait(self, timeout_s: float) -> None:
        """Return when a call is over that was not waited for yet, or after ``timeout_s``."""
        if self._wake.wait(timeout_s):
            self._wake.clear()

    def coroutines(self, function: Callable[..., Any]) -> Coroutines:
        """Return what calls an async function."""
        return Coroutines(function, self)

    def pool(self, function: Callable[..., Any], threads: int) -> Pool:
        """Return what calls a plain function in at most ``threads`` threads."""
        return Pool(function, threads, self)

    def wake(self) -> None:
        """End a ``wait``: an outcome is there."""
        self._wake.set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, which runs in a thread of its own until the process ends."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="calls", daemon=True).start()
        return self._loop

    def close(self) -> None:
        """Let the event loop end, if there is one; calls in flight are not waited for."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


class Coroutines:
    """Calls one async function, as often at once as it is asked to."""

    def __init__(self, function: Callable[..., Any], callers: ThreadCallers) -> None:
        self.outcomes: deque[Outcome] = deque()
        """What is over; to be taken from the left."""
        self._function = function
        self._callers = callers
        self._running: dict[int, asyncio.Task[None]] = {}

    def start(self, calls: list[Started]) -> None:
        """Begin these calls."""
        self._callers.loop.call_soon_threadsafe(self._start, calls)

    def cancel(self, numbers: Iterable[int]) -> None:
        """Cancel calls whose outcomes nobody wants any more; they may end late, or never."""
        if wanted := list(numbers):
            self._callers.loop.call_soon_threadsafe(self._cancel, wanted)

    def close(self) -> None:
        """Cancel what is in flight."""
        if self._running:
            self._callers.loop.call_soon_threadsafe(self._cancel, list(self._running))

    def _start(self, calls: list[Started]) -> None:
        loop = self._callers.loop
        for number, arguments in calls:
            self._running[number] = loop.create_task(self._call(number, arguments))

    def _cancel(self, numbers: list[int]) -> None:
        for number in numbers:
            if running := self._running.get(number):
                running.cancel()

    async def _call(self, number: int, arguments: tuple[Any, ...]) -> None:
        value, error = None, None
        try:
            value = await self._function(*arguments)
        except BaseException as raised:  # noqa: BLE001 - it belongs to the record
            error = raised
        del self._running[number]
        self.outcomes.append(Outcome(number, value, error))
        self._callers.wake()


class Pool:
    """Calls one plain function in threads that end with the process, come what may.

    A call that never returns keeps its thread; ``cancel`` lets another one take its place.
    """

    def __init__(self, function: Callable[..., Any], threads: int, callers: ThreadCallers) -> None:
        self.outcomes: deque[Outcome] = deque()
        """What is over; to be taken from the left."""
        self._function = function
        self._threads_max = threads
        self._callers = callers
        self._calls: SimpleQueue[Started | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._running: set[int] = set()
        self._unwanted: set[int] = set()

    def start(self, calls: list[Started]) -> None:
        """Begin these calls, or queue them until a thread is free."""
        for call in calls:
            self._calls.put(call)
        with self._lock:
            fresh = min(self._calls.qsize() - self._idle, self._threads_max - self._threads)
            self._threads += max(0, fresh)
        for _ in range(fresh):
            threading.Thread(target=self._work, name="calls", daemon=True).start()

    def cancel(self, numbers: Iterable[int]) -> None:
        """Give up calls: those that wait are not made, and threads of the others are replaced."""
        with self._lock:
            given_up = set(numbers) - self._unwanted
            self._unwanted |= given_up
            self._threads -= len(given_up & self._running)

    def close(self) -> None:
        """Let every thread end that is not in a call."""
        with self._lock:
            for _ in range(self._threads):
                self._calls.put(None)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            call = self._calls.get()
            with self._lock:
                self._idle -= 1
                if call is None:
                    self._threads -= 1
                    return
                number, arguments = call
                if number in self._unwanted:
                    self._unwanted.discard(number)
                    continue
                self._running.add(number)
            if not self._call(number, arguments):
                return

    def _call(self, number: int, arguments: tuple[Any, ...]) -> bool:
        """Make one call; return whether the thread is still one of the pool."""
        value, error = None, None
        try:
            value = self._function(*arguments)
        except BaseException as raised:  # noqa: BLE001 - it belongs to the record
            error = raised
        with self._lock:
            self._running.discard(number)
            is_wanted = number not in self._unwanted
            self._unwanted.discard(number)
        if is_wanted:
            self.outcomes.append(Outcome(number, value, error))
            self._callers.wake()
        return is_wanted
