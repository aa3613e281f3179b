"""A store of windows or sessions behaves as a plain dict that forgets: random histories.

Laws, on disk and in memory, for each cache size, whatever the order of updates, puts, flushes,
commits, aborts and re-opens: reads by key and scans of all keys equal the model's, which keeps what
is not older than the retention; the changelog, replayed, equals the store.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.support.examples import examples
from tests.support.stores import Recorder, add
from tests.support.timed_stores import backend_of, build_timed_store, spec_of

from headwater.model.stores import StoreKind
from headwater.ports import Position, Timestamps
from headwater.serde import Serdes

KEYS = st.sampled_from(["a", "ab", "a" + "\0" * 8])
TIMES = st.sampled_from([0, 1, 60_000, 120_000, 200_000])
VALUES = st.integers(0, 3)
"""0 deletes."""
KINDS = ["WINDOW", "TIMESTAMPED_WINDOW", "SESSION"]
"""By name: what is drawn is printed when a law fails."""


class TimedHistory(RuleBasedStateMachine):
    """One store, and beside it dicts that do the same."""

    @initialize(
        persistent=st.booleans(),
        cache=st.sampled_from([0, 100_000]),
        kind=st.sampled_from(KINDS),
        key_serde=st.sampled_from([Serdes.string, Serdes.json]),
        time_ordered=st.booleans(),
    )
    def begin(
        self, *, persistent: bool, cache: int, kind: str, key_serde: Any, time_ordered: bool
    ) -> None:
        """Choose one make of store for this history."""
        self.directory = tempfile.TemporaryDirectory()
        self.spec = spec_of(
            getattr(StoreKind, kind), persistent=persistent, time_ordered=time_ordered
        )
        self.cache, self.key_serde = cache, key_serde
        self.encode = key_serde.serializer("t")
        self.now: dict[tuple[str, int, int], tuple[Any, int]] = {}
        self.committed = dict(self.now)
        self.stream_time = self.time_below = -1
        self.waiting: set[tuple[str, int, int]] = set()
        self.backend: Any = None
        self.open()

    def open(self) -> None:
        """Open the store anew over what is committed."""
        if self.backend is None or self.spec.persistent:
            self.backend = backend_of(self.spec, Path(self.directory.name) / "db")
        self.heard = Recorder()
        self.store = build_timed_store(
            self.heard, self.spec, self.backend, cache=self.cache, key=self.key_serde
        )
        self.update = self.store.updater(add, Timestamps.MAX, lambda: 0)

    def at(self, time: int, other: int) -> tuple[int, int]:
        """Where a window or a session lies: only sessions have a second time."""
        return time, min(other, time) if self.spec.kind == StoreKind.SESSION else 0

    @rule(key=KEYS, time=TIMES, other=TIMES, value=VALUES, timestamp=st.integers(0, 9))
    def put(self, key: str, time: int, other: int, value: int, timestamp: int) -> None:
        """Write blindly."""
        place = (key, *self.at(time, other))
        if self._is_in_vain(place, value):
            return
        self.store.put(place, value or None, timestamp)
        self.set(place, value or None, timestamp)

    @rule(key=KEYS, time=TIMES, other=TIMES, value=VALUES, timestamp=st.integers(0, 9))
    def aggregate(self, key: str, time: int, other: int, value: int, timestamp: int) -> None:
        """Read, modify, write; an aggregation never looks at what has expired."""
        place = (key, *self.at(time, other))
        before = self.now.get(place)
        if time < self.stream_time - self.spec.retention_ms + 1:
            return
        if self._is_in_vain(place, value):
            return
        new = None if value == 0 else (before[0] if before else 0) + value
        self.update(place, value, timestamp, None)
        later = before and self.spec.kind.timestamped
        self.set(place, new, max(timestamp, before[1]) if before and later else timestamp)

    def _is_in_vain(self, place: tuple[str, int, int], value: int) -> bool:
        """Nothing becomes nothing: a record cache keeps that to itself, and its time."""
        return bool(self.cache) and value == 0 and place not in self.now

    def set(self, place: tuple[str, int, int], value: Any, timestamp: int) -> None:
        """Write to the model, which forgets what is too old to be read."""
        self.stream_time = max(self.stream_time, place[1])
        if self.cache:
            self.waiting.add(place)
        else:
            self.time_below = self.stream_time
        if value is None:
            self.now.pop(place, None)
        else:
            self.now[place] = value, timestamp

    def oldest(self) -> int:
        """The oldest time that is read, but for what waits in the record cache."""
        spec = self.spec
        is_longer = spec.persistent and spec.time_ordered and spec.kind != StoreKind.SESSION
        return self.time_below - spec.retention_ms + (0 if is_longer else 1)

    def flushed(self) -> None:
        """Nothing waits in the record cache."""
        self.waiting.clear()
        self.time_below = self.stream_time

    def seen(self) -> dict[tuple[str, int, int], tuple[Any, int]]:
        """What the model shows."""
        timestamped = self.spec.kind.timestamped
        return {
            place: (value, timestamp if timestamped else -1)
            for place, (value, timestamp) in self.now.items()
            if place[1] >= self.oldest() or place in self.waiting
        }

    @rule(key=KEYS, time=TIMES, other=TIMES)
    def read(self, key: str, time: int, other: int) -> None:
        """Read one window."""
        place = (key, *self.at(time, other))
        assert self.store.get(place) == self.seen().get(place)

    @rule(key=KEYS, first=TIMES, last=TIMES, reverse=st.booleans())
    def fetch(self, key: str, first: int, last: int, *, reverse: bool) -> None:
        """Read the windows of a key."""
        expected = sorted(
            (
                (time, other, *found)
                for (owner, time, other), found in self.seen().items()
                if owner == key and first <= time <= last
            ),
            reverse=reverse,
        )
        assert self.store.fetch(key, first, last, reverse=reverse) == expected

    @rule(first=TIMES, last=TIMES)
    def fetch_closed(self, first: int, last: int) -> None:
        """Read the windows of some time; of sessions more is found than is read otherwise."""
        found = self.store.fetch_closed(first, last)
        seen = {place: held for place, held in self.seen().items() if first <= place[1] <= last}
        if self.spec.kind != StoreKind.SESSION:
            assert {row[:3]: row[3:] for row in found} == seen
        assert [row[1:3] for row in found] == sorted(row[1:3] for row in found)

    @rule(
        low=st.none() | KEYS,
        high=st.none() | KEYS,
        first=TIMES,
        last=TIMES,
        reverse=st.booleans(),
    )
    def fetch_all(
        self, low: str | None, high: str | None, first: int, last: int, *, reverse: bool
    ) -> None:
        """Read the windows of many keys."""
        encode = self.encode
        rows = [
            (*place, *found)
            for place, found in self.seen().items()
            if first <= place[1] <= last
            and (low is None or encode(place[0]) >= encode(low))
            and (high is None or encode(place[0]) <= encode(high))
        ]
        suffix = self.store._timed_keys.suffix.pack

        def order(row: Any) -> Any:
            if self.spec.persistent:
                row_key = encode(row[0]) + suffix(row[1], row[2])
                return row[1] // self.spec.segment_interval_ms, row_key
            return row[1], encode(row[0]), row[2]

        rows.sort(key=order, reverse=reverse)
        found = self.store.fetch_all(first, last, low=low, high=high, reverse=reverse)
        assert list(found) == rows

    @rule()
    def flush_cache(self) -> None:
        """Flush in mid-transaction."""
        self.store.flush_cache()
        self.flushed()

    @rule()
    def flush_changelog(self) -> None:
        """Send in mid-transaction."""
        self.store.flush_changelog()

    @rule(sealed=st.booleans())
    def commit(self, *, sealed: bool) -> None:
        """Commit; what the record cache has seen alone may be without trace."""
        self.store.flush_cache()
        self.flushed()
        self.store.flush_changelog()
        if sealed:
            self.store.seal()
        self.store.commit(Position("id", 1, 1))
        self.committed = dict(self.now)

    @rule()
    def abort(self) -> None:
        """Forget the transaction."""
        self.store.abort()
        self.lose()

    @rule()
    def reopen(self) -> None:
        """End the process and start it again."""
        if self.spec.persistent:
            self.store.close()
        self.open()
        self.lose()

    def lose(self) -> None:
        """Go back to what is committed; times that left no trace below the cache are forgotten."""
        self.now = dict(self.committed)
        self.stream_time = self.backend.stream_time
        self.flushed()

    def teardown(self) -> None:
        """Leave nothing behind."""
        if hasattr(self, "store"):
            self.store.close()
            self.directory.cleanup()


TestTimedHistory = TimedHistory.TestCase
TestTimedHistory.settings = settings(
    max_examples=examples(300), stateful_step_count=40, deadline=None
)
