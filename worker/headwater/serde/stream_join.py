"""Records of a join of streams that have found no partner: Java's keys and values of their store.

A key is time, side and key (``TimestampedKeyAndJoinSide``): int64, a byte that is 1 on the left,
the key's bytes. A value is the list of all values of that key, each after the byte of its side
(``LeftOrRightValue``).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.serde.base import Serde
from headwater.serde.lists import ListSerde

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.serde.base import SerdeGetter

SideKey: TypeAlias = "tuple[int, bool, Any]"
"""Time in milliseconds, whether it is of the left side, the key."""
SideValue: TypeAlias = "tuple[bool, Any]"
"""Whether it is of the left side, the value."""

_HEAD: Final = struct.Struct(">q?")
_LEFT: Final = b"\x01"
_RIGHT: Final = b"\x00"


class SideKeySerde(Serde[SideKey]):
    """Keys of records without a partner.

    Args:
        key: of the stream's keys; ``None`` for the default.
        owner: the store, for messages.
    """

    def __init__(self, key: Serde[Any] | None, owner: str) -> None:
        self._key = key
        self._owner = owner

    def with_defaults(self, defaults: SerdeGetter) -> SideKeySerde:
        """Return the same with a serde of keys."""
        return SideKeySerde(defaults.serde("key", self._key, self._owner), self._owner)

    def serializer(self, topic: str) -> Callable[[SideKey], bytes]:
        """Return the encoder."""
        encode, pack = _given(self._key).serializer(topic), _HEAD.pack

        def serialize(key: SideKey) -> bytes:
            at, is_left, inner = key
            return pack(at, is_left) + encode(inner)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], SideKey]:
        """Return the decoder."""
        decode, unpack, size = _given(self._key).deserializer(topic), _HEAD.unpack_from, _HEAD.size

        def deserialize(data: bytes) -> SideKey:
            at, is_left = unpack(data)
            return at, is_left, decode(data[size:])

        return deserialize


class SideValueSerde(Serde[SideValue]):
    """One value, of either side.

    Args:
        left: of the left stream's values; ``None`` for the default.
        right: of the right stream's.
        owner: the store, for messages.
    """

    def __init__(self, left: Serde[Any] | None, right: Serde[Any] | None, owner: str) -> None:
        self._left = left
        self._right = right
        self._owner = owner

    def with_defaults(self, defaults: SerdeGetter) -> SideValueSerde:
        """Return the same with serdes of values."""
        left, right = (
            defaults.serde("value", given, self._owner) for given in (self._left, self._right)
        )
        return SideValueSerde(left, right, self._owner)

    def serializer(self, topic: str) -> Callable[[SideValue], bytes]:
        """Return the encoder."""
        left, right = _given(self._left).serializer(topic), _given(self._right).serializer(topic)

        def serialize(value: SideValue) -> bytes:
            is_left, inner = value
            return _LEFT + left(inner) if is_left else _RIGHT + right(inner)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], SideValue]:
        """Return the decoder."""
        left = _given(self._left).deserializer(topic)
        right = _given(self._right).deserializer(topic)

        def deserialize(data: bytes) -> SideValue:
            is_left = data[:1] == _LEFT
            return is_left, (left if is_left else right)(data[1:])

        return deserialize


class SideValuesSerde(Serde[list[SideValue]]):
    """All values of one key: a list of what :class:`SideValueSerde` takes."""

    def __init__(self, each: SideValueSerde) -> None:
        self._each = each

    def with_defaults(self, defaults: SerdeGetter) -> SideValuesSerde:
        """Return the same with serdes of values."""
        return SideValuesSerde(self._each.with_defaults(defaults))

    def serializer(self, topic: str) -> Callable[[list[SideValue]], bytes]:
        """Return the encoder."""
        return ListSerde(self._each).serializer(topic)

    def deserializer(self, topic: str) -> Callable[[bytes], list[SideValue]]:
        """Return the decoder."""
        return ListSerde(self._each).deserializer(topic)


def _given(serde: Serde[Any] | None) -> Serde[Any]:
    assert serde is not None, "with_defaults comes first"
    return serde
