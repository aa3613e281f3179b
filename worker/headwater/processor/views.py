"""From a task's store to what a processor gets for it, by the kind of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.errors import StateError
from headwater.model.stores import KeyLayout
from headwater.processor.headerstores import (
    SessionStoreWithHeaders,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedWindowStoreWithHeaders,
)
from headwater.processor.stores import KeyValueStore, TimestampedKeyValueStore
from headwater.processor.versionedstore import VersionedKeyValueStore
from headwater.processor.windowstores import SessionStore, TimestampedWindowStore, WindowStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater import ports
    from headwater.model.stores import StoreKind
    from headwater.processor.environment import Current

View: TypeAlias = (
    KeyValueStore
    | TimestampedKeyValueStore
    | WindowStore
    | TimestampedWindowStore
    | SessionStore
    | VersionedKeyValueStore
    | TimestampedKeyValueStoreWithHeaders
    | TimestampedWindowStoreWithHeaders
    | SessionStoreWithHeaders
)

_VIEWS: Final[Mapping[tuple[KeyLayout, bool], type[View]]] = {
    (KeyLayout.PLAIN, False): KeyValueStore,
    (KeyLayout.PLAIN, True): TimestampedKeyValueStore,
    (KeyLayout.WINDOW, False): WindowStore,
    (KeyLayout.WINDOW, True): TimestampedWindowStore,
    (KeyLayout.SESSION, False): SessionStore,
    (KeyLayout.VERSIONED, True): VersionedKeyValueStore,
}


_WITH_HEADERS: Final[Mapping[KeyLayout, type[View]]] = {
    KeyLayout.PLAIN: TimestampedKeyValueStoreWithHeaders,
    KeyLayout.WINDOW: TimestampedWindowStoreWithHeaders,
    KeyLayout.SESSION: SessionStoreWithHeaders,
}


def view(kind: StoreKind, store: ports.KeyValueStore, current: Current) -> View:
    """Return a task's store as a processor sees a store of its kind."""
    if kind.keeps_headers:
        return _WITH_HEADERS[kind.key_layout](store, current)
    return _VIEWS[kind.key_layout, kind.timestamped](store, current)


class ReadOnlyStore:
    """A global store as a processor sees it: the reading half of a store of its kind."""

    __slots__ = ("_seen",)

    def __init__(self, seen: View) -> None:
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        if name in _WRITING:
            raise StateError(
                f"global store {self._seen.name} is read-only, so {name}() is refused: write to "
                "the topic that it is made of"
            )
        return getattr(self._seen, name)


_WRITING: Final = frozenset({"put", "put_if_absent", "put_all", "delete", "remove"})
