"""``NewestTimes`` never says that a key has no row that late when it has."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from headwater.state.newest import MOST_SLOTS, NewestTimes

BATCHES: Final = st.lists(
    st.lists(st.tuples(st.binary(max_size=3), st.integers(0, (1 << 63) - 1)), max_size=20),
    max_size=6,
)
MANY: Final = 5_000


def _noted(times: NewestTimes, rows: list[tuple[bytes, int]]) -> None:
    times.note((key, time, 0) for key, time in rows)


@given(newest=st.integers(-1, 1_000), batches=BATCHES, wasted=st.integers(0, 5_000))
def test_no_row_of_a_key_is_later_than_what_it_says(
    newest: int, batches: list[list[tuple[bytes, int]]], wasted: int
) -> None:
    times = NewestTimes(newest)
    latest: dict[bytes, int] = {}
    for batch in batches:
        _noted(times, batch)
        for key, time in batch:
            latest[key] = max(time, latest.get(key, -1))
        for _ in range(wasted):
            times.waste()
    for key, time in latest.items():
        assert times.of(key) >= max(time, newest)


def test_a_store_that_is_empty_has_nothing_of_any_key() -> None:
    times = NewestTimes(-1)
    assert {times.of(b"%d" % number) for number in range(MANY)} == {-1}


def test_what_was_there_before_may_be_of_any_key() -> None:
    times = NewestTimes(7)
    assert {times.of(b"%d" % number) for number in range(MANY)} == {7}


def test_looks_in_vain_make_it_tell_keys_apart() -> None:
    times = NewestTimes(-1)
    rows = [(b"%d" % number, number) for number in range(MANY)]
    _noted(times, rows)
    before = sum(times.of(key) > time for key, time in rows)

    for again in range(1, 4):
        for _ in range(MANY * 100):
            times.waste()
        _noted(times, [])
        _noted(times, [(key, time + again * MANY) for key, time in rows])

    after = sum(times.of(key) > time + again * MANY for key, time in rows)
    assert before > MANY / 2
    assert after < MANY / 4


def test_looks_in_vain_for_a_few_keys_take_no_memory() -> None:
    times = NewestTimes(-1)
    for at in range(100):
        for _ in range(MANY):
            times.waste()
        _noted(times, [(b"%d" % number, at) for number in range(100)])

    assert len(times._slots) == 1_024


def test_it_grows_to_four_mebibytes_at_most() -> None:
    times = NewestTimes(-1)
    rows = [(b"%d" % number, number) for number in range(400_000)]
    for again in range(6):
        for _ in range(200_000):
            times.waste()
        _noted(times, [(key, time + again * len(rows)) for key, time in rows])

    assert len(times._slots) == MOST_SLOTS == (4 << 20) // 8
