"""What is forwarded of a change within a window: the key, and a window that may be shared."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.model.durations import LONG_MAX
from headwater.model.windows import Window, Windowed
from headwater.processor.windowed import forward_sliding_windows, forward_windows


@pytest.mark.parametrize("forwarding", [forward_windows, forward_sliding_windows])
def test_each_change_has_its_window_however_many_take_turns(forwarding: Any) -> None:
    found: list[Any] = []
    forward = forwarding(lambda *given: found.append(given), 50)
    starts = [*range(2_500), *range(2_499, -1, -1), 7, 7]

    for start in starts:
        forward(("a", start, 0), ("new", "old"), start + 1, None)

    assert found == [
        (Windowed("a", Window(start, start + 50)), ("new", "old"), start + 1, None)
        for start in starts
    ]


@pytest.mark.parametrize("forwarding", [forward_windows, forward_sliding_windows])
def test_the_last_window_ends_with_time(forwarding: Any) -> None:
    found: list[Any] = []
    forwarding(lambda *given: found.append(given), 50)(("a", LONG_MAX - 3, 0), None, 0, None)

    assert found[0][0].window == Window(LONG_MAX - 3, LONG_MAX)


def test_windows_that_take_turns_are_made_once() -> None:
    found: list[Any] = []
    forward = forward_windows(lambda key, *_: found.append(key.window), 50)

    for start in (0, 10, 20, 0, 10, 20):
        forward(("a", start, 0), None, 0, None)

    assert [id(window) for window in found[:3]] == [id(window) for window in found[3:]]
