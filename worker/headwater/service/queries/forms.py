"""From queries of users to questions in bytes, and from what is found to values. Pure.

One class of query, one line in a table: which stores know it, what they are asked, what the answer
becomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import QueryError, SerializationError
from headwater.model import queries
from headwater.model.durations import LONG_MAX
from headwater.model.queries import ResultOrder
from headwater.model.stored_headers import AggregationWithHeaders
from headwater.model.stores import KeyLayout
from headwater.model.windows import Window, Windowed
from headwater.processor.stores import ValueAndTimestamp
from headwater.processor.versionedstore import VersionedRecord
from headwater.service.queries.client import QueryIterator
from headwater.state.asks import AllWindows, AsOf, Get, Range, Versions, Windows
from headwater.wire.headers import decode_headers, end_of_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.stores import StoreSpec
    from headwater.serde import Serde
    from headwater.service.queries.client import Rows
    from headwater.state.asks import Ask, Found


class StoreForms:
    """The keys and values of one store.

    Args:
        spec: the store.
        key_serde: of its keys.
        value_serde: of its values.
        topic: the changelog, to which serdes are bound.
    """

    def __init__(
        self, spec: StoreSpec, key_serde: Serde[Any], value_serde: Serde[Any], topic: str
    ) -> None:
        self.spec = spec
        self.key_of: Callable[[bytes], Any] = key_serde.deserializer(topic)
        self._decode: Callable[[bytes], Any] = value_serde.deserializer(topic)
        self._encode: Callable[[Any], bytes] = key_serde.serializer(topic)

    def bytes_of(self, key: Any) -> bytes:
        """Return the bytes of a key.

        Raises:
            SerializationError: the serde does not take it.
        """
        try:
            return self._encode(key)
        except Exception as error:
            raise SerializationError(
                f"store {self.spec.name}: key {key!r:.200} ({type(key).__name__}) cannot be "
                f"serialized: {error}; ask with a key as the store has them"
            ) from error

    def value(self, row: Found) -> Any:
        """Return the value of a row."""
        data = row[1]
        if self.spec.kind.keeps_headers:
            data = data[end_of_headers(data) :]
        return self._decode(data)

    def value_with_headers(self, row: Found) -> AggregationWithHeaders[Any]:
        """Return the value of a row of a store that keeps headers, with these."""
        return AggregationWithHeaders(self.value(row), decode_headers(row[1]))

    def timed_value(self, row: Found) -> Any:
        """Return the value of a row, with its timestamp if the store has some."""
        value = self.value(row)
        return ValueAndTimestamp(value, row[2]) if self.spec.kind.timestamped else value

    def windowed(self, row: Found) -> Windowed[Any]:
        """Return the key of a row in its window, or as its session."""
        first, second = row[3], row[4]
        if self.spec.kind.key_layout is KeyLayout.SESSION:
            return Windowed(self.key_of(row[0]), Window(second, first))
        end = min(first + self.spec.window_size_ms, LONG_MAX)
        return Windowed(self.key_of(row[0]), Window(first, end))


class QueriedVersion(VersionedRecord):
    """A version as a query finds it.

    Attributes:
        valid_to: the time of the next version, exclusive; ``None`` for the newest.
    """

    valid_to: int | None

    @classmethod
    def of(cls, value: Any, timestamp: int, valid_to: int) -> QueriedVersion:
        """Return the version; ``valid_to`` is negative for the newest."""
        version = cls(value, timestamp)
        version.valid_to = None if valid_to < 0 else valid_to
        return version


@dataclass(frozen=True, slots=True)
class Form:
    """How one class of query is asked and answered.

    Attributes:
        knows: whether a store knows it.
        ask: the question.
        result: the answer of a partition.
    """

    knows: Callable[[StoreSpec, Any], bool]
    ask: Callable[[StoreForms, Any], Ask]
    result: Callable[[StoreForms, Rows], Any]


def form_of(query: object) -> Form:
    """Return how a query is asked and answered.

    Raises:
        QueryError: it is no query.
    """
    form = _FORMS.get(type(query))
    if form is None:
        known = ", ".join(kind.__name__ for kind in _FORMS)
        raise QueryError(f"{query!r:.200} is no query; there are {known}")
    return form


def _first(make: Callable[[StoreForms, Found], Any]) -> Callable[[StoreForms, Rows], Any]:
    return lambda forms, rows: next((make(forms, row) for row in rows), None)


def _each(make: Callable[[StoreForms, Found], Any]) -> Callable[[StoreForms, Rows], Any]:
    return lambda forms, rows: QueryIterator(rows, lambda row: make(forms, row))


def _plain(spec: StoreSpec, _: object) -> bool:
    return spec.kind.key_layout is KeyLayout.PLAIN


def _timestamped(spec: StoreSpec, _: object) -> bool:
    return spec.kind.key_layout is KeyLayout.PLAIN and spec.kind.timestamped


def _windows(spec: StoreSpec, _: object) -> bool:
    return spec.kind.key_layout is KeyLayout.WINDOW


def _versioned(spec: StoreSpec, _: object) -> bool:
    return spec.kind.versioned


def _knows_range(spec: StoreSpec, query: queries.WindowRangeQuery) -> bool:
    wanted = KeyLayout.WINDOW if query.key is None else KeyLayout.SESSION
    return spec.kind.key_layout is wanted


def _key(forms: StoreForms, query: queries.KeyQuery) -> Ask:
    return Get(forms.bytes_of(query.key))


def _range(forms: StoreForms, query: queries.RangeQuery) -> Ask:
    low = None if query.lower is None else forms.bytes_of(query.lower)
    high = None if query.upper is None else forms.bytes_of(query.upper)
    return Range(low, high, query.order is ResultOrder.DESCENDING)


def _window_key(forms: StoreForms, query: queries.WindowKeyQuery) -> Ask:
    return Windows(forms.bytes_of(query.key), query.time_from, query.time_to)


def _window_range(forms: StoreForms, query: queries.WindowRangeQuery) -> Ask:
    if query.key is not None:
        return Windows(forms.bytes_of(query.key), 0, LONG_MAX)
    return AllWindows(query.time_from or 0, LONG_MAX if query.time_to is None else query.time_to)


def _version(forms: StoreForms, query: queries.VersionedKeyQuery) -> Ask:
    return AsOf(forms.bytes_of(query.key), query.as_of_timestamp)


def _all_versions(forms: StoreForms, query: queries.MultiVersionedKeyQuery) -> Ask:
    return Versions(
        forms.bytes_of(query.key),
        query.from_timestamp or 0,
        LONG_MAX if query.to_timestamp is None else query.to_timestamp,
        query.order is ResultOrder.ASCENDING,
    )


def _queried_version(forms: StoreForms, row: Found) -> QueriedVersion:
    return QueriedVersion.of(forms.value(row), row[2], row[3])


_FORMS: Final[Mapping[type, Form]] = {
    queries.KeyQuery: Form(_plain, _key, _first(StoreForms.value)),
    queries.TimestampedKeyQuery: Form(_timestamped, _key, _first(StoreForms.timed_value)),
    queries.RangeQuery: Form(
        _plain, _range, _each(lambda forms, row: (forms.key_of(row[0]), forms.value(row)))
    ),
    queries.TimestampedRangeQuery: Form(
        _timestamped,
        _range,
        _each(lambda forms, row: (forms.key_of(row[0]), forms.timed_value(row))),
    ),
    queries.WindowKeyQuery: Form(
        _windows, _window_key, _each(lambda forms, row: (row[3], forms.timed_value(row)))
    ),
    queries.WindowRangeQuery: Form(
        _knows_range,
        _window_range,
        _each(lambda forms, row: (forms.windowed(row), forms.timed_value(row))),
    ),
    queries.VersionedKeyQuery: Form(_versioned, _version, _first(_queried_version)),
    queries.MultiVersionedKeyQuery: Form(_versioned, _all_versions, _each(_queried_version)),
}
