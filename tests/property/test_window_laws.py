"""Laws of windows: counts within them are those of a list of records, whatever order they had."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from headwater import (
    BufferConfig,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterable

LATEST_MS = 400
GRACE_MS = 1_000
"""No record is late."""
STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, LATEST_MS)), max_size=20)
CACHES = st.sampled_from(["0", "10485760"])

Counted: TypeAlias = "dict[tuple[str, int, int], int]"
"""By key, start and end of a window."""


def results(
    windows: Any, records: Iterable[tuple[str, int]], cache: str, suppressed: Suppressed | None
) -> list[tuple[tuple[str, int, int], int | None]]:
    """What comes out of a count, one after the other; ``None`` for a window that is no more."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", **STRINGS).group_by_key().windowed_by(windows)
    table = grouped.count(key_serde=Serdes.string)
    found: list[Any] = []

    def take(key: Any, count: int | None) -> None:
        found.append(((key.key, key.window.start_ms, key.window.end_ms), count))

    (table if suppressed is None else table.suppress(suppressed)).to_stream().for_each(take)
    config = {"application.id": "app", "statestore.cache.max.bytes": cache}
    with TopologyTestDriver(builder.build(), config) as driver:
        topic = driver.create_input_topic("in", Serdes.string, Serdes.string)
        for key, at in records:
            topic.pipe_input(key, "v", at)
    return found


def counted(windows: Any, records: Iterable[tuple[str, int]], cache: str) -> Counted:
    """What windows hold in the end."""
    found = dict(results(windows, records, cache, None))
    return {window: count for window, count in found.items() if count is not None}


def by_key(records: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    times: defaultdict[str, list[int]] = defaultdict(list)
    for key, at in records:
        times[key].append(at)
    return {key: sorted(found) for key, found in times.items()}


@given(RECORDS, st.integers(1, 60), st.integers(1, 60), CACHES)
def test_hopping_windows_hold_what_lies_in_them(
    records: list[tuple[str, int]], size: int, advance: int, cache: str
) -> None:
    advance = min(size, advance)
    expected: Counter[tuple[str, int, int]] = Counter()
    for key, at in records:
        for start in range(0, at + 1, advance):
            if start <= at < start + size:
                expected[key, start, start + size] += 1

    windows = TimeWindows.of(size=size, advance=advance, grace=GRACE_MS)

    assert counted(windows, records, cache) == expected


@given(RECORDS, st.integers(0, 60), CACHES)
def test_sessions_are_what_no_gap_divides(
    records: list[tuple[str, int]], gap: int, cache: str
) -> None:
    expected = {}
    for key, times in by_key(records).items():
        sessions: list[list[int]] = []
        for at in times:
            if sessions and at - sessions[-1][-1] <= gap:
                sessions[-1].append(at)
            else:
                sessions.append([at])
        expected |= {(key, each[0], each[-1]): len(each) for each in sessions}

    windows = SessionWindows.of(inactivity_gap=gap, grace=GRACE_MS)

    assert counted(windows, records, cache) == expected


@given(RECORDS, st.integers(1, 60), CACHES)
def test_sliding_windows_end_with_a_record_or_begin_behind_one(
    records: list[tuple[str, int]], difference: int, cache: str
) -> None:
    expected = {}
    for key, times in by_key(records).items():
        for start in {at - difference for at in times} | {at + 1 for at in times}:
            # What would begin before the epoch begins with it.
            first = max(0, start)
            held = sum(first <= at <= first + difference for at in times)
            if start < 0:
                held = sum(at <= difference for at in times)
            if held:
                expected[key, first, first + difference] = held

    windows = SlidingWindows.of(time_difference=difference, grace=GRACE_MS)

    assert counted(windows, records, cache) == expected


KINDS = st.one_of(
    st.builds(TimeWindows.of, size=st.integers(1, 50), grace=st.just(GRACE_MS)),
    st.builds(SessionWindows.of, inactivity_gap=st.integers(0, 50), grace=st.just(GRACE_MS)),
    st.builds(SlidingWindows.of, time_difference=st.integers(1, 50), grace=st.just(GRACE_MS)),
)


@given(st.data(), RECORDS, KINDS, CACHES)
def test_the_order_of_records_does_not_matter_as_long_as_none_is_late(
    data: st.DataObject, records: list[tuple[str, int]], windows: Any, cache: str
) -> None:
    others = data.draw(st.permutations(records))

    assert counted(windows, others, cache) == counted(windows, records, cache)


@given(RECORDS, KINDS, CACHES)
def test_what_is_suppressed_comes_once_and_by_the_end_of_its_window(
    records: list[tuple[str, int]], windows: Any, cache: str
) -> None:
    end = [("the end", LATEST_MS + 10 * GRACE_MS)]
    until_closed = Suppressed.until_window_closes(BufferConfig.unbounded())

    told = results(windows, [*records, *end], cache, until_closed)

    ends = [window[2] for window, _ in told]
    assert ends == sorted(ends)
    assert len(told) == len(dict(told))
    assert dict(told) == counted(windows, records, cache)
