"""How one store's values become bytes, and which may be kept decoded between records.

Three shapes of a value:

* the *value* that user code sees;
* what the layers in memory keep, the *stored* form: the value itself if its serde says
  ``immutable``, else its bytes, because user code may change a mutable value in place;
* the *row* in the backend: ``timestamp int64 ‖ bytes`` in a store with timestamps, else the bytes.

The changelog carries the bytes, with the timestamp as the record's. Keys are in ``keys``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import DeserializationError, SerializationError
from headwater.serde.primitives import BytesSerde, DoubleSerde, IntegerSerde, LongSerde, StringSerde
from headwater.state.keys import keys_of
from headwater.wire.buffer import CHANGELOG_HEADERS, size_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.stores import StoreSpec
    from headwater.serde import Serde

_TIMESTAMP: Final = struct.Struct(">q")
_pack_timestamp: Final = _TIMESTAMP.pack
_TIMESTAMP_BYTES: Final = 8

# Values of exactly this class need no trial serialization when they are put, if they also fit
# (``_FITS``): a whole number may be out of range, a text may hold lone surrogates.
_EXACT: Final[dict[type, type]] = {
    LongSerde: int,
    DoubleSerde: float,
    StringSerde: str,
    BytesSerde: bytes,
}
_FIXED_BYTES: Final[dict[type, int]] = {LongSerde: 8, DoubleSerde: 8, IntegerSerde: 4}
_TIMED_ROWS: Final[dict[type, struct.Struct]] = {
    LongSerde: struct.Struct(">qq"),
    DoubleSerde: struct.Struct(">qd"),
    IntegerSerde: struct.Struct(">qi"),
}
"""Rows of fixed length in a store with timestamps: both numbers at once."""


_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1
_INFINITY: Final = float("inf")


def _fits_long(value: int) -> bool:
    return _LONG_MIN <= value <= _LONG_MAX


_FITS: Final[dict[type, Callable[[Any], bool]]] = {LongSerde: _fits_long, StringSerde: str.isascii}
"""Says quickly of most values that they can be serialized; of the rest, a trial does."""


def _fits_all(_value: Any) -> bool:
    return True


class _NoExactClass:
    """No class is known to be safe: every value goes through its serializer."""


class StoreCodec:
    """The serdes of one store, bound to its changelog topic.

    Attributes:
        keys: how its keys become bytes.
        expires: the store is one of windows or sessions.
        immutable: values may be kept decoded.
        exact: the class of value that needs no trial serialization, if it fits.
        limits: the smallest and the largest number of that class which fit; of a class that has
            no numbers, they mean nothing.
        keeps_headers: headers lie beside values; it is a ``HeadersCodec``.
        logs_headers: changelog records carry the headers of what made them.
        value_headers: those that every changelog record of a value has.
        logs_times: changelog records have the timestamps of what made them.
        fixed_bytes: length of every serialized value, or ``None`` if it varies.
        row_overhead: bytes of a row beside its value.
    """

    __slots__ = (
        "_deserialize",
        "_fits",
        "_is_buffer",
        "_key_size",
        "_timed_row",
        "exact",
        "expires",
        "fixed_bytes",
        "immutable",
        "keeps_headers",
        "keys",
        "limits",
        "logs_headers",
        "logs_times",
        "row_overhead",
        "serialize",
        "store",
        "timestamped",
        "topic",
        "value_headers",
    )

    def __init__(
        self, spec: StoreSpec, topic: str, key_serde: Serde[Any], value_serde: Serde[Any]
    ) -> None:
        self.store = spec.name
        self.topic = topic
        self.timestamped = spec.kind.timestamped
        self.expires = spec.kind.expires
        self.keeps_headers = spec.kind.keeps_headers
        self.logs_headers = spec.kind.logs_headers
        self.logs_times = not (spec.kind.is_buffer or spec.kind.holds_records)
        self.value_headers = CHANGELOG_HEADERS if spec.kind.is_buffer else None
        self._is_buffer = spec.kind.is_buffer
        self.keys = keys_of(spec, topic, key_serde)
        self._key_size = self.keys.size
        self.serialize: Callable[[Any], bytes] = value_serde.serializer(topic)
        self._deserialize: Callable[[bytes], Any] = value_serde.deserializer(topic)
        self.immutable = value_serde.immutable
        self.exact = (
            _EXACT.get(type(value_serde), _NoExactClass) if self.immutable else _NoExactClass
        )
        self._fits = _FITS.get(type(value_serde), _fits_all)
        self.limits: tuple[float, float] = (
            (_LONG_MIN, _LONG_MAX) if self.exact is int else (-_INFINITY, _INFINITY)
        )
        self.fixed_bytes = _FIXED_BYTES.get(type(value_serde)) if self.immutable else None
        self.row_overhead = _TIMESTAMP_BYTES if self.timestamped else 0
        self._timed_row = _TIMED_ROWS.get(type(value_serde)) if self.timestamped else None

    def keep_bytes(self) -> None:
        """Let the layers in memory keep bytes, whatever the serde."""
        self.immutable = False
        self.exact = _NoExactClass
        self.fixed_bytes = None
        self._timed_row = None

    def to_stored(self, value: Any) -> Any:
        """Return the stored form of a value that is not ``None``.

        Raises:
            SerializationError: the value's serde does not take it.
        """
        if value.__class__ is self.exact and self._fits(value):
            return value
        try:
            data = self.serialize(value)
            if not self.immutable:
                return data
            if value.__class__ is self.exact:
                return value
            # A serde may take more than it gives back (1 for 1.0): keep what a restart would read.
            return value if self.exact is _NoExactClass else self._deserialize(data)
        except Exception as error:
            raise self.value_error(value, error) from error

    def to_value(self, stored: Any) -> Any:
        """Return the value of a stored form; ``None`` stays ``None``."""
        return stored if self.immutable or stored is None else self._decode(stored)

    def stored_of(self, data: bytes) -> Any:
        """Return the stored form of a value's bytes."""
        return self._decode(data) if self.immutable else data

    def to_row(self, stored: Any, timestamp: int) -> bytes | None:
        """Return what the backend keeps; ``None`` (a deletion) stays ``None``.

        Raises:
            SerializationError: a number is out of range or a text has lone surrogates.
        """
        if stored is None:
            return None
        try:
            if self._timed_row is not None:
                return self._timed_row.pack(timestamp, stored)
            data: bytes = self.serialize(stored) if self.immutable else stored
        except Exception as error:
            raise self.value_error(stored, error) from error
        return _pack_timestamp(timestamp) + data if self.timestamped else data

    def from_row(self, row: bytes) -> tuple[Any, int]:
        """Return ``(stored, timestamp)`` of a row; the timestamp is -1 in a store without them."""
        layout = self._timed_row
        if layout is not None and len(row) == layout.size:
            timestamp, stored = layout.unpack(row)
            return stored, timestamp
        if not self.timestamped:
            return (self._decode(row) if self.immutable else row), -1
        data = row[_TIMESTAMP_BYTES:]
        return (self._decode(data) if self.immutable else data), _TIMESTAMP.unpack_from(row)[0]

    def size(self, identity: Any, stored: Any) -> int:
        """Return the bytes of key and row, as Kafka Streams counts them for a cache's limit."""
        key = self._key_size(identity)
        if stored is None:
            return key
        fixed = self.fixed_bytes
        if fixed is not None:
            return key + self.row_overhead + fixed
        if self._is_buffer:  # no record cache counts these: about as much will do
            return key + size_bytes(b"", stored)
        return key + self.row_overhead + self._value_size(stored)

    def _value_size(self, stored: Any) -> int:
        if not self.immutable or self.exact is bytes:
            return len(stored)
        if self.exact is str:
            return len(stored) if stored.isascii() else len(stored.encode("utf-8", "surrogatepass"))
        return len(self.serialize(stored))

    def value_error(self, value: Any, error: Exception) -> SerializationError:
        """Return the error for a value that cannot be serialized."""
        return SerializationError(
            f"store {self.store}: value {value!r:.200} ({type(value).__name__}) cannot be "
            f"serialized for {self.topic}: {error}; give the store a value serde that fits"
        )

    def _decode(self, data: bytes) -> Any:
        try:
            return self._deserialize(data)
        except Exception as error:
            raise DeserializationError(
                f"store {self.store} holds a value that its serde cannot read ({error}); if the "
                f"serde was changed, reset the application or give the store a new name"
            ) from error
