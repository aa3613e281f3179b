"""The stores of a driver as views, by their kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.model.stores import KeyLayout
from headwater.processor.headerstores import (
    SessionStoreWithHeaders,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedWindowStoreWithHeaders,
)
from headwater.processor.stores import KeyValueStore, TimestampedKeyValueStore
from headwater.processor.versionedstore import VersionedKeyValueStore
from headwater.processor.views import view
from headwater.processor.windowstores import SessionStore, TimestampedWindowStore, WindowStore

if TYPE_CHECKING:
    from headwater import ports
    from headwater.model.stores import StoreKind
    from headwater.processor.environment import Current


class FoundStore(NamedTuple):
    """A store of a task, with what the task is doing."""

    store: ports.KeyValueStore
    kind: StoreKind
    current: Current


class StoreViews(ABC):
    """What gives views of stores; a driver knows which stores there are."""

    @abstractmethod
    def _found(self, store: str, partition: int) -> FoundStore | None:
        """Return a store of the tasks of a partition, or a global one."""

    def get_state_store(self, name: str, partition: int = 0) -> Any:
        """Return the store ``name`` as a processor sees it, or ``None`` if there is none.

        Args:
            name: the store's; a global one's, too.
            partition: of its task.
        """
        found = self._found(name, partition)
        if found is None:
            return None
        store, kind, current = found
        return view(kind, store, current)

    def get_key_value_store(self, name: str, partition: int = 0) -> KeyValueStore | None:
        """Return a view of a key-value store as plain values.

        As in Kafka Streams ``None`` if there is no store of this name and kind: so it is with all
        getters but :meth:`get_state_store`.
        """
        found = self._of_layout(KeyLayout.PLAIN, name, partition)
        return None if found is None else KeyValueStore(found.store, found.current)

    def get_timestamped_key_value_store(
        self, name: str, partition: int = 0
    ) -> TimestampedKeyValueStore | None:
        """Return a view of a key-value store with timestamps, ``None`` if it has none."""
        found = self._of_layout(KeyLayout.PLAIN, name, partition, timestamped=True)
        return None if found is None else TimestampedKeyValueStore(found.store, found.current)

    def get_versioned_key_value_store(
        self, name: str, partition: int = 0
    ) -> VersionedKeyValueStore | None:
        """Return a view of a versioned store."""
        found = self._of_layout(KeyLayout.VERSIONED, name, partition)
        return None if found is None else VersionedKeyValueStore(found.store, found.current)

    def get_window_store(self, name: str, partition: int = 0) -> WindowStore | None:
        """Return a view of a store of windows as plain values."""
        found = self._of_layout(KeyLayout.WINDOW, name, partition)
        return None if found is None else WindowStore(found.store, found.current)

    def get_timestamped_window_store(
        self, name: str, partition: int = 0
    ) -> TimestampedWindowStore | None:
        """Return a view of a store of windows with timestamps, ``None`` if it has none."""
        found = self._of_layout(KeyLayout.WINDOW, name, partition, timestamped=True)
        return None if found is None else TimestampedWindowStore(found.store, found.current)

    def get_session_store(self, name: str, partition: int = 0) -> SessionStore | None:
        """Return a view of a store of sessions."""
        found = self._of_layout(KeyLayout.SESSION, name, partition)
        return None if found is None else SessionStore(found.store, found.current)

    def get_timestamped_key_value_store_with_headers(
        self, name: str, partition: int = 0
    ) -> TimestampedKeyValueStoreWithHeaders | None:
        """Return a view of a key-value store with headers, ``None`` if it has none."""
        found = self._of_layout(KeyLayout.PLAIN, name, partition, headers=True)
        made = TimestampedKeyValueStoreWithHeaders
        return None if found is None else made(found.store, found.current)

    def get_timestamped_window_store_with_headers(
        self, name: str, partition: int = 0
    ) -> TimestampedWindowStoreWithHeaders | None:
        """Return a view of a store of windows with headers, ``None`` if it has none."""
        found = self._of_layout(KeyLayout.WINDOW, name, partition, headers=True)
        made = TimestampedWindowStoreWithHeaders
        return None if found is None else made(found.store, found.current)

    def get_session_store_with_headers(
        self, name: str, partition: int = 0
    ) -> SessionStoreWithHeaders | None:
        """Return a view of a store of sessions with headers, ``None`` if it has none."""
        found = self._of_layout(KeyLayout.SESSION, name, partition, headers=True)
        return None if found is None else SessionStoreWithHeaders(found.store, found.current)

    def _of_layout(
        self,
        layout: KeyLayout,
        store: str,
        partition: int,
        *,
        timestamped: bool = False,
        headers: bool = False,
    ) -> FoundStore | None:
        """Return a store whose keys are laid out so, and that is no buffer of an operator."""
        found = self._found(store, partition)
        if found is None or found.kind.is_buffer or found.kind.holds_records:
            return None
        kind = found.kind
        has_all = (kind.timestamped or not timestamped) and (kind.keeps_headers or not headers)
        return found if kind.key_layout is layout and has_all else None
