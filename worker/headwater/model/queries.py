"""Questions to state stores and their answers, as Kafka Streams' interactive queries name them.

    StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("a")).require_active()

``KafkaStreams.query`` takes such a request and returns a ``StateQueryResult`` with one
``QueryResult`` for each partition (IQv2: KIP-796, 805, 806, 960, 968, 985, 992).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from headwater.errors import QueryError, QueryFailedError
from headwater.model.durations import LONG_MAX, epoch_millis
from headwater.model.positions import Position, PositionBound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    Time: TypeAlias = "int | datetime"

R = TypeVar("R")


class FailureReason(StrEnum):
    """Why a partition gave no answer (Kafka's ``FailureReason``)."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """The store does not know such a query."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """An active, running task was required, and this one is not."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """The contents have not reached the bound yet: try again, or elsewhere."""
    NOT_PRESENT = "NOT_PRESENT"
    """The partition is not here: it moved, or is with another worker."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """There is no such partition."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """The store could not be read."""


class ResultOrder(StrEnum):
    """The order of what a query returns (Kafka's ``ResultOrder``)."""

    ANY = "any"
    ASCENDING = "ascending"
    DESCENDING = "descending"


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """The value of a key; in a store with timestamps without its timestamp.

    Attributes:
        key: a key of the store.
        is_skip_cache: kept for Java's sake; only what is committed is ever read.
    """

    key: Any
    is_skip_cache: bool = False

    @classmethod
    def with_key(cls, key: Any) -> KeyQuery:
        """Return the query for a key.

        Raises:
            QueryError: it is ``None``.
        """
        return cls(_given(key))

    def skip_cache(self) -> KeyQuery:
        """Return this query, past the record cache, as all of ours are."""
        return replace(self, is_skip_cache=True)


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery(KeyQuery):
    """The value of a key with its timestamp, as a ``ValueAndTimestamp``."""

    @classmethod
    def with_key(cls, key: Any) -> TimestampedKeyQuery:
        """Return the query for a key.

        Raises:
            QueryError: it is ``None``.
        """
        return cls(_given(key))


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """The keys from ``lower`` to ``upper``, both inclusive, with their values.

    Attributes:
        lower: the smallest key; ``None`` for no bound.
        upper: the largest key; ``None`` for no bound.
        order: by the bytes of keys; ``ANY`` is ascending.
    """

    lower: Any = None
    upper: Any = None
    order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_range(cls, lower: Any, upper: Any) -> RangeQuery:
        """Return the query for keys between two, both inclusive; ``None`` leaves a side open."""
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: Any) -> RangeQuery:
        """Return the query for a key and all behind it."""
        return cls(lower)

    @classmethod
    def with_upper_bound(cls, upper: Any) -> RangeQuery:
        """Return the query for a key and all before it."""
        return cls(None, upper)

    @classmethod
    def with_no_bounds(cls) -> RangeQuery:
        """Return the query for all keys."""
        return cls()

    def with_ascending_keys(self) -> RangeQuery:
        """Return this query, the smallest key first."""
        return replace(self, order=ResultOrder.ASCENDING)

    def with_descending_keys(self) -> RangeQuery:
        """Return this query, the largest key first."""
        return replace(self, order=ResultOrder.DESCENDING)


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery(RangeQuery):
    """As ``RangeQuery``, each value with its timestamp, as a ``ValueAndTimestamp``."""


@dataclass(frozen=True, slots=True)
class WindowKeyQuery:
    """The windows of a key whose starts lie between two times, both inclusive.

    Attributes:
        key: a key of the store.
        time_from: milliseconds since the epoch.
        time_to: milliseconds since the epoch.
    """

    key: Any
    time_from: int
    time_to: int

    @classmethod
    def with_key_and_window_start_range(
        cls, key: Any, time_from: Time, time_to: Time
    ) -> WindowKeyQuery:
        """Return the query.

        Raises:
            QueryError: the key is ``None``.
        """
        return cls(_given(key), _millis(time_from), _millis(time_to))


@dataclass(frozen=True, slots=True)
class WindowRangeQuery:
    """The windows of all keys by their starts, or the sessions of one key.

    Attributes:
        key: of sessions.
        time_from: of windows; milliseconds since the epoch.
        time_to: of windows; milliseconds since the epoch.
    """

    key: Any = None
    time_from: int | None = None
    time_to: int | None = None

    @classmethod
    def with_key(cls, key: Any) -> WindowRangeQuery:
        """Return the query for all sessions of a key.

        Raises:
            QueryError: it is ``None``.
        """
        return cls(key=_given(key))

    @classmethod
    def with_window_start_range(cls, time_from: Time, time_to: Time) -> WindowRangeQuery:
        """Return the query for the windows of all keys that start between, both inclusive."""
        return cls(time_from=_millis(time_from), time_to=_millis(time_to))


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery:
    """The version of a key that was valid at a time; the newest unless one is named.

    Attributes:
        key: a key of the store.
        as_of_timestamp: milliseconds since the epoch.
    """

    key: Any
    as_of_timestamp: int | None = None

    @classmethod
    def with_key(cls, key: Any) -> VersionedKeyQuery:
        """Return the query for the newest version of a key.

        Raises:
            QueryError: it is ``None``.
        """
        return cls(_given(key))

    def as_of(self, time: Time) -> VersionedKeyQuery:
        """Return the query for the version that was valid at ``time``."""
        return replace(self, as_of_timestamp=_millis(time))


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery:
    """The versions of a key that were valid some time between two times.

    Attributes:
        key: a key of the store.
        from_timestamp: milliseconds since the epoch; ``None`` for no bound.
        to_timestamp: milliseconds since the epoch; ``None`` for no bound.
        order: of timestamps; ``ANY`` is descending.
    """

    key: Any
    from_timestamp: int | None = None
    to_timestamp: int | None = None
    order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_key(cls, key: Any) -> MultiVersionedKeyQuery:
        """Return the query for all versions of a key.

        Raises:
            QueryError: it is ``None``.
        """
        return cls(_given(key))

    def from_time(self, time: Time) -> MultiVersionedKeyQuery:
        """Return this query without versions that were replaced by ``time``."""
        return replace(self, from_timestamp=_millis(time))

    def to_time(self, time: Time) -> MultiVersionedKeyQuery:
        """Return this query without versions that are later than ``time``."""
        return replace(self, to_timestamp=_millis(time))

    def with_ascending_timestamps(self) -> MultiVersionedKeyQuery:
        """Return this query, the oldest version first."""
        return replace(self, order=ResultOrder.ASCENDING)

    def with_descending_timestamps(self) -> MultiVersionedKeyQuery:
        """Return this query, the newest version first."""
        return replace(self, order=ResultOrder.DESCENDING)


Query: TypeAlias = (
    "KeyQuery | TimestampedKeyQuery | RangeQuery | TimestampedRangeQuery | WindowKeyQuery "
    "| WindowRangeQuery | VersionedKeyQuery | MultiVersionedKeyQuery"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQueryRequest:
    """A query for partitions of a store; begin with ``in_store``.

    Attributes:
        store_name: the store.
        query: what is asked; set by ``with_query``.
        partitions: only these; ``None`` for all that are here.
        is_require_active: only partitions whose active task runs here.
        position_bound: what an answer must have reached.
        is_execution_info: results say how they came about.
    """

    store_name: str
    query: Any = None
    partitions: frozenset[int] | None = None
    is_require_active: bool = False
    position_bound: PositionBound = field(default_factory=PositionBound.unbounded)
    is_execution_info: bool = False

    @classmethod
    def in_store(cls, name: str) -> StateQueryRequest:
        """Return a request for a store, which lacks a query."""
        return cls(store_name=name)

    def with_query(self, query: Query) -> StateQueryRequest:
        """Return the request with this query."""
        return replace(self, query=query)

    def with_all_partitions(self) -> StateQueryRequest:
        """Return the request for every partition that is here, as without a word."""
        return replace(self, partitions=None)

    def with_partitions(self, partitions: Iterable[int]) -> StateQueryRequest:
        """Return the request for these partitions; one that is not here is ``NOT_PRESENT``."""
        return replace(self, partitions=frozenset(partitions))

    def require_active(self) -> StateQueryRequest:
        """Return the request for active tasks that run, and no others."""
        return replace(self, is_require_active=True)

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest:
        """Return the request for contents that have reached ``bound``."""
        return replace(self, position_bound=bound)

    def enable_execution_info(self) -> StateQueryRequest:
        """Return the request; its results say how they came about."""
        return replace(self, is_execution_info=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Generic[R]):
    """What one partition answers (Kafka's ``QueryResult``).

    Attributes:
        position: of the contents that were read.
        failure_reason: why there is no answer; ``None`` if there is one.
        failure_message: the same for people.
        execution_info: how it came about, if that was asked for.
    """

    position: Position
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    execution_info: tuple[str, ...] = ()
    value: R | None = None

    @property
    def is_success(self) -> bool:
        """Whether there is an answer."""
        return self.failure_reason is None

    @property
    def is_failure(self) -> bool:
        """Whether there is none."""
        return self.failure_reason is not None

    @property
    def result(self) -> R:
        """The answer; of a key that the store lacks, ``None``.

        Raises:
            QueryFailedError: there is none.
        """
        if self.failure_reason is not None:
            raise QueryFailedError(f"{self.failure_reason}: {self.failure_message}")
        return self.value  # type: ignore[return-value]  # None is an answer, too


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQueryResult(Generic[R]):
    """What all partitions answer (Kafka's ``StateQueryResult``).

    Attributes:
        partition_results: by partition.
        global_result: of a global store, which this kind of query does not read.
    """

    partition_results: Mapping[int, QueryResult[R]]
    global_result: QueryResult[R] | None = None

    @property
    def position(self) -> Position:
        """What all answers have reached; bound the next query by it, to go no step back."""
        merged = Position()
        for result in self.partition_results.values():
            merged = merged.merge(result.position)
        return merged

    @property
    def only_partition_result(self) -> QueryResult[R] | None:
        """The one result with an answer that is not ``None``; ``None`` without one.

        Raises:
            QueryError: there are several.
        """
        found = [
            result
            for result in self.partition_results.values()
            if result.is_success and result.value is not None
        ]
        if len(found) > 1:
            raise QueryError(
                f"only_partition_result: {len(found)} partitions have an answer; look at "
                "partition_results, or name one partition"
            )
        return found[0] if found else None


def _given(key: Any) -> Any:
    if key is None:
        raise QueryError("the key of a query is None: a store has no such key; give another")
    return key


def _millis(time: Time) -> int:
    return min(time, LONG_MAX) if isinstance(time, int) else epoch_millis("a query's time", time)
