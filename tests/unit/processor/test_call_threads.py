"""Calls beside the thread that asks for them: each has a thread, or its part of the event loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_for

from headwater.native.calls import Pool, ThreadCallers

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDS_S = 20.0


class Gates:
    """A function that waits for the gate of its argument."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._gates: dict[int, threading.Event] = {}
        self._lock = threading.Lock()

    def __call__(self, number: int) -> int:
        """Wait until ``open`` was called with this number."""
        self.begun.append(number)
        assert self._gate(number).wait(ENDS_S)
        return number

    def open(self, *numbers: int) -> None:
        """Let these calls end."""
        for number in numbers:
            self._gate(number).set()

    def _gate(self, number: int) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(number, threading.Event())


@pytest.fixture
def gates() -> Iterator[Gates]:
    """A function whose calls all end with the test."""
    made = Gates()
    yield made
    made.open(*range(100))


def begin(pool: Pool, *numbers: int) -> None:
    """Start calls with these numbers, which are their arguments, too."""
    pool.start([(number, (number,)) for number in numbers])


def until_begun(gates: Gates, *numbers: int) -> None:
    """Wait until these calls have begun, all at once."""
    wait_for(
        lambda: set(numbers) <= set(gates.begun),
        what=f"a thread for each of the calls {numbers}",
        timeout_s=ENDS_S,
        every_s=0.001,
    )


def until_over(pool: Pool, *numbers: int) -> None:
    """Wait until exactly these calls are over, in any order."""
    over: set[int] = set()

    def is_over() -> bool:
        while pool.outcomes:
            over.add(pool.outcomes.popleft().number)
        return set(numbers) <= over

    wait_for(is_over, what=f"the ends of the calls {numbers}", timeout_s=ENDS_S, every_s=0.001)
    assert over == set(numbers)


def test_calls_that_begin_one_after_another_do_not_wait_for_each_other(gates: Gates) -> None:
    """Each call has a thread, also when an idle thread has just been given another one."""
    pool = Pool(gates, 2, ThreadCallers())
    for first in range(0, 60, 2):
        begin(pool, first)
        begin(pool, first + 1)
        until_begun(gates, first, first + 1)
        gates.open(first, first + 1)
        until_over(pool, first, first + 1)


def test_calls_begin_after_a_close_as_before(gates: Gates) -> None:
    """An abort closes the pool, and the records are processed again."""
    pool = Pool(gates, 3, ThreadCallers())
    begin(pool, 0, 1)
    until_begun(gates, 0, 1)
    pool.close()
    begin(pool, 2, 3, 4)
    until_begun(gates, 2, 3, 4)
    gates.open(0, 1, 2, 3, 4)
    until_over(pool, 2, 3, 4)


def test_a_call_that_is_given_up_makes_room_for_the_next_one(gates: Gates) -> None:
    """Queued calls begin, though nobody starts another and the thread never returns."""
    pool = Pool(gates, 1, ThreadCallers())
    begin(pool, 0, 1, 2)
    until_begun(gates, 0)
    pool.cancel([0, 1])
    until_begun(gates, 2)
    assert 1 not in gates.begun
    gates.open(0, 2)
    until_over(pool, 2)


def test_a_call_that_was_over_when_it_was_given_up_costs_no_thread(gates: Gates) -> None:
    """The outcome was not taken yet; it comes late, and the next call begins."""
    pool = Pool(gates, 1, ThreadCallers())
    gates.open(0)
    begin(pool, 0)
    until_over(pool, 0)
    pool.cancel([0])
    begin(pool, 1)
    until_begun(gates, 1)
    begin(pool, 2)
    gates.open(1, 2)
    until_over(pool, 1, 2)


class Given:
    """What a coroutine is given."""


@pytest.fixture
def callers() -> Iterator[ThreadCallers]:
    """Whoever calls coroutines, closed with the test."""
    made = ThreadCallers()
    yield made
    made.close()


def test_a_coroutine_that_is_cancelled_before_it_begins_leaves_nothing_behind(
    callers: ThreadCallers,
) -> None:
    begun: list[Given] = []

    async def call(given: Given) -> None:
        begun.append(given)

    calls, given, held = callers.coroutines(call), Given(), threading.Event()
    left = weakref.ref(given)
    callers.loop.call_soon_threadsafe(held.wait)
    calls.start([(1, (given,))])
    calls.cancel([1])
    del given
    held.set()

    wait_for(lambda: left() is None, what="the end of the call", timeout_s=ENDS_S)
    assert not begun
    assert not calls.outcomes


def test_an_event_loop_that_is_closed_cancels_what_is_in_flight_and_leaves_nothing_open() -> None:
    callers, begun, ended = ThreadCallers(), threading.Event(), threading.Event()

    async def call() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    loop = callers.loop
    callers.coroutines(call).start([(1, ())])
    assert begun.wait(ENDS_S)
    callers.close()

    # Nothing is waited for: the process may end at once.
    assert ended.is_set()
    assert loop.is_closed()


def test_a_call_that_blocks_the_event_loop_is_named(
    callers: ThreadCallers, caplog: pytest.LogCaptureFixture
) -> None:
    blocked, freed = threading.Event(), threading.Event()

    async def call(number: int) -> int:
        if number == 1:
            blocked.set()
            freed.wait(ENDS_S)  # where it should await
        return number

    calls = callers.coroutines(call)
    calls.start([(number, (number,)) for number in (1, 2, 3)])
    assert blocked.wait(ENDS_S)
    assert calls.unbegun([1, 2]) == {2}
    assert calls.unbegun([2, 3]) == {2, 3}
    freed.set()
    wait_for(lambda: len(calls.outcomes) == 3, what="all outcomes", timeout_s=ENDS_S)
    assert calls.unbegun([1, 2, 3]) == frozenset()

    (said,) = caplog.messages
    assert "the event loop of functions that wait has not turned" in said
    assert "freed.wait(ENDS_S)" in said
