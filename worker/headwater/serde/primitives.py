"""The serdes of single values, byte for byte as Kafka's (``Serdes``).

Numbers are big-endian, text is UTF-8 unless another encoding is asked for, bytes are raw.
"""

from __future__ import annotations

import codecs
import struct
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable


class BytesSerde(Serde[bytes]):
    """Bytes as they are (``Serdes.ByteArray``, ``Serdes.Bytes``, ``Serdes.ByteBuffer``)."""

    immutable: ClassVar[bool] = True

    def serializer(self, topic: str) -> Callable[[bytes], bytes]:
        """Return the identity, which also takes bytearrays; a TypeError for anything else."""
        # ``bytes`` itself would make five zero bytes of the number 5.
        return b"".__add__

    def deserializer(self, topic: str) -> Callable[[bytes], bytes]:
        """Return the identity."""
        return bytes


class StringSerde(Serde[str]):
    """UTF-8 text (``Serdes.String``); called with an encoding, a serde of text in that one."""

    immutable: ClassVar[bool] = True

    def __call__(self, encoding: str = "UTF-8") -> Serde[str]:
        """Return the serde of text in another encoding (Kafka's ``serializer.encoding``).

        Raises:
            LookupError: there is no such encoding.
        """
        if codecs.lookup(encoding) == codecs.lookup("UTF-8"):
            return self
        return EncodedStringSerde(encoding)

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        """Return ``str.encode``: UTF-8, a TypeError for anything that is not text."""
        return str.encode

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        """Return the UTF-8 decoder; malformed bytes raise, where Java puts U+FFFD in silence."""
        return bytes.decode


class EncodedStringSerde(Serde[str]):
    """Text in an encoding other than UTF-8, its bytes as those of Java's charset of that name.

    Malformed bytes, and characters that the encoding lacks, raise, where Java replaces them.

    Args:
        encoding: a name that Python knows.

    Raises:
        LookupError: there is no such encoding.
    """

    # Java writes UTF-16 big-endian behind a mark, UTF-32 big-endian without one, and reads both
    # as big-endian where there is none. Python's codecs of these names follow the machine.
    _MARKS: ClassVar[dict[str, tuple[bytes, bytes, bytes]]] = {
        "utf-16": (b"\xfe\xff", b"\xfe\xff", b"\xff\xfe"),
        "utf-32": (b"", b"\x00\x00\xfe\xff", b"\xff\xfe\x00\x00"),
    }

    def __init__(self, encoding: str) -> None:
        self._encoding = codecs.lookup(encoding).name

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        """Return the encoder; a TypeError for anything that is not text."""
        to_bytes, name = str.encode, self._encoding
        if name not in self._MARKS:
            return lambda value: to_bytes(value, name)
        mark, name = self._MARKS[name][0], f"{name}-be"

        def serialize(value: str) -> bytes:
            data = to_bytes(value, name)
            return mark + data if data else data

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        """Return the decoder; malformed bytes raise."""
        name = self._encoding
        if name not in self._MARKS:
            return lambda data: data.decode(name)
        _, big, little = self._MARKS[name]

        def deserialize(data: bytes) -> str:
            if data.startswith(little):
                return data[len(little) :].decode(f"{name}-le")
            return data.removeprefix(big).decode(f"{name}-be")

        return deserialize


