"""JSON, as plain values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable


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
