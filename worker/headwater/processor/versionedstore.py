"""What a processor gets for a versioned store: Kafka's ``VersionedKeyValueStore`` (KIP-889)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from headwater.ports import LATEST, NOT_PUT

if TYPE_CHECKING:
    from headwater import ports
    from headwater.processor.environment import Current


class VersionedRecord(NamedTuple):
    """A value of a versioned store (Kafka's class of this name).

    Attributes:
        value: never ``None``.
        timestamp: from when on it is valid, in milliseconds since the epoch.
    """

    value: Any
    timestamp: int


class ReadOnlyVersionedKeyValueStore:
    """The reading half of a store that knows the values of the past."""

    __slots__ = ("_current", "_store")

    def __init__(self, store: ports.KeyValueStore, current: Current) -> None:
        self._store = cast("ports.VersionedStore", store)
        self._current = current

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """Return the newest value of ``key``, or the one that was valid at ``as_of``.

        ``None``: there is none, it was deleted by then, or ``as_of`` lies before the history
        retention and the newest value is not that old.

        Args:
            key: its values are looked up.
            as_of: milliseconds since the epoch.
        """
        if as_of is None:
            newest = self._store.get(key)
            return None if newest is None else VersionedRecord(*newest)
        found = self._store.get_as_of(key, as_of)
        return None if found is None else VersionedRecord(*found)


class VersionedKeyValueStore(ReadOnlyVersionedKeyValueStore):
    """A store that knows, for each key, the values of the past, as far as its history goes."""

    __slots__ = ()

    VALID_TO_UNDEFINED: ClassVar = LATEST
    """What ``put`` returns for the newest version (``PUT_RETURN_CODE_VALID_TO_UNDEFINED``)."""
    NOT_PUT: ClassVar = NOT_PUT
    """What ``put`` returns for a version that is too old (``PUT_RETURN_CODE_NOT_PUT``)."""

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Let ``value`` be that of ``key`` from ``timestamp`` on; ``None`` deletes it.

        Returns:
            The time of the next version, ``VALID_TO_UNDEFINED`` if there is none, or ``NOT_PUT`` if
            ``timestamp`` lies before the history retention: then nothing has changed.
        """
        return self._store.put_version(key, value, timestamp)

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """Delete ``key`` from ``timestamp`` on; return the value that was valid then."""
        was = self.get(key, timestamp)
        if self._store.put_version(key, None, timestamp) == NOT_PUT:
            return None
        return was
