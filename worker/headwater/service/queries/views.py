"""Read-only views of a store over all partitions that are here (IQv1: KIP-67, 535, 562).

A view is what a processor would get, without what writes. Each call is a request to the query
process; a store that has moved away since is a named error.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headwater.errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    StateStoreMigratedError,
    StreamsRebalancingError,
    UnknownStateStoreError,
)
from headwater.model.positions import Position
from headwater.model.queries import FailureReason
from headwater.model.storemeta import QueryableStoreType
from headwater.model.stores import KeyLayout, StoreKind
from headwater.native.queries.values import Standing, StoreRequest
from headwater.processor.environment import Current
from headwater.processor.headerstores import (
    ReadOnlySessionStoreWithHeaders,
    ReadOnlyTimestampedKeyValueStoreWithHeaders,
    ReadOnlyTimestampedWindowStoreWithHeaders,
)
from headwater.processor.stores import ReadOnlyKeyValueStore, ReadOnlyTimestampedKeyValueStore
from headwater.processor.versionedstore import ReadOnlyVersionedKeyValueStore
from headwater.processor.windowstores import (
    ReadOnlySessionStore,
    ReadOnlyTimestampedWindowStore,
    ReadOnlyWindowStore,
)
from headwater.state.asks import AllWindows, AsOf, Count, Get, Prefix, Range, Windows
from headwater.state.keys import SESSION_SUFFIX, WINDOW_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headwater.model.storemeta import StoreQueryParameters
    from headwater.native.queries.values import PartitionAnswer
    from headwater.service.queries.client import Asked, QueryClient
    from headwater.service.queries.forms import StoreForms
    from headwater.state.asks import Ask, Found

View: TypeAlias = (
    ReadOnlyKeyValueStore
    | ReadOnlyTimestampedKeyValueStore
    | ReadOnlyWindowStore
    | ReadOnlySessionStore
    | ReadOnlyVersionedKeyValueStore
    | ReadOnlyTimestampedKeyValueStoreWithHeaders
    | ReadOnlyTimestampedWindowStoreWithHeaders
    | ReadOnlySessionStoreWithHeaders
)


_TYPES: Final[Mapping[QueryableStoreType, tuple[StoreKind, type[View]]]] = {
    QueryableStoreType.KEY_VALUE: (StoreKind.KEY_VALUE, ReadOnlyKeyValueStore),
    QueryableStoreType.TIMESTAMPED_KEY_VALUE: (
        StoreKind.TIMESTAMPED_KEY_VALUE,
        ReadOnlyTimestampedKeyValueStore,
    ),
    QueryableStoreType.TIMESTAMPED_KEY_VALUE_WITH_HEADERS: (
        StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS,
        ReadOnlyTimestampedKeyValueStoreWithHeaders,
    ),
    QueryableStoreType.WINDOW: (StoreKind.WINDOW, ReadOnlyWindowStore),
    QueryableStoreType.TIMESTAMPED_WINDOW: (
        StoreKind.TIMESTAMPED_WINDOW,
        ReadOnlyTimestampedWindowStore,
    ),
    QueryableStoreType.TIMESTAMPED_WINDOW_WITH_HEADERS: (
        StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
        ReadOnlyTimestampedWindowStoreWithHeaders,
    ),
    QueryableStoreType.SESSION: (StoreKind.SESSION, ReadOnlySessionStore),
    QueryableStoreType.SESSION_WITH_HEADERS: (
        StoreKind.SESSION_WITH_HEADERS,
        ReadOnlySessionStoreWithHeaders,
    ),
    QueryableStoreType.VERSIONED: (StoreKind.VERSIONED, ReadOnlyVersionedKeyValueStore),
}
"""The kind as which a store is read: it has all of it, and may have more beside its values."""


def view_of(parameters: StoreQueryParameters, forms: StoreForms, client: QueryClient) -> View:
    """Return a view of a store.

    Args:
        parameters: which store, as which type, and of which partition.
        forms: of the store's keys and values.
        client: asks the worker's stores.

    Raises:
        UnknownStateStoreError: the store is of another type.
        StreamsStoppedError: the worker has ended.
        StreamsRebalancingError: a partition is being restored or moved; try again.
        StateStoreMigratedError: no partition asked for is here any more.
        InvalidStateStorePartitionError: the store has no such partition.
        InvalidStateStoreError: the store cannot be read now.
    """
    wanted, view = _TYPES[parameters.queryable_store_type]
    kind = forms.spec.kind
    if (
        kind.is_buffer
        or kind.holds_records
        or kind.key_layout is not wanted.key_layout
        or (wanted.timestamped and not kind.timestamped)
        or (wanted.keeps_headers and not kind.keeps_headers)
    ):
        raise UnknownStateStoreError(
            f"store {parameters.store_name} is no {parameters.queryable_store_type}: its kind is "
            f"{kind.described}; read it as that"
        )
    queried = QueriedStore(parameters, forms, client)
    queried.check()
    return view(queried, Current())  # type: ignore[arg-type]  # it is only read


class QueriedStore:
    """The reading half of ``ports.KeyValueStore`` and its kin, by requests."""

    def __init__(
        self, parameters: StoreQueryParameters, forms: StoreForms, client: QueryClient
    ) -> None:
        self.name = parameters.store_name
        self.window_size_ms = forms.spec.window_size_ms
        self._parameters = parameters
        self._forms = forms
        self._value = forms.value
        self._client = client

    def with_headers(self) -> QueriedStore:
        """Return what reads the same store: each value is an ``AggregationWithHeaders``."""
        reading = QueriedStore(self._parameters, self._forms, self._client)
        reading._value = self._forms.value_with_headers
        return reading

    def check(self) -> None:
        """Make sure that the store is here and can be read now.

        Raises:
            InvalidStateStoreError: it is not.
        """
        self._asked(Count())

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Return ``(value, timestamp)`` of a key, of a window or session with its times."""
        forms = self._forms
        layout = forms.spec.kind.key_layout
        if layout is KeyLayout.VERSIONED:
            return self._one(AsOf(forms.bytes_of(key)))
        if layout is KeyLayout.PLAIN:
            return self._one(Get(forms.bytes_of(key)))
        suffix = SESSION_SUFFIX if layout is KeyLayout.SESSION else WINDOW_SUFFIX
        return self._one(Get(forms.bytes_of(key[0]) + suffix.pack(*key[1:])))

    def get_as_of(self, key: Any, as_of: int) -> tuple[Any, int] | None:
        """Return value and time of the version that was valid at ``as_of``."""
        return self._one(AsOf(self._forms.bytes_of(key), as_of))

    def range(
        self, start: Any, end: Any, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any, int]]:
        """Iterate ``(key, value, timestamp)``, partition by partition, as Kafka Streams does."""
        return self._keyed(Range(self._bound(start), self._bound(end), reverse))

    def prefix_scan(
        self, prefix: Any, encode: Callable[[Any], bytes] | None = None
    ) -> Iterator[tuple[Any, Any, int]]:
        """Iterate ``(key, value, timestamp)`` of the keys that begin with ``prefix``."""
        data = self._forms.bytes_of(prefix) if encode is None else encode(prefix)
        return self._keyed(Prefix(data))

    def fetch(
        self, key: Any, first: int, last: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, int, Any, int]]:
        """Iterate ``(time, other, value, timestamp)`` of a key.

        Args:
            key: the key alone.
            first: smallest time.
            last: largest time, inclusive.
            reverse: the largest time first.

        Raises:
            SerializationError: the serde does not take the key.
            InvalidStateStoreError: the store cannot be read now.
        """
        rows = self._rows(Windows(self._forms.bytes_of(key), first, last, reverse))
        return ((row[3], row[4], self._value(row), row[2]) for row in rows)

    def fetch_all(
        self, first: int, last: int, *, low: Any = None, high: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Any, int, int, Any, int]]:
        """Iterate ``(key, time, other, value, timestamp)`` of all keys.

        Args:
            first: smallest time.
            last: largest time, inclusive.
            low: smallest key; ``None`` for no bound.
            high: largest key, inclusive; ``None`` for no bound.
            reverse: the other way round.

        Raises:
            SerializationError: the serde does not take a key.
            InvalidStateStoreError: the store cannot be read now.
        """
        forms = self._forms
        rows = self._rows(AllWindows(first, last, self._bound(low), self._bound(high), reverse))
        return ((forms.key_of(row[0]), row[3], row[4], self._value(row), row[2]) for row in rows)

    def approximate_num_entries(self) -> int:
        """About how many entries there are, in all partitions."""
        return sum(row[2] for row in self._rows(Count()))

    def _bound(self, key: Any) -> bytes | None:
        return None if key is None else self._forms.bytes_of(key)

    def _keyed(self, ask: Ask) -> Iterator[tuple[Any, Any, int]]:
        forms = self._forms
        return ((forms.key_of(row[0]), self._value(row), row[2]) for row in self._rows(ask))

    def _one(self, ask: Ask) -> tuple[Any, int] | None:
        row = next(self._rows(ask), None)
        return None if row is None else (self._value(row), row[2])

    def _rows(self, ask: Ask) -> Iterator[Found]:
        return chain.from_iterable(asked.rows for asked in self._asked(ask))

    def _asked(self, ask: Ask) -> list[Asked]:
        partition = self._parameters.partition
        request = StoreRequest(
            store=self.name,
            ask=ask,
            partitions=None if partition is None else frozenset({partition}),
            require_active=not self._parameters.is_stale_stores_enabled,
            bound=Position(),
        )
        found = self._client.ask(request)
        answered = [asked for asked in found if asked.answer.failure is None]
        if partition is None:
            # Java leaves standbys out; an active task that does not run is a reason to refuse.
            found = [asked for asked in found if asked.answer.failure is not None]
            refused = [asked for asked in found if not _is_copy(asked.answer)]
            if refused or not answered:
                raise _error_of(self.name, next(iter(refused or found), None))
        elif not answered:
            raise _error_of(self.name, found[0])
        return answered


def _is_copy(answer: PartitionAnswer) -> bool:
    """Whether a standby or warm-up task refused because an active one was required."""
    return answer.failure is FailureReason.NOT_ACTIVE and answer.standing is Standing.COPY


def _error_of(store: str, asked: Asked | None) -> InvalidStateStoreError:
    """Return the error of Kafka Streams for what is in the way."""
    if asked is None:
        return StateStoreMigratedError(
            f"store {store} has no partition here (any more); ask the metadata who has it"
        )
    answer: PartitionAnswer = asked.answer
    text = f"store {store}, partition {answer.partition}: {answer.message}"
    match answer.failure:
        case FailureReason.NOT_ACTIVE:
            return StreamsRebalancingError(text)
        case FailureReason.NOT_PRESENT:
            return StateStoreMigratedError(text)
        case FailureReason.DOES_NOT_EXIST:
            return InvalidStateStorePartitionError(text)
        case _:
            return InvalidStateStoreError(text)
