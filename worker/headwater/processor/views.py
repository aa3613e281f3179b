"""From a task's store to what a processor gets for it, by the kind of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.model.stores import KeyLayout
from headwater.processor.stores import KeyValueStore, TimestampedKeyValueStore
from headwater.processor.windowstores import SessionStore, TimestampedWindowStore, WindowStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater import ports
    from headwater.model.stores import StoreKind
    from headwater.processor.environment import Current

View: TypeAlias = (
    KeyValueStore | TimestampedKeyValueStore | WindowStore | TimestampedWindowStore | SessionStore
)

_VIEWS: Final[Mapping[tuple[KeyLayout, bool], type[View]]] = {
    (KeyLayout.PLAIN, False): KeyValueStore,
    (KeyLayout.PLAIN, True): TimestampedKeyValueStore,
    (KeyLayout.WINDOW, False): WindowStore,
    (KeyLayout.WINDOW, True): TimestampedWindowStore,
    (KeyLayout.SESSION, False): SessionStore,
}


def view(kind: StoreKind, store: ports.KeyValueStore, current: Current) -> View:
    """Return a task's store as a processor sees a store of its kind."""
    return _VIEWS[kind.key_layout, kind.timestamped](store, current)
