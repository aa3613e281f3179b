"""Which reads have overlapped more than one refresh of what they read."""

from __future__ import annotations

import pytest

from headwater.native.queries.secondaries import overlaps_one_refresh


@pytest.mark.parametrize(
    ("before", "now", "is_one"),
    [
        (4, 4, True),
        (4, 5, True),
        (4, 6, True),
        (4, 7, False),
        (5, 5, True),
        (5, 6, True),
        (5, 7, False),
        (5, 8, False),
    ],
)
def test_a_read_that_overlaps_a_second_refresh_does_not_count(
    before: int, now: int, is_one: bool
) -> None:
    assert overlaps_one_refresh(before, now) is is_one
