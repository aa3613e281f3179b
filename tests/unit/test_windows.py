"""Window definitions: Java's arithmetic and Java's rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import TopologyError
from headwater.model.durations import LONG_MAX
from headwater.model.windows import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Window,
    Windowed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = st.integers(0, 10_000)


def test_hopping_windows_begin_at_multiples_of_the_advance_as_javas_do() -> None:
    windows = TimeWindows.of_size_with_no_grace(10).advance_by(3)

    assert windows.windows_for(11) == {3: Window(3, 13), 6: Window(6, 16), 9: Window(9, 19)}
    assert windows.windows_for(2) == {0: Window(0, 10)}


@given(timestamp=TIMES, size=st.integers(1, 50), data=st.data())
def test_time_windows_are_those_that_hold_the_record(
    timestamp: int, size: int, data: st.DataObject
) -> None:
    advance = data.draw(st.integers(1, size))
    windows = TimeWindows.of(size=size, advance=advance, grace=0)

    brute = [s for s in range(0, timestamp + 1, advance) if s <= timestamp < s + size]

    assert list(windows.windows_for(timestamp)) == brute


def test_the_unlimited_window_holds_everything_from_its_start_on() -> None:
    windows = UnlimitedWindows.of().start_on(5)

    assert windows.windows_for(4) == {}
    assert windows.windows_for(5) == windows.windows_for(9) == {5: Window(5, LONG_MAX)}
    at = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert UnlimitedWindows.of().start_on(at) == UnlimitedWindows(1_000)


def test_durations_are_timedeltas_or_milliseconds() -> None:
    assert TimeWindows.of_size_and_grace(timedelta(seconds=5), 100) == TimeWindows(5000, 5000, 100)
    assert SlidingWindows.of(time_difference=timedelta(microseconds=1_999), grace=0) == (
        SlidingWindows(1, 0)
    )
    assert JoinWindows.of_time_difference_with_no_grace(10).before(
        timedelta(microseconds=-1_999)
    ) == JoinWindows(-1, 10, 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TimeWindows.of_size_with_no_grace(0), "size of 0 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(10).advance_by(11), "advance of 11 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(10).advance_by(0), "advance of 0 ms"),
        (lambda: TimeWindows.of_size_and_grace(10, -1), "grace of -1 ms"),
        (lambda: SlidingWindows.of_time_difference_with_no_grace(-1), "difference of -1 ms"),
        (lambda: SlidingWindows.of_time_difference_and_grace(0, -1), "grace of -1 ms"),
        (lambda: SessionWindows.of_inactivity_gap_with_no_grace(-1), "gap of -1 ms"),
        (lambda: SessionWindows.of_inactivity_gap_and_grace(1, -1), "grace of -1 ms"),
        (lambda: JoinWindows.of_time_difference_with_no_grace(-1), "less than nothing"),
        (lambda: JoinWindows.of_time_difference_with_no_grace(10).before(-11), "less than nothing"),
        (lambda: JoinWindows.of_time_difference_and_grace(10, -1), "grace of -1 ms"),
        (lambda: UnlimitedWindows.of().start_on(-1), "before the epoch"),
        (lambda: UnlimitedWindows.of().start_on(datetime(2026, 1, 1)), "time zone"),  # noqa: DTZ001
        (lambda: TimeWindows.of_size_with_no_grace("5s"), "timedelta"),  # type: ignore[arg-type]
        (lambda: TimeWindows.of_size_with_no_grace(2**63), "64 bits"),
    ],
)
def test_what_java_refuses_is_refused_and_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        make()


def test_what_java_takes_is_taken() -> None:
    SessionWindows.of_inactivity_gap_with_no_grace(0)
    SlidingWindows.of_time_difference_with_no_grace(0)
    assert JoinWindows.of_time_difference_with_no_grace(10).before(-10).size_ms == 0


def test_windowed_keys_look_as_javas_do() -> None:
    assert str(Windowed("k", Window(1, 2))) == "[k@1/2]"
    assert str(Window(1, 2)) == "Window{startMs=1, endMs=2}"
