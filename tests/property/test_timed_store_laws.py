"""A store of windows or sessions behaves as a plain dict that forgets: random histories.

Laws, on disk, in memory and in stores of a user's own, for each cache size, whatever the order of
updates, puts, flushes, commits, aborts and re-opens: reads by key and scans of all keys equal the
model's, which keeps what is not older than the retention; the changelog, replayed, equals the store
at every commit. Where headers are kept, those that were put with a value are read with it.

Two things are Java's (``tests/oracle/test_windows.py``): a window that is put and deleted while it
waits in the record cache leaves no trace below, so its time makes nothing expire; and sessions of
one end come in memory by key, on disk by start.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.support.examples import examples
from tests.support.stores import Recorder, add
from tests.support.timed_stores import backend_of, build_timed_store, spec_of

from headwater.model.durations import LONG_MAX
from headwater.model.stored_headers import AggregationWithHeaders
from headwater.model.stores import KeyLayout, StoreKind
from headwater.ports import Position, Timestamps
from headwater.serde import Serdes
from headwater.state import ChangelogFacts, StoreRestorer

KEYS = st.sampled_from(["a", "ab", "a" + "\0" * 8])
TIMES = st.sampled_from([0, 1, 60_000, 120_000, 200_000])
VALUES = st.integers(0, 3)
"""0 deletes."""
HEADERS = st.sampled_from([None, [("h", b"\x01")], [("h", None), ("h", b"")]])
KINDS = [
    "WINDOW",
    "TIMESTAMPED_WINDOW",
    "SESSION",
    "TIMESTAMPED_WINDOW_WITH_HEADERS",
    "SESSION_WITH_HEADERS",
]
"""By name: what is drawn is printed when a law fails."""
FACTS = ChangelogFacts(topic_id="id", log_start=0, log_end=1 << 40, delete_retention_ms=1 << 40)


class TimedHistory(RuleBasedStateMachine):
    """One store, and beside it dicts that do the same."""

    @initialize(
        kept=st.sampled_from(["on disk", "in memory", "in a store of the user's own"]),
        cache=st.sampled_from([0, 100_000]),
        kind=st.sampled_from(KINDS),
        key_serde=st.sampled_from([Serdes.string, Serdes.json]),
        time_ordered=st.booleans(),
    )
    def begin(
        self, *, kept: str, cache: int, kind: str, key_serde: Any, time_ordered: bool
    ) -> None:
        """Choose one make of store for this history."""
        self.directory = tempfile.TemporaryDirectory()
        self.spec = spec_of(
            getattr(StoreKind, kind),
            persistent=kept == "on disk",
            custom=kept == "in a store of the user's own",
            time_ordered=time_ordered,
        )
        self.cache, self.key_serde = cache, key_serde
        self.encode = key_serde.serializer("t")
        self.now: dict[tuple[str, int, int], tuple[Any, int]] = {}
        self.headers: dict[tuple[str, int, int], Any] = {}
        """Of what is held; places without headers are left out."""
        self.committed, self.committed_headers = dict(self.now), dict(self.headers)
        self.logged: list[Any] = []
        """What the changelog has of all commits."""
        self.stream_time = self.time_below = -1
        self.waiting: set[tuple[str, int, int]] = set()
        self.below: set[tuple[str, int, int]] = set()
        """Places held below the record cache."""
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
        return time, min(other, time) if self._is_of_sessions() else 0

    def _is_of_sessions(self) -> bool:
        return self.spec.kind.key_layout is KeyLayout.SESSION

    @rule(
        key=KEYS,
        time=TIMES,
        other=TIMES,
        value=VALUES,
        timestamp=st.integers(0, 9),
        headers=HEADERS,
    )
    def put(
        self, key: str, time: int, other: int, value: int, timestamp: int, headers: Any
    ) -> None:
        """Write blindly."""
        place = (key, *self.at(time, other))
        keeps = self.spec.kind.keeps_headers and bool(value and headers)
        held = AggregationWithHeaders(value, headers) if keeps else value or None
        self.store.put(place, held, timestamp)
        self.set(place, value or None, timestamp)
        if keeps:
            self.headers[place] = headers

    @rule(key=KEYS, time=TIMES, other=TIMES, value=VALUES, timestamp=st.integers(0, 9))
    def aggregate(self, key: str, time: int, other: int, value: int, timestamp: int) -> None:
        """Read, modify, write; an aggregation never looks at what has expired."""
        place = (key, *self.at(time, other))
        before = self.now.get(place)
        if time < self.stream_time - self.spec.retention_ms + 1:
            return
        new = None if value == 0 else (before[0] if before else 0) + value
        self.update(place, value, timestamp, None)
        later = before and self.spec.kind.timestamped
        self.set(place, new, max(timestamp, before[1]) if before and later else timestamp)

    def set(self, place: tuple[str, int, int], value: Any, timestamp: int) -> None:
        """Write to the model, which forgets what is too old to be read."""
        self.stream_time = max(self.stream_time, place[1])
        if self.cache:
            self.waiting.add(place)
        else:
            self.time_below = self.stream_time
            self.below = set(self.now)
        self.headers.pop(place, None)
        if value is None:
            self.now.pop(place, None)
        else:
            self.now[place] = value, timestamp

    def oldest(self) -> int:
        """The oldest time that is read, but for what waits in the record cache."""
        spec = self.spec
        is_longer = spec.persistent and spec.time_ordered and not self._is_of_sessions()
        return self.time_below - spec.retention_ms + (0 if is_longer else 1)

    def flushed(self) -> None:
        """Nothing waits in the record cache; what it alone has seen left no trace below."""
        gone = self.waiting - self.below - self.now.keys()
        self.time_below = max(self.time_below, *(at[1] for at in self.waiting - gone), -1)
        self.waiting.clear()
        self.below = set(self.now)

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
        found = self.seen().get(place)
        assert self.store.get(place) == found
        if self.spec.kind.keeps_headers:
            expected = found and ((found[0], self.headers.get(place)), found[1])
            assert self.store.with_headers().get(place) == expected

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
        if self.spec.kind.keeps_headers:
            beside = [
                (time, other, (value, self.headers.get((key, time, other))), timestamp)
                for time, other, value, timestamp in expected
            ]
            assert self.store.with_headers().fetch(key, first, last, reverse=reverse) == beside

    @rule(first=TIMES, last=TIMES)
    def fetch_closed(self, first: int, last: int) -> None:
        """Read the windows of some time; of sessions more is found than is read otherwise."""
        found = self.store.fetch_closed(first, last)
        seen = {place: held for place, held in self.seen().items() if first <= place[1] <= last}
        if not self._is_of_sessions():
            assert {row[:3]: row[3:] for row in found} == seen
        assert [self.closing(row) for row in found] == sorted(map(self.closing, found))

    def closing(self, row: Any) -> Any:
        """What orders what has closed: in memory keys come before the starts of sessions."""
        encoded = self.encode(row[0])
        return (row[1], row[2], encoded) if self.spec.persistent else (row[1], encoded, row[2])

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
        """Commit, and restore another store from the changelog."""
        self.store.flush_cache()
        self.flushed()
        self.store.flush_changelog()
        if sealed:
            self.store.seal()
        self.store.commit(Position("id", 1, 1))
        self.committed, self.committed_headers = dict(self.now), dict(self.headers)
        headers = self.heard.sent_headers or repeat(None)
        for (key, value, timestamp), beside in zip(self.heard.sent, headers, strict=False):
            self.logged.append((len(self.logged), timestamp, key, value, beside))
        self.forget_sent()
        self.replay()

    def forget_sent(self) -> None:
        """Begin the next transaction of the changelog."""
        self.heard.sent.clear()
        self.heard.sent_headers.clear()

    def replay(self) -> None:
        """What the changelog restores in memory is what is held and not too old."""
        spec = replace(self.spec, persistent=False, make_store=None)
        restorer = StoreRestorer(spec, None, FACTS, now_ms=0, holder="a law")
        restorer.apply(self.logged, len(self.logged))
        restored = build_timed_store(Recorder(), spec, restorer.take(), key=self.key_serde)
        oldest = self.time_below - spec.retention_ms + 1
        held = {place: found for place, found in self.seen().items() if place[1] >= oldest}
        found = {row[:3]: row[3:] for row in restored.fetch_all(0, LONG_MAX)}
        assert found == held
        if spec.kind.keeps_headers:
            for place, (value, timestamp) in held.items():
                beside = self.headers.get(place)
                assert restored.with_headers().get(place) == ((value, beside), timestamp)

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
        self.now, self.headers = dict(self.committed), dict(self.committed_headers)
        self.stream_time = self.time_below = self.backend.stream_time
        self.waiting.clear()
        self.below = set(self.now)
        self.forget_sent()

    def teardown(self) -> None:
        """Leave nothing behind."""
        if hasattr(self, "store"):
            self.store.close()
            self.directory.cleanup()


TestTimedHistory = TimedHistory.TestCase
TestTimedHistory.settings = settings(
    max_examples=examples(300), stateful_step_count=40, deadline=None
)
