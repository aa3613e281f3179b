"""Stores for tests, with ears for what they forward and send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.ids import TaskId
from headwater.model.topology import StoreKind, StoreSpec
from headwater.serde import Serdes
from headwater.state import CacheBudget, LayeredStore, MemoryBackend, open_store
from headwater.state.backends.lru import LruBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.ports import Backend, Headers

TOPIC = "app-counts-changelog"
TASK = TaskId(0, 3)
LRU_ENTRIES = 1_000
"""Bound of a store over an ``LruBackend`` whose test says nothing of it."""


@dataclass(slots=True)
class Recorder:
    """Hears changes and changelog records.

    Attributes:
        keeps_headers: of a store with headers: its changelog records may have some.
        sent_headers: of each changelog record of such a store.
    """

    keeps_headers: bool = False
    changes: list[tuple[Any, Any, Any, int]] = field(default_factory=list)
    """``(key, new, old, timestamp)``"""
    headers: list[Headers] = field(default_factory=list)
    sent: list[tuple[bytes | None, bytes | None, int]] = field(default_factory=list)
    sent_headers: list[Headers] = field(default_factory=list)
    partitions: set[int | None] = field(default_factory=set)

    def forward(self, key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        """Hear a change."""
        self.changes.append((key, *change, timestamp))
        self.headers.append(headers)

    def send(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        """Hear a changelog record."""
        if self.keeps_headers:
            self.sent_headers.append(headers)
        else:
            assert headers is None
        self.sent.append((key, value, timestamp))
        self.partitions.add(partition)


class Updates:
    """How record caches of this process update a known key."""

    updater: Any = None
    """Makes the update in C; ``None``: in Python."""


def budget_of(limit: int) -> CacheBudget:
    """Make a budget of record caches; see ``Updates``."""
    return CacheBudget(limit, Updates.updater)


def build_store(
    recorder: Recorder,
    backend: Backend | None = None,
    *,
    cache: int | CacheBudget | None = 0,
    caching: bool = True,
    logging: bool = True,
    timestamped: bool = True,
    headers: bool = False,
    key: Any = Serdes.string,
    value: Any = Serdes.long,
    send_old: bool | None = None,
    name: str = "counts",
    entries_max: int | None = None,
) -> LayeredStore:
    """Build a store; ``send_old`` other than ``None`` connects the recorder's ``forward``.

    ``headers``: a store with timestamps keeps headers, too.
    """
    kind = StoreKind.TIMESTAMPED_KEY_VALUE if timestamped else StoreKind.KEY_VALUE
    if headers:
        assert timestamped, "without timestamps there are no headers"
        kind = StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS
    recorder.keeps_headers = headers
    bound = entries_max
    if bound is None and isinstance(backend, LruBackend):
        bound = LRU_ENTRIES
    store = open_store(
        StoreSpec(name=name, kind=kind, caching=caching, logging=logging, entries_max=bound),
        task=TASK,
        changelog_topic=TOPIC,
        backend=MemoryBackend() if backend is None else backend,
        cache=budget_of(cache) if isinstance(cache, int) else cache,
        changelog_send=recorder.send,
        key_serde=key,
        value_serde=value,
    )
    if send_old is not None:
        store.on_change(recorder.forward, send_old=send_old)
    return store


class DictStore:
    """A store of a user's own."""

    def __init__(self) -> None:
        self._held: dict[bytes, bytes] = {}
        self.flushes = 0

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        return self._held.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set or delete a key."""
        if value is None:
            self._held.pop(key, None)
        else:
            self._held[key] = value

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Iterate in the order of bytes."""
        for key in sorted(self._held):
            if (start is None or key >= start) and (end is None or key <= end):
                yield key, self._held[key]

    def reverse_range(
        self, start: bytes | None, end: bytes | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the other way round."""
        return reversed(list(self.range(start, end)))

    def approximate_num_entries(self) -> int:
        """How many keys there are."""
        return len(self._held)

    def flush(self) -> None:
        """Count."""
        self.flushes += 1

    def close(self) -> None:
        """Forget everything."""
        self._held.clear()


def add(_key: Any, value: Any, total: Any) -> Any:
    """Sum the values; a value of 0 deletes."""
    return None if value == 0 else total + value


def gather(_key: Any, value: Any, values: list[Any]) -> list[Any] | None:
    """Collect the values, changing the list in place as a user may; a value of 0 deletes."""
    if value == 0:
        return None
    values.append(value)
    return values
