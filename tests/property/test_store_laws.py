"""A store of any make behaves as a plain dict would: random histories against a model.

Laws, for each backend, cache size, serde and kind, whatever the order of updates, puts, flushes,
commits, aborts and re-opens:

* reads and ranges equal the model's, with headers where they are kept;
* the changelog, replayed, equals the store at every commit;
* the changes of a key tell one story: the old value of each is the new value of the one before;
* a re-opened store holds exactly what was committed, and its position.
"""

from __future__ import annotations

import tempfile
from itertools import repeat
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.examples import examples
from tests.support.in_c import EXTENSION
from tests.support.stores import Recorder, build_store, gather

from headwater.model.stored_headers import AggregationWithHeaders
from headwater.ports import Position, Timestamps
from headwater.serde import Serdes
from headwater.state import CacheBudget, LayeredStore, MemoryBackend, RocksBackend

KEYS = st.sampled_from(["", "a", "b", "ba", "ü", "\U0010ffff"])
VALUES = st.integers(0, 3)
"""0 deletes."""
TIMES = st.integers(0, 50)


def sum_up(_key: Any, value: int, total: int) -> int | None:
    return None if value == 0 else total + value


def join(_key: Any, value: int, text: str) -> str | None:
    return None if value == 0 else text + str(value)


KINDS = ["plain", "timestamped", "with headers"]
HEADERS = st.sampled_from([None, [("h", b"\x01")], [("h", None), ("h", b"")]])

UPDATERS: list[Any] = [None, EXTENSION.RecordUpdater]

STEPS: dict[str, Any] = {
    "long": (Serdes.long, sum_up, int, lambda n: n),
    "string": (Serdes.string, join, str, str),
    "json": (Serdes.json, gather, list, lambda n: [n]),
}


