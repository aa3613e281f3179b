"""Rows with headers: what a store keeps, what it logs, what a restore brings back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.runs import RUNS

from headwater import AggregationWithHeaders, Serdes
from headwater.ids import TaskId, TopicPartition
from headwater.model.stores import StoreKind, StoreSpec
from headwater.native.restoration import Changelog
from headwater.state import (
    CacheBudget,
    ChangelogFacts,
    StateDirectory,
    StoreRestorer,
    memory_backend,
    open_backend,
    open_store,
)
from headwater.wire.headers import encode_headers

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.ports import Backend, Headers, RawRecord
    from headwater.state import LayeredStore

TASK = TaskId(0, 0)
FIRST: Headers = [("h", b"\x01")]
SECOND: Headers = [("h", b"\x02"), ("none", None)]
VALUES = StoreSpec(name="held", kind=StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS)
SESSIONS = StoreSpec(name="held", kind=StoreKind.SESSION_WITH_HEADERS, retention_ms=60_000)
FACTS = ChangelogFacts(topic_id="id", log_start=0, log_end=9, delete_retention_ms=86_400_000)


class Opened:
    """A store, and what its changelog got: key, value, timestamp and headers."""

    def __init__(self, spec: StoreSpec, backend: Backend, cache_bytes: int = 0) -> None:
        self.logged: list[tuple[Any, Any, int, Headers]] = []
        self.store: LayeredStore = open_store(
            spec,
            task=TASK,
            changelog_topic="app-held-changelog",
            backend=backend,
            cache=CacheBudget(cache_bytes),
            changelog_send=lambda *sent: self.logged.append(sent[:4]),
            key_serde=Serdes.string,
            value_serde=Serdes.string,
        )

    def commit(self) -> list[tuple[Any, Any, int, Headers]]:
        """Commit; return what was logged for it."""
        self.store.flush_cache()
        self.store.flush_changelog()
        self.store.commit(None)
        logged, self.logged = self.logged, []
        return logged


def with_headers(store: LayeredStore) -> list[tuple[Any, ...]]:
    return list(store.with_headers().range(None, None))


@pytest.mark.parametrize("cache_bytes", [0, 10_000])
def test_the_changelog_has_the_headers_of_values_and_of_what_deleted(cache_bytes: int) -> None:
    backend = memory_backend(VALUES)
    held = Opened(VALUES, backend, cache_bytes)

    held.store.put("a", AggregationWithHeaders("x", FIRST), 5, SECOND)
    held.store.put("b", "alone", 6)

    assert held.store.get("a") == ("x", 5)
    assert with_headers(held.store) == [("a", ("x", FIRST), 5), ("b", ("alone", None), 6)]
    assert held.commit() == [(b"a", b"x", 5, FIRST), (b"b", b"alone", 6, None)]
    assert dict(backend.range(None, None)) == {
        b"a": encode_headers(FIRST) + (5).to_bytes(8) + b"x",
        b"b": b"\x00" + (6).to_bytes(8) + b"alone",
    }
    held.store.put("a", None, 7, SECOND)
    assert held.commit() == [(b"a", None, 7, SECOND)]
    assert with_headers(held.store) == [("b", ("alone", None), 6)]


def test_a_deletion_that_is_evicted_keeps_its_headers_for_the_changelog() -> None:
    backend = memory_backend(VALUES)
    held = Opened(VALUES, backend, cache_bytes=150)
    held.store.put("a", "x", 1)
    held.commit()

    held.store.put("a", None, 2, FIRST)
    for number in range(5):
        held.store.put(f"other-{number}", "y" * 50, 3)

    assert (b"a", None, 2, FIRST) in held.commit()


def test_sessions_have_no_timestamp_in_their_rows() -> None:
    backend = memory_backend(SESSIONS)
    held = Opened(SESSIONS, backend)

    held.store.put(("a", 9, 7), AggregationWithHeaders("x", FIRST), 5)

    assert [row[1:] for row in held.commit()] == [(b"x", 5, FIRST)]
    assert [row for _, row in backend.range(None, None)] == [encode_headers(FIRST) + b"x"]
    reading: Any = held.store.with_headers()
    assert reading.fetch("a", 0, 10) == [(9, 7, ("x", FIRST), -1)]
    held.store.put(("a", 9, 7), None, 6, SECOND)
    assert [row[1:] for row in held.commit()] == [(None, 6, SECOND)]


@pytest.mark.parametrize("spec", [VALUES, SESSIONS], ids=["values", "sessions"])
@pytest.mark.parametrize("newest", [None, *RUNS])
def test_a_restore_puts_the_headers_of_records_into_rows(
    spec: StoreSpec, newest: str | None, tmp_path: Path
) -> None:
    directory = StateDirectory(tmp_path, "app").store(TASK, spec.directory_name)
    restorer = StoreRestorer(spec, directory, FACTS, now_ms=0, holder="test")
    suffix = (9).to_bytes(8) + (7).to_bytes(8) if spec is SESSIONS else b""
    records: list[RawRecord] = [
        (0, 5, b"a" + suffix, b"old", FIRST),
        (1, 6, b"a" + suffix, b"x", SECOND),
        (2, 7, b"b" + suffix, b"y", None),
        (3, 8, b"c" + suffix, b"gone", FIRST),
        (4, 9, b"c" + suffix, None, FIRST),
    ]

    if newest:
        changelog = Changelog(TopicPartition("t", 0), restorer, 9, 0, 0)
        changelog.take(RUNS[newest](records))
        changelog.move(5)
        changelog.close()
    else:
        restorer.apply(records, 5)
        restorer.close()

    held = Opened(spec, open_backend(spec, directory, holder="test"))
    found = held.store.with_headers()
    keys = [("a", 9, 7), ("b", 9, 7), ("c", 9, 7)] if suffix else ["a", "b", "c"]
    at = (-1, -1) if suffix else (6, 7)
    assert [found.get(key) for key in keys] == [(("x", SECOND), at[0]), (("y", None), at[1]), None]
    held.store.close()


def test_a_store_that_gets_headers_begins_anew_under_another_name() -> None:
    plain = replace(VALUES, kind=StoreKind.TIMESTAMPED_KEY_VALUE)

    assert (plain.directory_name, VALUES.directory_name) == ("held", "held~headers")
    assert plain.kind.with_headers is VALUES.kind
    assert StoreKind.VERSIONED.with_headers is None
    assert replace(VALUES, source_topic="in").directory_name == "held~headers~source"
