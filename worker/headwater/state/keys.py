"""How a store's keys become bytes and back: the layouts of keys.

The *identity* of a key is what the dicts of the layers know it by: the key itself where that is
safe and needs no bytes, else its bytes. Backends and changelogs know bytes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headwater.errors import SerializationError
from headwater.model.stores import KeyLayout
from headwater.serde.primitives import StringSerde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.stores import StoreSpec
    from headwater.serde import Serde


class PlainKeys:
    """Keys that lie in a store as their serde writes them.

    Attributes:
        is_identity: a key may be used in a dict as it is; only ``encode`` can tell whether it is
            legal.
        encode: from a key to its bytes; raises what the serde raises.
        decode: from bytes to the key.
    """

    __slots__ = ("_store", "_topic", "decode", "encode", "is_identity")

    def __init__(self, store: str, topic: str, serde: Serde[Any]) -> None:
        self._store = store
        self._topic = topic
        self.is_identity = type(serde) is StringSerde
        self.encode: Callable[[Any], bytes] = serde.serializer(topic)
        self.decode: Callable[[bytes], Any] = serde.deserializer(topic)

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
        data: bytes = self.encode(identity) if self.is_identity else identity
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


_LAYOUTS: Final[Mapping[KeyLayout, type[PlainKeys]]] = {KeyLayout.PLAIN: PlainKeys}


def keys_of(spec: StoreSpec, topic: str, serde: Serde[Any]) -> PlainKeys:
    """Return the keys of a store, laid out as its kind says.

    Args:
        spec: the store.
        topic: what serializers are bound to.
        serde: of the keys that users see.
    """
    return _LAYOUTS[spec.kind.key_layout](spec.name, topic, serde)
