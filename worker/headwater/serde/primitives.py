"""The built-in serdes, byte for byte as Kafka's; and JSON.

Numbers are big-endian, text is UTF-8, bytes are raw.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable


class BytesSerde(Serde[bytes]):
    """Bytes as they are (``Serdes.ByteArray``)."""

    immutable: ClassVar[bool] = True

    def serializer(self, topic: str) -> Callable[[bytes], bytes]:
        """Return the identity, which also takes bytearrays; a TypeError for anything else."""
        # ``bytes`` itself would make five zero bytes of the number 5.
        return b"".__add__

    def deserializer(self, topic: str) -> Callable[[bytes], bytes]:
        """Return the identity."""
        return bytes


class StringSerde(Serde[str]):
    """UTF-8 text (``Serdes.String``)."""

    immutable: ClassVar[bool] = True

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        """Return ``str.encode``: UTF-8, a TypeError for anything that is not text."""
        return str.encode

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        """Return the UTF-8 decoder; malformed bytes raise, where Java puts U+FFFD in silence."""
        return bytes.decode


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


class IntegerSerde(_StructSerde):
    """Signed 32-bit big-endian (``Serdes.Integer``)."""

    layout = struct.Struct(">i")


class LongSerde(_StructSerde):
    """Signed 64-bit big-endian (``Serdes.Long``)."""

    layout = struct.Struct(">q")


class DoubleSerde(_StructSerde):
    """IEEE-754 binary64, big-endian (``Serdes.Double``)."""

    layout = struct.Struct(">d")


class JsonSerde(Serde[Any]):
    """JSON text in UTF-8, compact and with sorted keys, so that equal values have equal bytes."""

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        """Return the encoder; a value that JSON cannot hold raises ``TypeError``."""
        encode = json.JSONEncoder(
            ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode

        def serialize(value: Any) -> bytes:
            return encode(value).encode()

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return ``json.loads``."""
        return json.loads


class Serdes:
    """The built-in serdes by name; instances hold no state and may be shared."""

    bytes: Final[Serde[bytes]] = BytesSerde()
    string: Final[Serde[str]] = StringSerde()
    integer: Final[Serde[int]] = IntegerSerde()
    long: Final[Serde[int]] = LongSerde()
    double: Final[Serde[float]] = DoubleSerde()
    json: Final[Serde[Any]] = JsonSerde()

    _BY_NAME: ClassVar[tuple[str, ...]] = ("bytes", "string", "integer", "long", "double", "json")

    @classmethod
    def by_name(cls, name: str) -> Serde[Any]:
        """Return the serde called ``name``, as a StreamApp's configuration writes it.

        Raises:
            KeyError: there is no such serde; the message lists those there are.
        """
        if name not in cls._BY_NAME:
            raise KeyError(
                f"unknown serde {name!r}; the built-in ones are {', '.join(cls._BY_NAME)}"
            )
        serde: Serde[Any] = getattr(cls, name)
        return serde
