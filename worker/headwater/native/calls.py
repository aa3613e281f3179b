"""Runs functions that wait: coroutines in one event loop, plain functions in pools of threads.

They know no task: each call has a number, and its outcome goes to a queue of whoever asked for it
(``processor.callers`` is the port).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.native.locating import stack_of_thread
from headwater.processor.callers import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.processor.callers import Started


log = logging.getLogger(__name__)

_CANCELLED_S: Final = 5.0
"""So long calls that are cancelled at the end may take to close what they have open."""
_STOPPED_S: Final = 1.0
"""So much longer the end of the event loop is waited for, which a call may keep."""


class ThreadCallers:
    """The threads of one process that call functions; they start with the first call.

    All tasks of a StreamThread share one. It is used by the thread that processes records.
    """

    def __init__(self) -> None:
        self._wake = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._has_complained = False

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
    def has_loop(self) -> bool:
        """Whether a coroutine was ever called."""
        return self._loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, which runs in a thread of its own until the process ends."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop,), name="calls", daemon=True
            )
            self._thread.start()
        return self._loop

    def close(self) -> None:
        """End the event loop, if there is one; cancelled calls have a moment for their ``finally``.

        Threads of pools are not waited for.
        """
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CANCELLED_S + _STOPPED_S)
            self._loop = self._thread = None

    def complain(self, function: Callable[..., Any]) -> None:
        """Say once that a call keeps the event loop, and where it is.

        Args:
            function: one whose calls cannot begin because of that.
        """
        if self._has_complained or self._thread is None or self._thread.ident is None:
            return
        self._has_complained = True
        log.warning(
            "the event loop of functions that wait has not turned for a whole time-out, so calls "
            "of %s cannot begin: an async def keeps it; let it await instead of blocking, or draw "
            "a plain def, which is called in a thread. The event loop is at\n%s",
            getattr(function, "__qualname__", function),
            stack_of_thread(self._thread.ident).rstrip(),
        )


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped; what is in flight then is cancelled."""
    loop.run_forever()
    if left := asyncio.all_tasks(loop):
        for call in left:
            call.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=_CANCELLED_S))
    loop.close()


class Coroutines:
    """Calls one async function, as often at once as it is asked to."""

    def __init__(self, function: Callable[..., Any], callers: ThreadCallers) -> None:
        self.outcomes: deque[Outcome] = deque()
        """What is over; to be taken from the left."""
        self._function = function
        self._callers = callers
        self._running: dict[int, asyncio.Task[None]] = {}
        self._begun = -1
        """The number of the call that began last; calls begin in the order of their numbers."""

    def start(self, calls: list[Started]) -> None:
        """Begin these calls."""
        self._callers.loop.call_soon_threadsafe(self._start, calls)

    def unbegun(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return those of the calls that have not begun: another call keeps the event loop."""
        found = frozenset(number for number in numbers if number > self._begun)
        if found:
            self._callers.complain(self._function)
        return found

    def cancel(self, numbers: Iterable[int]) -> None:
        """Cancel calls whose outcomes nobody wants any more; they may end late, or never."""
        if wanted := list(numbers):
            self._callers.loop.call_soon_threadsafe(self._cancel, wanted)

    def close(self) -> None:
        """Cancel what is in flight."""
        if self._callers.has_loop:
            self._callers.loop.call_soon_threadsafe(self._cancel_all)

    def _start(self, calls: list[Started]) -> None:
        loop = asyncio.get_running_loop()
        for number, arguments in calls:
            self._running[number] = loop.create_task(self._call(number, arguments))

    def _cancel(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if running := self._running.get(number):
                # One that has not begun is never in ``_call``, which forgets the others.
                running.add_done_callback(partial(self._forget, number))
                running.cancel()

    def _forget(self, number: int, _task: asyncio.Task[None]) -> None:
        self._running.pop(number, None)

    def _cancel_all(self) -> None:
        self._cancel(list(self._running))

    async def _call(self, number: int, arguments: tuple[Any, ...]) -> None:
        value, error = None, None
        self._begun = number
        try:
            value = await self._function(*arguments)
        except BaseException as raised:  # noqa: BLE001 - it belongs to the record
            error = raised
        del self._running[number]
        self.outcomes.append(Outcome(number, value, error))
        self._callers.wake()


class Pool:
    """Calls one plain function in threads that end with the process, come what may.

    A call that is given up keeps its thread until it returns, and another thread takes its place.
    """

    def __init__(self, function: Callable[..., Any], threads: int, callers: ThreadCallers) -> None:
        self.outcomes: deque[Outcome] = deque()
        """What is over; to be taken from the left."""
        self._function = function
        self._threads_max = threads
        self._callers = callers
        self._changed = threading.Condition()
        self._queued: deque[Started] = deque()
        self._running: set[int] = set()
        """Numbers of the calls that are being made and were not given up."""
        self._threads = 0
        """Threads that take calls: idle ones, and those of ``_running``."""
        self._generation = 0
        """Counts ``close``; a thread of an earlier generation takes no more calls."""

    def start(self, calls: list[Started]) -> None:
        """Begin these calls, or queue them until a thread is free."""
        with self._changed:
            self._queued.extend(calls)
            self._start_threads()
            self._changed.notify(len(calls))

    def unbegun(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return none: a thread that is kept is replaced."""
        del numbers
        return frozenset()

    def cancel(self, numbers: Iterable[int]) -> None:
        """Give up calls: those that wait are not made, and threads of the others are replaced."""
        given_up = set(numbers)
        with self._changed:
            self._queued = deque(call for call in self._queued if call[0] not in given_up)
            self._threads -= len(given_up & self._running)
            self._running -= given_up
            self._start_threads()

    def close(self) -> None:
        """Give up every call, and let every thread end that is not in one."""
        with self._changed:
            self._generation += 1
            self._threads = 0
            self._queued.clear()
            self._running.clear()
            self._changed.notify_all()

    def _start_threads(self) -> None:
        wanted = min(len(self._queued) + len(self._running), self._threads_max)
        while self._threads < wanted:
            self._threads += 1
            threading.Thread(
                target=self._work, args=(self._generation,), name="calls", daemon=True
            ).start()

    def _work(self, generation: int) -> None:
        while call := self._take(generation):
            number, arguments = call
            value, error = None, None
            try:
                value = self._function(*arguments)
            except BaseException as raised:  # noqa: BLE001 - it belongs to the record
                error = raised
            with self._changed:
                if number not in self._running:
                    return  # given up; the thread has been replaced
                self._running.remove(number)
            self.outcomes.append(Outcome(number, value, error))
            self._callers.wake()

    def _take(self, generation: int) -> Started | None:
        """Wait for a call to make; return None once the pool was closed."""
        with self._changed:
            while generation == self._generation and not self._queued:
                self._changed.wait()
            if generation != self._generation:
                return None
            call = self._queued.popleft()
            self._running.add(call[0])
            return call
