"""Values of a store with headers (KIP-1271), as bytes.

    value and headers    the stored form of the layers in memory: headers, then the value's bytes
    row                  headers | timestamp int64 | value, of sessions without the timestamp

The row is Kafka's ``ValueTimestampHeaders``, of sessions its ``AggregationWithHeaders``.
``wire/headers.py`` has the bytes of headers. The changelog has the value's bytes alone, with the
timestamp and the headers as the record's.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from headwater.errors import SerializationError
from headwater.model.given_headers import check_headers
from headwater.model.stored_headers import AggregationWithHeaders
from headwater.state.codec import StoreCodec
from headwater.wire.headers import (
    NO_HEADERS,
    decode_headers,
    encode_headers,
    end_of_headers,
    insert_timestamp,
    take_timestamp,
)

if TYPE_CHECKING:
    from headwater.model.stores import StoreKind, StoreSpec
    from headwater.ports import Headers
    from headwater.serde import Serde


def to_row(kind: StoreKind, stored: bytes, timestamp: int) -> bytes:
    """Return the row of a stored form.

    Raises:
        DeserializationError: it does not begin with headers.
    """
    return insert_timestamp(stored, timestamp) if kind.timestamped else stored


def from_row(kind: StoreKind, row: bytes) -> tuple[bytes, int]:
    """Return the stored form of a row, and its timestamp; -1 in a store without them.

    Raises:
        DeserializationError: the row does not begin with headers.
    """
    return take_timestamp(row) if kind.timestamped else (row, -1)


def value_bytes(stored: bytes) -> bytes:
    """Return the value's bytes of a stored form.

    Raises:
        DeserializationError: it does not begin with headers.
    """
    return stored[end_of_headers(stored) :]


class HeadersCodec(StoreCodec):
    """The serdes of a store with headers.

    A value that is given alone has no headers; one with headers is an ``AggregationWithHeaders``,
    whatever the kind of the store. Values are read alone, unless ``showing_headers`` was asked for.
    """

    __slots__ = ("_kind", "_shows_headers")

    def __init__(
        self, spec: StoreSpec, topic: str, key_serde: Serde[Any], value_serde: Serde[Any]
    ) -> None:
        super().__init__(spec, topic, key_serde, value_serde)
        self.keep_bytes()
        self._kind = spec.kind
        self._shows_headers = False

    def showing_headers(self) -> HeadersCodec:
        """Return the same, whose values are read as ``AggregationWithHeaders``."""
        shown = copy(self)
        shown._shows_headers = True  # noqa: SLF001 - a copy of itself
        return shown

    def to_stored(self, value: Any) -> bytes:
        """Return headers and value as bytes.

        Raises:
            SerializationError: the value's serde does not take it, or headers are no pairs of name
                and bytes.
        """
        front = NO_HEADERS
        if value.__class__ is AggregationWithHeaders:
            front, value = self._front(value.headers), value.aggregation
        try:
            return front + self.serialize(value)
        except Exception as error:
            raise self.value_error(value, error) from error

    def _front(self, headers: Headers) -> bytes:
        try:
            return encode_headers(headers)
        except Exception as error:
            check_headers(f"store {self.store}", headers)
            raise SerializationError(
                f"store {self.store}: headers {headers!r:.200} cannot be serialized: {error}; give "
                "a list of pairs of name and bytes"
            ) from error

    def to_value(self, stored: Any) -> Any:
        """Return the value of a stored form; ``None`` stays ``None``."""
        if stored is None:
            return None
        value = self._decode(value_bytes(stored))
        return (
            AggregationWithHeaders(value, decode_headers(stored)) if self._shows_headers else value
        )

    def stored_of(self, data: bytes) -> bytes:
        """Return the stored form of the bytes of a value without headers."""
        return NO_HEADERS + data

    def to_row(self, stored: Any, timestamp: int) -> bytes | None:
        """Return what the backend keeps; ``None`` (a deletion) stays ``None``."""
        return None if stored is None else to_row(self._kind, stored, timestamp)

    def from_row(self, row: bytes) -> tuple[Any, int]:
        """Return ``(stored, timestamp)`` of a row; the timestamp is -1 in a store without them."""
        return from_row(self._kind, row)

    def logged(self, stored: bytes) -> tuple[bytes, Headers]:
        """Return what the changelog gets of a stored form: the value's bytes, and its headers."""
        return value_bytes(stored), decode_headers(stored)
