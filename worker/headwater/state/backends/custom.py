"""The backend of a store of the user's own (``KeyValueBytesStoreSupplier.get``).

Those of windows, sessions and versions have ``OwnStoreBackend`` in common with it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headwater.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.model.custom_stores import BytesStore, KeyValueBytesStore
    from headwater.ports import Position

_OF_ALL: Final = ("put", "approximate_num_entries", "flush", "close")
Store = TypeVar("Store", bound="BytesStore")


class OwnStoreBackend(Generic[Store]):
    """What a backend over a store of the user's own does, whatever the kind.

    Its position lives as long as the object: after a restart the store is built anew from its
    changelog.

    Args:
        name: of the store.
        store: what the supplier made.
        kind: the protocol's name, for the message.
        methods: those that it has beside those of all kinds.

    Raises:
        StateError: it lacks one.
    """

    persistent = False

    def __init__(self, name: str, store: Store, kind: str, *methods: str) -> None:
        wanted = (*methods, *_OF_ALL)
        lacking = [method for method in wanted if not callable(getattr(store, method, None))]
        if lacking:
            raise StateError(
                f"store {name}: its supplier made {store!r:.100}, which has no "
                f"{', '.join(lacking)}: a {kind} has all of its methods"
            )
        self._name = name
        self._store = store
        self._position: Position | None = None
        self._closed = False

    @contextmanager
    def _writing(self, position: Position | None) -> Iterator[None]:
        """Flush what is put meanwhile, and keep its position; an error says whose store it was."""
        try:
            yield
            self._store.flush()
        except Exception as error:
            error.add_note(f"raised by the user's own store {self._name}, at a commit or a restore")
            raise
        if position is not None:
            self._position = position

    def position(self) -> Position | None:
        """Return the position of the last write that carried one."""
        return self._position

    def flush_later(self) -> None:
        """Nothing is buffered."""

    def approximate_num_entries(self) -> int:
        """About how many entries there are."""
        return self._store.approximate_num_entries()

    def close(self) -> None:
        """Close the store."""
        self._position = None
        if not self._closed:
            self._closed = True
            self._store.close()


class CustomBackend(OwnStoreBackend["KeyValueBytesStore"]):
    """Hands committed entries to a store of the user's own.

    Args:
        name: of the store.
        store: what the supplier made.

    Raises:
        StateError: it lacks a method.
    """

    def __init__(self, name: str, store: KeyValueBytesStore) -> None:
        super().__init__(name, store, "KeyValueBytesStore", "get", "range", "reverse_range")
        self.get = store.get

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in byte order, as of this call."""
        if start is not None and end is not None and start > end:
            return iter(())
        found = self._store.reverse_range if reverse else self._store.range
        return iter(list(found(start, end)))

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes (``None``) and the position."""
        put, written = self._store.put, list(entries)
        with self._writing(position):
            for key, value in written:
                put(key, value)
