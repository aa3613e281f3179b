"""Windows in which tasks move for balance: random ones, looked at minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.movewindows import MoveWindow, Weekday, may_move, next_opening

DAY = 24 * 60
# From before a change of the clocks in Berlin to a week after it.
FIRST = int(datetime(2026, 3, 25, tzinfo=UTC).timestamp()) // 60
times = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
windows = st.lists(
    st.builds(
        MoveWindow,
        days=st.lists(st.sampled_from(Weekday), unique=True, max_size=3).map(tuple),
        start=times,
        end=times,
        time_zone=st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York"]),
    ),
    min_size=1,
    max_size=3,
)
minutes = st.integers(FIRST, FIRST + 14 * DAY)


def is_open(window: MoveWindow, minute: int) -> bool:
    """Whether a window is open, by what a clock on the wall shows; no clock is changed here."""
    local = datetime.fromtimestamp(minute * 60, ZoneInfo(window.time_zone))
    now = f"{local.hour:02}:{local.minute:02}"
    today, yesterday = (list(Weekday)[(local.weekday() - back) % 7] for back in (0, 1))
    opens_today = not window.days or today in window.days
    opened_yesterday = not window.days or yesterday in window.days
    if window.start < window.end:
        return opens_today and window.start <= now < window.end
    return (opens_today and now >= window.start) or (opened_yesterday and now < window.end)


@given(windows, minutes)
def test_a_window_is_open_when_the_clock_on_the_wall_says_so(
    given_windows: list[MoveWindow], minute: int
) -> None:
    expected = any(is_open(window, minute) for window in given_windows)

    assert may_move(given_windows, minute) == expected


@given(windows, minutes)
def test_a_window_opens_when_it_is_said_to_and_not_before(
    given_windows: list[MoveWindow], minute: int
) -> None:
    if may_move(given_windows, minute):
        return
    opens = next_opening(given_windows, minute)

    assert opens > minute
    assert may_move(given_windows, opens)
    closed = {minute + step for step in range(0, opens - minute, 7)} | {opens - 1}
    assert not any(may_move(given_windows, each) for each in closed)