class _StructSerde(Serde[Any]):
    immutable: ClassVar[bool] = True
    layout: ClassVar[struct.Struct]

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        """Return the packer of the fixed-size number."""
        return self.layout.pack

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the unpacker; a wrong length raises ``struct.error``."""
        unpack = self.layout.unpack

        def deserialize(data: bytes) -> Any:
            return unpack(data)[0]

        return deserialize


class ShortSerde(_StructSerde):
    """Signed 16-bit big-endian (``Serdes.Short``)."""

    layout = struct.Struct(">h")


class IntegerSerde(_StructSerde):
    """Signed 32-bit big-endian (``Serdes.Integer``)."""

    layout = struct.Struct(">i")


class LongSerde(_StructSerde):
    """Signed 64-bit big-endian (``Serdes.Long``)."""

    layout = struct.Struct(">q")


class FloatSerde(_StructSerde):
    """IEEE-754 binary32, big-endian (``Serdes.Float``): what is written is the nearest of these."""

    # 0.1 comes back as another number, so a store keeps the bytes.
    immutable: ClassVar[bool] = False
    layout = struct.Struct(">f")

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        """Return the packer; as in Java, all that is not a number has the same bytes."""
        return _packer(self.layout, bytes.fromhex("7fc00000"))


class DoubleSerde(_StructSerde):
    """IEEE-754 binary64, big-endian (``Serdes.Double``)."""

    layout = struct.Struct(">d")

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        """Return the packer; as in Java, all that is not a number has the same bytes."""
        return _packer(self.layout, bytes.fromhex("7ff8000000000000"))


def _packer(layout: struct.Struct, no_number: bytes) -> Callable[[Any], bytes]:
    pack = layout.pack

    def serialize(value: Any) -> bytes:
        # What is not a number is unequal to itself.
        return pack(value) if value == value else no_number  # noqa: PLR0124

    return serialize


_TRUE: Final = b"\x01"
_FALSE: Final = b"\x00"


class BooleanSerde(Serde[bool]):
    """One byte, 1 or 0 (``Serdes.Boolean``)."""

    immutable: ClassVar[bool] = True

    def serializer(self, topic: str) -> Callable[[bool], bytes]:
        """Return the encoder; a TypeError for anything but ``True`` and ``False``."""

        def serialize(value: bool) -> bytes:  # noqa: FBT001 - a serializer has one argument
            if value is True:
                return _TRUE
            if value is False:
                return _FALSE
            _refuse(value, "a bool")

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], bool]:
        """Return the decoder; bytes other than one 0 or 1 raise ``ValueError``."""

        def deserialize(data: bytes) -> bool:
            if data == _TRUE:
                return True
            if data == _FALSE:
                return False
            raise ValueError(f"{data[:8]!r} is no boolean: that is one byte, 0 or 1")

        return deserialize


_UUID_PARTS: Final = (32, 16, 16, 16, 48)
"""Bits of the five parts of a UUID's text."""
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")


class UUIDSerde(Serde[uuid.UUID]):
    """The text of a UUID in lower-case letters (``Serdes.UUID``)."""

    immutable: ClassVar[bool] = True

    def serializer(self, topic: str) -> Callable[[uuid.UUID], bytes]:
        """Return the encoder; a TypeError for anything that is no ``uuid.UUID``."""

        def serialize(value: uuid.UUID) -> bytes:
            if not isinstance(value, uuid.UUID):
                _refuse(value, "a uuid.UUID")
            return str(value).encode()

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], uuid.UUID]:
        """Return the decoder, which takes what Java's does; other bytes raise ``ValueError``."""
        return _uuid_of


def _uuid_of(data: bytes) -> uuid.UUID:
    """Return the UUID of a text: five hexadecimal numbers, leading zeros may be missing."""
    text = data.decode()
    parts = text.split("-")
    fits = len(text) <= 36 and len(parts) == len(_UUID_PARTS)
    if not fits or not all(part and _HEXADECIMAL.issuperset(part) for part in parts):
        raise ValueError(f"{text[:40]!r} is no UUID: that is five hexadecimal numbers with '-'")
    number = 0
    for part, bits in zip(parts, _UUID_PARTS, strict=True):
        number = (number << bits) | (int(part, 16) & ((1 << bits) - 1))
    return uuid.UUID(int=number)


class VoidSerde(Serde[None]):
    """Nothing but null (``Serdes.Void``): anything else raises on both sides."""

    immutable: ClassVar[bool] = True

    def serializer(self, topic: str) -> Callable[[None], bytes]:
        """Return a function that raises a TypeError, because null never reaches it."""

        def serialize(value: object) -> bytes:
            _refuse(value, "None")

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], None]:
        """Return a function that raises a ValueError, because null never reaches it."""

        def deserialize(data: bytes) -> None:
            raise ValueError(f"{data[:8]!r} is not null, which is all that the serde void reads")

        return deserialize


def _refuse(value: object, expected: str) -> NoReturn:
    raise TypeError(f"a {type(value).__name__} is not {expected}")
