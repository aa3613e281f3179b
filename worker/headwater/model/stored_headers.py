"""What stores with headers hold per key (KIP-1271)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from headwater.model.processor_api import Headers


class ValueTimestampHeaders(NamedTuple):
    """What a store with timestamps and headers holds (Kafka's class of this name).

    Attributes:
        value: the value.
        timestamp: in milliseconds since the epoch.
        headers: pairs of name and bytes; ``None`` if there are none.
    """

    value: Any
    timestamp: int
    headers: Headers = None


class AggregationWithHeaders(NamedTuple):
    """What a store of sessions with headers holds (Kafka's class of this name).

    Attributes:
        aggregation: the aggregate of the session.
        headers: pairs of name and bytes; ``None`` if there are none.
    """

    aggregation: Any
    headers: Headers = None