class StoreHistory(RuleBasedStateMachine):
    """One store, and beside it dicts that do the same."""

    @initialize(
        rocks=st.booleans(),
        cache=st.sampled_from([None, 0, 150, 400, 100_000]),
        caching=st.booleans(),
        serde=st.sampled_from(sorted(STEPS)),
        kind=st.sampled_from(KINDS),
        updater=st.sampled_from(UPDATERS),
    )
    def begin(
        self, *, rocks: bool, cache: int | None, caching: bool, serde: str, kind: str, updater: Any
    ) -> None:
        """Choose one make of store for this history."""
        self.directory = tempfile.TemporaryDirectory() if rocks else None
        self.backend: Any = MemoryBackend()
        self.value_serde, self.step, self.initializer, self.literal = STEPS[serde]
        self.timestamped, self.keeps_headers = kind != "plain", kind == "with headers"
        self.caching = caching
        self.limit, self.updater = cache, updater
        self.now: dict[str, tuple[Any, int, Any]] = {}
        self.committed: dict[str, tuple[Any, int, Any]] = {}
        self.position: Position | None = None
        self.sealed: tuple[dict[str, tuple[Any, int, Any]], dict[str, Any]] | None = None
        self.changelog: dict[str, tuple[bytes, int, Any]] = {}
        self.told: dict[str, Any] = {}
        self.told_committed: dict[str, Any] = {}
        self.open()

    def open(self) -> None:
        """Open the store anew over what is committed."""
        if self.directory is not None:
            self.backend = RocksBackend(Path(self.directory.name) / "db")
        self.heard = Recorder()
        budget = None if self.limit is None else CacheBudget(self.limit, self.updater)
        self.store: LayeredStore = build_store(
            self.heard,
            self.backend,
            cache=budget,
            caching=self.caching,
            timestamped=self.timestamped,
            headers=self.keeps_headers,
            value=self.value_serde,
            send_old=True,
        )
        self.update = self.store.updater(self.step, Timestamps.MAX, self.initializer)

    @rule(key=KEYS, value=VALUES, timestamp=TIMES)
    def aggregate(self, key: str, value: int, timestamp: int) -> None:
        """Read, modify, write, forward."""
        before = self.now.get(key)
        old = self.initializer() if before is None else before[0]
        new = self.step(key, value, list(old) if isinstance(old, list) else old)

        self.update(key, value, timestamp, None)

        self.set(key, new, max(timestamp, before[1]) if before and self.timestamped else timestamp)

    @rule(key=KEYS, value=VALUES, timestamp=TIMES, headers=HEADERS)
    def put(self, key: str, value: int, timestamp: int, headers: Any) -> None:
        """Write blindly, as user code does; heard only through a cache."""
        new = None if value == 0 else self.literal(value)

        headers = headers if self.keeps_headers else None
        held = AggregationWithHeaders(new, headers) if headers and new is not None else new
        self.store.put(key, held, timestamp)

        self.set(key, new, timestamp, headers)
        if not self.store.caching:
            self.told[key] = new

    def set(self, key: str, new: Any, timestamp: int, headers: Any = None) -> None:
        """Write to the model."""
        if new is None:
            self.now.pop(key, None)
        else:
            self.now[key] = (new, timestamp, headers)

    @rule(key=KEYS)
    @precondition(lambda self: self.keeps_headers)
    def read_headers(self, key: str) -> None:
        """Read one key with its headers."""
        found = self.store.with_headers().get(key)
        held = self.now.get(key)
        assert found == (held and ((held[0], held[2]), held[1]))

    @rule(key=KEYS)
    def read(self, key: str) -> None:
        """Read one key; what is got may be changed by whoever got it."""
        found = self.store.get(key)
        assert found == self.seen(key)
        if found is not None and isinstance(found[0], list):
            found[0].append("not in the store")

    def seen(self, key: str) -> tuple[Any, int] | None:
        """What the model says about a key."""
        held = self.now.get(key)
        return None if held is None else (held[0], held[1] if self.timestamped else -1)

    @rule(start=st.none() | KEYS, end=st.none() | KEYS, reverse=st.booleans())
    def scan(self, start: str | None, end: str | None, *, reverse: bool) -> None:
        """Read a range."""
        keys = [
            key
            for key in sorted(self.now, key=str.encode, reverse=reverse)
            if (start is None or key.encode() >= start.encode())
            and (end is None or key.encode() <= end.encode())
        ]
        expected = [(key, *self.seen(key)) for key in keys]
        assert list(self.store.range(start, end, reverse=reverse)) == expected

    @rule(prefix=st.sampled_from([b"", b"a", b"b", b"\xf4\x8f\xbf\xbf", b"\xff", b"\xc3"]))
    def scan_prefix(self, prefix: bytes) -> None:
        """Read what begins alike; what is written while it is read is not seen."""
        keys = [key for key in sorted(self.now, key=str.encode) if key.encode().startswith(prefix)]
        expected = [(key, *self.seen(key)) for key in keys]
        assert list(self.store.prefix_scan(prefix, lambda given: given)) == expected

    @rule()
    def flush_cache(self) -> None:
        """Flush in mid-transaction."""
        self.store.flush_cache()

    @rule()
    def flush_changelog(self) -> None:
        """Send in mid-transaction, as at-least-once does every second."""
        self.store.flush_changelog()

    @rule()
    @precondition(lambda self: self.sealed is None)
    def seal(self) -> None:
        """Begin a commit that ends later: what is written meanwhile belongs to the next one."""
        self.flush()
        self.store.seal()
        self.sealed = dict(self.now), dict(self.told)

    @rule(offset=st.integers(0, 1000), abandoned=st.booleans())
    def commit(self, offset: int, *, abandoned: bool) -> None:
        """Commit, and perhaps lose the process right after."""
        if self.sealed is None:
            self.flush()
        position = Position("id", offset, 7)
        self.store.commit(position)
        if self.sealed is None:
            assert self.store.uncommitted_bytes() == 0
        self.committed, self.told_committed = self.sealed or (dict(self.now), dict(self.told))
        self.position = position
        self.sealed = None
        if abandoned:
            self.reopen()

    def flush(self) -> None:
        """Do what comes first in a commit; the changelog then equals the store."""
        self.store.flush_cache()
        self.store.flush_changelog()
        self.hear()
        sent_headers = self.heard.sent_headers if self.keeps_headers else repeat(None)
        for (key, value, timestamp), headers in zip(self.heard.sent, sent_headers, strict=False):
            assert key is not None
            if value is None:
                self.changelog.pop(key.decode(), None)
            else:
                self.changelog[key.decode()] = (value, timestamp, headers)
        self.forget_sent()
        assert self.changelog == self.as_logged(self.now)

    def forget_sent(self) -> None:
        """Hear from now on."""
        self.heard.sent.clear()
        self.heard.sent_headers.clear()

    def as_logged(self, held: dict[str, tuple[Any, int, Any]]) -> dict[str, Any]:
        """What a changelog has of a store."""
        serialize = self.value_serde.serializer("t")
        return {key: (serialize(value), *others) for key, (value, *others) in held.items()}

    @rule()
    def abort(self) -> None:
        """Forget the transaction."""
        self.store.abort()
        self.lose()

    @rule()
    def reopen(self) -> None:
        """End the process and start it again."""
        if self.directory is not None:
            self.store.close()
        self.open()
        self.lose()
        assert self.store.position() == self.position

    def lose(self) -> None:
        """What was not committed is gone, in the model and for those who hear."""
        self.now = dict(self.committed)
        self.told = dict(self.told_committed)
        self.sealed = None
        self.changelog = self.as_logged(self.committed)
        self.heard.changes.clear()
        self.forget_sent()

    def hear(self) -> None:
        """Follow the changes heard so far."""
        for key, new, old, _ in self.heard.changes:
            # Of an absent key the change carries what the initializer gave, without a cache.
            if self.store.caching or old != self.initializer():
                assert old == self.told.get(key), (key, old, self.told.get(key))
            self.told[key] = new
        self.heard.changes.clear()

    @invariant()
    def changes_are_consistent(self) -> None:
        """The old value of a change is the new value of the one before."""
        if hasattr(self, "heard"):
            self.hear()
            if not self.store.caching:
                told = {key: value for key, value in self.told.items() if value is not None}
                assert told == {key: value for key, (value, *_) in self.now.items()}

    @invariant()
    def the_budget_is_kept(self) -> None:
        """The caches of a thread never hold more than they may."""
        if hasattr(self, "store") and self.store.caching:
            budget = self.store._cache.budget
            assert 0 <= budget.used <= budget.limit

    def teardown(self) -> None:
        """Leave nothing behind."""
        if hasattr(self, "store"):
            self.store.close()
            if self.directory is not None:
                self.directory.cleanup()


TestStoreHistory = StoreHistory.TestCase
TestStoreHistory.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
