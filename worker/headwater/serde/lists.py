"""Lists of values that have a serde, as Kafka's ``ListSerde`` lays them out.

A first byte says which of two layouts follows. CONSTANT_SIZE: how many nulls and their indexes, the
length, the other entries one after the other. VARIABLE_SIZE: the length, then of every entry its
bytes' length (-1 for null) and its bytes. All numbers are int32.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.serde.base import Serde
from headwater.serde.primitives import (
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    LongSerde,
    ShortSerde,
    UUIDSerde,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

_INT: Final = struct.Struct(">i")
_CONSTANT_SIZE: Final = b"\x00"
_VARIABLE_SIZE: Final = b"\x01"
_NULL: Final = -1
_SIZES: Final[dict[type, int]] = {
    ShortSerde: 2,
    IntegerSerde: 4,
    FloatSerde: 4,
    LongSerde: 8,
    DoubleSerde: 8,
    UUIDSerde: 36,
}
"""The serdes whose entries Java writes without their lengths; a boolean's is not among them."""


class ListSerde(Serde[list[T]]):
    """A list of what ``inner`` takes, entries may be null (``Serdes.ListSerde``).

    Args:
        inner: the serde of an entry.
    """

    def __init__(self, inner: Serde[T]) -> None:
        self._inner = inner
        self._size = _SIZES.get(type(inner))

    def configured(self, settings: Mapping[str, object], *, is_key: bool) -> ListSerde[T]:
        """Return the list of the inner serde as it is configured."""
        return ListSerde(self._inner.configured(settings, is_key=is_key))

    def serializer(self, topic: str) -> Callable[[list[T]], bytes]:
        """Return the encoder of lists and tuples; a TypeError for anything else."""
        encode = self._inner.serializer(topic)
        lay_out = _variable if self._size is None else _constant

        def serialize(value: list[T]) -> bytes:
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"a {type(value).__name__} is no list")
            return lay_out(encode, value)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], list[T]]:
        """Return the decoder, of both layouts; bytes that are no list raise ``ValueError``.

        Bytes after the last entry are ignored, as in Java.
        """
        decode, size = self._inner.deserializer(topic), self._size

        def deserialize(data: bytes) -> list[T]:
            reader = _Reader(data)
            layout = reader.take(1)
            if layout == _VARIABLE_SIZE:
                found = _read_variable(reader, decode)
            elif layout == _CONSTANT_SIZE and size is not None:
                found = _read_constant(reader, decode, size)
            else:
                raise ValueError(f"{layout!r} is no layout of a list of such entries")
            return found

        return deserialize


def _constant(encode: Callable[[Any], bytes], entries: list[Any] | tuple[Any, ...]) -> bytes:
    nulls = [at for at, entry in enumerate(entries) if entry is None]
    head = struct.pack(f">i{len(nulls)}ii", len(nulls), *nulls, len(entries))
    return _CONSTANT_SIZE + head + b"".join(encode(one) for one in entries if one is not None)


def _variable(encode: Callable[[Any], bytes], entries: list[Any] | tuple[Any, ...]) -> bytes:
    parts = [_VARIABLE_SIZE, _INT.pack(len(entries))]
    for entry in entries:
        if entry is None:
            parts.append(_INT.pack(_NULL))
        else:
            data = encode(entry)
            parts += (_INT.pack(len(data)), data)
    return b"".join(parts)


def _read_constant(reader: _Reader, decode: Callable[[bytes], T], size: int) -> list[Any]:
    nulls = {reader.number() for _ in range(reader.count())}
    return [
        None if at in nulls else decode(reader.take(size)) for at in range(reader.count(nulls=True))
    ]


def _read_variable(reader: _Reader, decode: Callable[[bytes], T]) -> list[Any]:
    found: list[Any] = []
    for _ in range(reader.count()):
        length = reader.number()
        found.append(None if length == _NULL else decode(reader.take(length)))
    return found


class _Reader:
    """Takes bytes from the front; raises ``ValueError`` where there are too few."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        if not 0 <= length <= self.left:
            raise ValueError(f"a list ends early: {length} bytes are wanted, {self.left} are left")
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]

    def number(self) -> int:
        (found,) = _INT.unpack(self.take(4))
        return int(found)

    def count(self, *, nulls: bool = False) -> int:
        """Take how many entries follow: so many as there are bytes for, if none may be null."""
        found = self.number()
        if found < 0 or not (nulls or found * 4 <= self.left):
            raise ValueError(f"{found} is no length of a list of which {self.left} bytes are left")
        return found
