"""Work of low priority: the thread that does it steps back, and its caller does not."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from headwater.native.courtesy import NICENESS, CourteousThread


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_work_is_repeated_for_as_long_as_it_may_go_on() -> None:
    turns: list[int] = []

    for _ in range(2):
        CourteousThread().repeat(lambda: turns.append(1), lambda: len(turns) % 3 != 2)

    assert len(turns) == 2


def test_one_thread_does_it_all_while_the_caller_waits() -> None:
    courteous = CourteousThread()
    done_by: list[int] = []

    for turns in (1, 3):
        courteous.repeat(
            lambda: done_by.append(threading.get_ident()), lambda end=turns: len(done_by) < end
        )

    assert len(done_by) == 3
    assert len(set(done_by)) == 1
    assert threading.get_ident() not in done_by


def test_what_the_work_raises_is_raised_at_the_caller_and_the_next_work_is_done() -> None:
    courteous = CourteousThread()
    done: list[int] = []

    def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        courteous.repeat(fails, lambda: True)
    courteous.repeat(lambda: done.append(1), lambda: not done)

    assert done == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_only_the_working_thread_steps_back() -> None:
    before = niceness()
    seen: list[int] = []

    CourteousThread().repeat(lambda: seen.append(niceness()), lambda: not seen)

    assert seen == [min(before + NICENESS, 19)]
    assert niceness() == before
