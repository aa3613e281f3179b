"""What goes through the two topics of a join by foreign key.

    subscription  version byte | instruction byte | hash, 16 bytes | primary key | partition int32
    response      version byte | hash, 16 bytes | value of the right table

The version byte's highest bit says that there is no hash, because the left table's row is gone.
Subscriptions of version 0, before Kafka Streams 3.4, have no partition.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.errors import DeserializationError
from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.serde.base import SerdeGetter

HASH_BYTES: Final = 16
_NO_HASH: Final = 0x80
_SUBSCRIPTION_VERSION: Final = 1
_RESPONSE_VERSION: Final = 0
_PARTITION: Final = struct.Struct(">i")


class Instruction(IntEnum):
    """What the right side does with a subscription (``SubscriptionWrapper.Instruction``)."""

    DELETE_KEY_NO_PROPAGATE = 0
    """Take it away; say nothing."""
    DELETE_KEY_AND_PROPAGATE = 1
    """Take it away; answer that there is no value."""
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    """Store it; answer in any case."""
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3
    """Store it; answer if there is a value."""


class Subscription(NamedTuple):
    """A row of the left table asks for a foreign key (Kafka's ``SubscriptionWrapper``).

    Attributes:
        instruction: an :class:`Instruction`.
        hash: of the row's value; ``None`` for a row that is gone.
        primary_key: the row's key.
        partition: of the left table's task; ``None`` if it was written by version 0.
        version: of its layout.
    """

    instruction: int
    hash: bytes | None
    primary_key: Any
    partition: int | None
    version: int = _SUBSCRIPTION_VERSION


class SubscriptionResponse(NamedTuple):
    """What a subscription has found (Kafka's ``SubscriptionResponseWrapper``).

    Attributes:
        hash: as in the subscription.
        value: of the right table; ``None`` if it has none.
        partition: where to send it; it is not written.
    """

    hash: bytes | None
    value: Any
    partition: int | None = None


@dataclass(frozen=True, eq=False)
class SubscriptionSerde(Serde[Subscription]):
    """Subscriptions (Kafka's ``SubscriptionWrapperSerde``).

    Attributes:
        topic: the subscription topic, undecorated; the inner serde is told a topic called after it,
            wherever the subscription lies.
        primary_key: of primary keys; ``None`` for the default.
    """

    topic: str
    primary_key: Serde[Any] | None

    def with_defaults(self, defaults: SerdeGetter) -> SubscriptionSerde:
        """Return the serde with one of primary keys, and the topic as the broker knows it."""
        topic = f"{defaults.application_id}-{self.topic}"
        return SubscriptionSerde(topic, defaults.serde("key", self.primary_key, f"topic {topic}"))

    def serializer(self, topic: str) -> Callable[[Subscription], bytes]:
        """Return the encoder."""
        del topic
        encode_key, pack = self._inner().serializer(f"{self.topic}-pk"), _PARTITION.pack

        def serialize(value: Subscription) -> bytes:
            instruction, hashed, primary_key, partition, version = value
            first = version if hashed is not None else version | _NO_HASH
            end = pack(partition) if version else b""
            return bytes((first, instruction)) + (hashed or b"") + encode_key(primary_key) + end

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Subscription]:
        """Return the decoder; a DeserializationError for what is no subscription."""
        del topic
        decode_key, unpack = self._inner().deserializer(f"{self.topic}-pk"), _PARTITION.unpack_from

        def deserialize(data: bytes) -> Subscription:
            version = data[0] & ~_NO_HASH if data else -1
            start, hashed = 2, None
            if data and not data[0] & _NO_HASH:
                start += HASH_BYTES
                hashed = data[2:start]
            end = len(data) - _PARTITION.size if version else len(data)
            if not 0 <= version <= _SUBSCRIPTION_VERSION or end < start or data[1] not in _KNOWN:
                raise DeserializationError(f"{len(data)} bytes are no subscription of a join")
            partition = unpack(data, end)[0] if version else None
            return Subscription(data[1], hashed, decode_key(data[start:end]), partition, version)

        return deserialize

    def _inner(self) -> Serde[Any]:
        assert self.primary_key is not None, "with_defaults comes first"
        return self.primary_key


_KNOWN: Final = frozenset(Instruction)


@dataclass(frozen=True, eq=False)
class SubscriptionResponseSerde(Serde[SubscriptionResponse]):
    """Responses (Kafka's ``SubscriptionResponseWrapperSerde``).

    Attributes:
        value: of the right table's values; ``None`` for the default.
    """

    value: Serde[Any] | None

    def with_defaults(self, defaults: SerdeGetter) -> SubscriptionResponseSerde:
        """Return the serde with one of values."""
        return SubscriptionResponseSerde(defaults.serde("value", self.value, "a response topic"))

    def serializer(self, topic: str) -> Callable[[SubscriptionResponse], bytes]:
        """Return the encoder."""
        encode = self._inner().serializer(topic)

        def serialize(value: SubscriptionResponse) -> bytes:
            hashed, found, _ = value
            first = b"\x80" if hashed is None else b"\x00"
            return first + (hashed or b"") + (b"" if found is None else encode(found))

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], SubscriptionResponse]:
        """Return the decoder; as in Java a value of no bytes is null.

        It raises a DeserializationError for what is no response.
        """
        decode = self._inner().deserializer(topic)

        def deserialize(data: bytes) -> SubscriptionResponse:
            start, hashed = 1, None
            if data and not data[0] & _NO_HASH:
                start += HASH_BYTES
                hashed = data[1:start]
            if len(data) < start or data[0] & ~_NO_HASH != _RESPONSE_VERSION:
                raise DeserializationError(f"{len(data)} bytes are no response of a join")
            found = decode(data[start:]) if len(data) > start else None
            return SubscriptionResponse(hashed, found)

        return deserialize

    def _inner(self) -> Serde[Any]:
        assert self.value is not None, "with_defaults comes first"
        return self.value
