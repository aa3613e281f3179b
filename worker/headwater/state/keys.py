"""How a store's keys become bytes and back: the layouts of keys.

The *identity* of a key is what the dicts of the layers know it by: the key itself where that is
safe and needs no bytes, else its bytes. Backends and changelogs know bytes alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import SerializationError
from headwater.model.stores import KeyLayout
from headwater.serde.primitives import StringSerde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.stores import StoreSpec
    from headwater.serde import Serde

WINDOW_SUFFIX: Final = struct.Struct(">qi")
"""What follows the key in a store of windows: its start, and its number among duplicates."""
SESSION_SUFFIX: Final = struct.Struct(">qq")
"""What follows the key in a store of sessions: its end and its start."""
_SEGMENT_BYTES: Final = 8


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class PlainKeys:
    """Keys that lie in a store as their serde writes them.

    Attributes:
        is_identity: a key may be used in a dict as it is; only ``encode`` can tell whether it is
            legal.
        encode: from a key to its bytes; raises what the serde raises.
        decode: from bytes to the key.
        identify: from a key to its identity; raises what the serde raises.
        pack: from an identity to its bytes; ``None`` if it is these bytes.
        size: from an identity to what Kafka Streams counts for its key in a cache, in bytes.
    """

    __slots__ = (
        "_store",
        "_topic",
        "decode",
        "encode",
        "identify",
        "is_identity",
        "pack",
        "size",
    )

    def __init__(self, store: str, topic: str, serde: Serde[Any]) -> None:
        self._store = store
        self._topic = topic
        self.is_identity = type(serde) is StringSerde
        self.encode: Callable[[Any], bytes] = serde.serializer(topic)
        self.decode: Callable[[bytes], Any] = serde.deserializer(topic)
        self.identify: Callable[[Any], Any] = self.encode
        self.pack: Callable[[Any], bytes] | None = self.encode if self.is_identity else None
        self.size: Callable[[Any], int] = _text_size if self.is_identity else len

    def identity(self, key: Any) -> Any:
        """Return what the layers' dicts know ``key`` by.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        try:
            data = self.encode(key)
        except Exception as error:
            raise self.error(key, error) from error
        return key if self.is_identity else data

    def bytes_of(self, identity: Any) -> bytes:
        """Return the serialized key of an identity."""
        data: bytes = identity if self.pack is None else self.pack(identity)
        return data

    def key_of(self, identity: Any) -> Any:
        """Return the key of an identity."""
        return identity if self.is_identity else self.decode(identity)

    def error(self, key: Any, error: Exception) -> SerializationError:
        """Return the error for a key that cannot be serialized."""
        if key is None:
            return SerializationError(
                f"store {self._store}: the key is null; filter such records before they reach it"
            )
        return SerializationError(
            f"store {self._store}: key {key!r:.200} ({type(key).__name__}) cannot be serialized "
            f"for {self._topic}: {error}; give the store a key serde that fits"
        )


class TimedKeys(PlainKeys):
    """Keys with a time: ``(key, time, other)``, of which the bytes are ``key ‖ time ‖ other``.

    An identity is such a tuple, too. Its key is the text itself if the serde is that of texts, else
    the key's bytes.

    Attributes:
        suffix: how time and other lie in bytes.
        encode_key: from the key alone to its bytes.
        decode_key: from the bytes of the key alone.
        plain: the key alone may be used in a dict as it is.
    """

    __slots__ = ("decode_key", "encode_key", "plain", "suffix")

    def __init__(self, store: str, topic: str, serde: Serde[Any], suffix: struct.Struct) -> None:
        super().__init__(store, topic, serde)
        encode, decode = self.encode, self.decode
        self.encode_key, self.decode_key = encode, decode
        self.suffix = suffix
        self.plain = self.is_identity
        pack, unpack, length = suffix.pack, suffix.unpack_from, suffix.size

        def encode_all(key: Any) -> bytes:
            part, time, other = key
            return encode(part) + pack(time, other)

        def decode_all(data: bytes) -> Any:
            return decode(data[:-length]), *unpack(data, len(data) - length)

        self.encode = encode_all
        self.decode = decode_all
        if self.plain:
            self.pack = encode_all
        else:
            self.identify = lambda key: (encode(key[0]), key[1], key[2])
            self.pack = lambda identity: identity[0] + pack(identity[1], identity[2])
        # A cache's keys begin with the number of the segment.
        more = length + _SEGMENT_BYTES

        def size(identity: Any) -> int:
            part = identity[0]
            short = part.__class__ is bytes or part.isascii()
            return (len(part) if short else _text_size(part)) + more

        self.size = size

    def identity(self, key: Any) -> Any:
        """Return what the layers' dicts know ``key`` by.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        part = key[0]
        if self.plain and part.__class__ is str and part.isascii():
            return key  # nothing can fail
        try:
            data = self.encode_key(part)
        except Exception as error:
            raise self.error(key, error) from error
        return key if self.plain else (data, *key[1:])

    def error(self, key: Any, error: Exception) -> SerializationError:
        """Return the error for a key, with its time, that cannot be serialized."""
        return super().error(key[0], error)

    def part(self, key: Any) -> Any:
        """Return the first part of the identities of ``key``, a key alone.

        Raises:
            SerializationError: the key is null or its serde does not take it.
        """
        if self.plain and key.__class__ is str and key.isascii():
            return key
        return self.identity((key,))[0]

    def part_bytes(self, part: Any) -> bytes:
        """Return the bytes of the first part of an identity."""
        data: bytes = self.encode_key(part) if self.plain else part
        return data

    def key_of(self, identity: Any) -> Any:
        """Return the key of an identity."""
        return identity if self.plain else (self.decode_key(identity[0]), *identity[1:])


class WindowKeys(TimedKeys):
    """``(key, start, number)``: the key's bytes, int64, int32 (Kafka's ``WindowKeySchema``)."""

    __slots__ = ()

    def __init__(self, store: str, topic: str, serde: Serde[Any]) -> None:
        super().__init__(store, topic, serde, WINDOW_SUFFIX)


class SessionKeys(TimedKeys):
    """``(key, end, start)``: the key's bytes, int64, int64 (Kafka's ``SessionKeySchema``)."""

    __slots__ = ()

    def __init__(self, store: str, topic: str, serde: Serde[Any]) -> None:
        super().__init__(store, topic, serde, SESSION_SUFFIX)


_LAYOUTS: Final[Mapping[KeyLayout, Callable[[str, str, Serde[Any]], PlainKeys]]] = {
    KeyLayout.PLAIN: PlainKeys,
    KeyLayout.VERSIONED: PlainKeys,
    KeyLayout.WINDOW: WindowKeys,
    KeyLayout.SESSION: SessionKeys,
}


def keys_of(spec: StoreSpec, topic: str, serde: Serde[Any]) -> PlainKeys:
    """Return the keys of a store, laid out as its kind says.

    Args:
        spec: the store.
        topic: what serializers are bound to.
        serde: of the keys that users see.
    """
    return _LAYOUTS[spec.kind.key_layout](spec.name, topic, serde)


def suffix_bytes_of(spec: StoreSpec) -> int:
    """Return how many bytes lie behind the key itself, in a store of windows or sessions."""
    suffix = SESSION_SUFFIX if spec.kind.key_layout is KeyLayout.SESSION else WINDOW_SUFFIX
    return suffix.size
