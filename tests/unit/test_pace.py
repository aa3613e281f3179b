"""A StreamThread takes as many records at a time as fit in ten milliseconds."""

from __future__ import annotations

import pytest

from headwater.native.pace import ROUND_S, Pace


def after(rounds: int, record_us: float, *, backlog: int = 10**9) -> int:
    """The number of records of a round after some rounds, if each record takes so long."""
    pace = Pace()
    for _ in range(rounds):
        taken = min(pace.records, backlog)
        pace.adapt(taken * record_us / 1e6, is_full=taken == pace.records)
    return pace.records


@pytest.mark.parametrize("record_us", [2, 5, 50, 300, 4_000])
def test_a_round_settles_within_its_time_and_not_far_below(record_us: float) -> None:
    fastest, slowest = sorted(after(30 + n, record_us) * record_us / 1e6 for n in range(2))

    assert slowest <= ROUND_S * 1.1
    assert fastest >= ROUND_S / 4


def test_a_record_that_takes_longer_than_a_round_is_processed_alone() -> None:
    assert after(30, record_us=50_000) == 1


def test_a_round_grows_only_while_there_is_more_to_take() -> None:
    assert after(30, record_us=1, backlog=100) == Pace().records
    assert after(30, record_us=1) > 10 * Pace().records


def test_one_slow_round_halves_the_next_and_a_fast_one_brings_it_back() -> None:
    pace = Pace()
    before = pace.records

    pace.adapt(1.0, is_full=True)
    slower = pace.records
    pace.adapt(0.001, is_full=True)

    assert (slower, pace.records) == (before // 2, before)
