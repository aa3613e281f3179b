"""What every store with headers promises of these: values, windows and sessions, cached or not.

All else is promised as without headers: ``test_stores.py`` and ``test_timed_stores.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import Recorder, add, build_store
from tests.support.timed_stores import backend_of, build_timed_store, spec_of

from headwater.model.stored_headers import AggregationWithHeaders
from headwater.model.stores import StoreKind
from headwater.ports import Position, Timestamps
from headwater.state import MemoryBackend, RocksBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.ports import Headers
    from headwater.state import LayeredStore

HERE = Position("topic-id", 17, 1_700_000_000_000)
FIRST: Headers = [("h", b"\x01")]
SECOND: Headers = [("h", b"\x02"), ("none", None)]
LATER_MS = 1_000_000
"""By so much windows and sessions expire."""
PLACES: dict[str, Any] = {
    "values": "a",
    "windows": ("a", 5_000, 0),
    "sessions": ("a", 9_000, 5_000),
}
LATER: dict[str, Any] = {
    "windows": ("b", LATER_MS, 0),
    "sessions": ("b", LATER_MS, LATER_MS - 10),
}
TIMED = {
    "windows": StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
    "sessions": StoreKind.SESSION_WITH_HEADERS,
}


class Held:
    """A store that can be opened anew over what was committed, and one place in it."""

    def __init__(self, what: str, path: Path, cache: int, *, persistent: bool) -> None:
        self.what, self.place = what, PLACES[what]
        self.heard = Recorder()
        self._path, self._cache, self._persistent = path, cache, persistent
        self._memory: Any = None
        self.store = self.open()

    def open(self) -> LayeredStore:
        """End the process, so to speak, and start it again."""
        persistent, path = self._persistent, self._path / "db"
        if persistent and hasattr(self, "store"):
            self.store.close()
        if self.what in TIMED:
            spec = spec_of(TIMED[self.what], persistent=persistent)
            backend = self._memory or backend_of(spec, path)
            self.store = build_timed_store(self.heard, spec, backend, cache=self._cache)
        else:
            backend = self._memory or (RocksBackend(path) if persistent else MemoryBackend())
            self.store = build_store(
                self.heard, backend, cache=self._cache, headers=True, send_old=True
            )
        self._memory = None if persistent else backend
        return self.store

    def put(self, value: int | None, headers: Headers, deleted_by: Headers = None) -> None:
        held = None if value is None else AggregationWithHeaders(value, headers)
        self.store.put(self.place, held, 10, deleted_by)

    def get(self) -> tuple[int, Headers] | None:
        found = self.store.with_headers().get(self.place)
        return None if found is None else found[0]

    def flush(self) -> None:
        self.store.flush_cache()
        self.store.flush_changelog()

    def commit(self) -> list[Headers]:
        """Commit; return the headers of the changelog records that were sent for it."""
        self.flush()
        self.store.commit(HERE)
        sent, self.heard.sent_headers = self.heard.sent_headers, []
        return sent


@pytest.fixture(params=[100_000, 0], ids=["cache", "no cache"])
def cache(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(params=["memory", "rocks"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, cache: int
) -> Iterator[Callable[[str], Held]]:
    found: list[Held] = []

    def opened(what: str) -> Held:
        found.append(Held(what, tmp_path, cache, persistent=request.param == "rocks"))
        return found[-1]

    yield opened
    for held in found:
        held.store.close()


@pytest.fixture(params=PLACES)
def held(request: pytest.FixtureRequest, opened: Callable[[str], Held]) -> Held:
    return opened(request.param)


def test_headers_are_read_and_logged_with_their_value(held: Held) -> None:
    held.put(1, FIRST, SECOND)
    seen = [held.get()]
    for step in (held.store.flush_cache, held.store.flush_changelog):
        step()
        seen.append(held.get())

    assert held.commit() == [FIRST]
    seen.append(held.get())
    held.open()
    assert [*seen, held.get()] == [(1, FIRST)] * 5


def test_a_deletion_is_logged_with_the_headers_that_it_is_given(held: Held) -> None:
    held.put(1, FIRST)
    held.commit()
    held.put(None, None, SECOND)

    assert held.get() is None
    assert held.commit() == [SECOND]


@pytest.mark.parametrize("sealed", [False, True])
def test_an_abort_gives_back_the_headers_that_were_committed(held: Held, *, sealed: bool) -> None:
    held.put(1, FIRST)
    held.commit()
    held.put(1, SECOND)
    held.flush()
    if sealed:
        held.store.seal()
        held.put(1, None)

    held.store.abort(resend=True)

    assert held.get() == (1, FIRST)
    held.heard.sent_headers.clear()
    assert held.commit() == [FIRST]


def test_headers_written_after_a_seal_belong_to_the_next_commit(held: Held) -> None:
    held.put(1, FIRST)
    held.flush()
    held.store.seal()
    held.put(1, SECOND)

    held.store.commit(HERE)

    assert held.get() == (1, SECOND)
    held.open()
    assert held.get() == (1, FIRST)


def test_an_update_leaves_no_headers_of_the_value_before(held: Held) -> None:
    update = held.store.updater(add, Timestamps.MAX, lambda: 0)
    held.put(1, FIRST)
    update(held.place, 5, 20, SECOND)

    assert held.get() == (6, None)
    assert held.commit()[-1] is None


@pytest.mark.parametrize("what", TIMED)
def test_what_expires_is_read_no_more_and_its_segment_is_dropped(
    opened: Callable[[str], Held], what: str
) -> None:
    held = opened(what)
    held.put(1, FIRST)
    held.commit()

    held.store.put(LATER[what], AggregationWithHeaders(2, SECOND), 20)
    held.commit()

    assert held.get() is None
    held.place = LATER[what]
    assert held.get() == (2, SECOND)
    assert held.store.approximate_num_entries() == 1
    held.open()
    assert held.get() == (2, SECOND)
