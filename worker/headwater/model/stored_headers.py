"""What stores with headers hold per key (KIP-1271)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from headwater.model.processor_api import Headers

V = TypeVar("V")


class ValueTimestampHeaders(NamedTuple, Generic[V]):
    """What a store with timestamps and headers holds (Kafka's class of this name).

    Attributes:
        value: the value.
        timestamp: in milliseconds since the epoch.
        headers: pairs of name and bytes; ``None`` if there are none.
    """

    value: V
    timestamp: int
    headers: Headers = None


class AggregationWithHeaders(NamedTuple, Generic[V]):
    """What a store of sessions with headers holds (Kafka's class of this name).

    Attributes:
        aggregation: the aggregate of the session.
        headers: pairs of name and bytes; ``None`` if there are none.
    """

    aggregation: V
    headers: Headers = None
