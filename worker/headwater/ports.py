"""What the data plane needs from outside, as small protocols.

Engines plug in real clients, stores and clocks.

Shapes on the hot path are plain tuples and positional arguments:

* ``RawRecord`` is ``(offset, timestamp, key, value, headers)`` as read from one partition,
  undecoded;
* a *forward* is a function ``(key, value, timestamp, headers)``; ``headers`` is ``None`` or a
  list of ``(name, bytes)``;
* a *send* is a function ``(key, value, timestamp, headers, partition)`` on bytes, bound to one
  topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from headwater.ids import TopicPartition

if TYPE_CHECKING:
    from headwater.errors import ProductionError

Headers: TypeAlias = "list[tuple[str, bytes | None]] | None"
RawRecord: TypeAlias = "tuple[int, int, bytes | None, bytes | None, Headers]"
Forward: TypeAlias = Callable[[Any, Any, int, Headers], None]
Send: TypeAlias = Callable[["bytes | None", "bytes | None", int, Headers, "int | None"], None]
Update: TypeAlias = Callable[[Any, Any, Any], Any]


class Unreadable(list["RawRecord"]):
    """A batch of one record of which only the place is known; it has neither key nor value.

    The client cannot unpack it, or must not: the deserialization handler is asked about it.

    Args:
        offset: the record's.
        reason: why, with the next step.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__([(offset, -1, None, None, None)])
        self.reason = reason


NOW: Final = 0
"""As the timestamp of what is sent: the time of sending. The client library says so by 0."""
NO_RECORD: Final[RawRecord] = (-1, -1, None, None, None)
"""Stands for the record under way where there is none."""
NOWHERE: Final = TopicPartition("", -1)


def counted(send: Send, count: Callable[[], int]) -> Send:
    """Let who measures ask a function that sends how often it was called, as ``send.count()``."""
    send.count = count  # type: ignore[attr-defined]
    return send


class UnderWay:
    """The record under way and where it was read. One per task, overwritten per record.

    A record cache keeps offset, source and headers with each change that waits in it, and puts
    them back while it forwards the change (Kafka's ``ProcessorRecordContext``); the record is then
    without its key and value.
    """

    __slots__ = ("record", "source")

    def __init__(self) -> None:
        self.record: RawRecord = NO_RECORD
        self.source = NOWHERE


class Clock(Protocol):
    """Wall-clock time, so that tests can turn it by hand."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class OnRefused(Protocol):
    """Decides about an output that cannot be delivered."""

    def __call__(
        self,
        error: ProductionError,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        """Return when the output is to be dropped.

        Raises:
            ProductionError: it is not to be.
        """
        ...


class RecordCollector(Protocol):
    """Where a task's output goes.

    One per StreamThread, shared by its tasks (Kafka's ``RecordCollector``).
    """

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return the function that sends to ``topic``; called once per sink, used per record.

        A ``partition`` of ``None`` leaves the choice to the murmur2 partitioner.

        Args:
            topic: by the broker's name.
            on_refused: called, while the record that led to it is under way, for each output that
                the client or a broker does not take. ``None``: such an output is an error.
        """
        ...

    def partitions(self, topic: str) -> int:
        """How many partitions ``topic`` has (for custom partitioners)."""
        ...


class Position(NamedTuple):
    """How much of its changelog a store holds, written in the same batch as the data."""

    topic_id: str
    """UUID of the changelog topic; another one means another topic of the same name."""
    offset: int
    """The next changelog offset to apply."""
    committed_at_ms: int
    """Wall-clock time of the last commit."""
    format: int = 1
    offsets: tuple[int, ...] = ()
    """Of a store made of a whole topic (a global one): the next offset of each partition."""
    read: bytes = b""
    """Up to where the input was read that made what the store holds, as ``wire.positions`` writes
    it; empty if that is unknown, as in a copy that follows a changelog."""
    stream_time: int = -1
    """Of a versioned store, in milliseconds; others know it otherwise."""


class Backend(Protocol):
    """Ordered bytes-to-bytes storage of one store: RocksDB or memory. Holds committed data only."""

    persistent: bool

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        ...

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate from ``start`` to ``end``, both inclusive, in byte order."""
        ...

    def write(
        self, entries: Iterable[tuple[bytes, bytes | None]], position: Position | None
    ) -> None:
        """Apply puts and deletes (``None``) and the position in one atomic batch.

        Raises:
            DiskFullError: nothing of the batch was applied.
        """
        ...

    def position(self) -> Position | None:
        """Return the stored position."""
        ...

    def flush_later(self) -> None:
        """Begin to write out what is buffered, so that ``close`` has little to do; may do nothing.

        Raises:
            StateError: it cannot be written.
        """
        ...

    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
        ...

    def close(self) -> None:
        """Release the files; another process may open them after this returns."""
        ...


ChangeContext: TypeAlias = "tuple[int, int, TopicPartition, Headers]"
"""Of a change that waits: its timestamp, where the record was read that made it, its headers."""


class TimeOrderedBuffer(Protocol):
    """What a suppression needs of its buffer, beside what any store has.

    Attributes:
        min_time: time of what leaves next; the largest int64 if nothing waits.
        size_bytes: what all that waits counts, as in Kafka Streams.
    """

    min_time: int
    size_bytes: int

    @property
    def count(self) -> int:
        """How many keys have a change that waits."""
        ...

    def load(self) -> None:
        """Find what was kept before; to be called before anything else, and after an abort."""
        ...

    def buffer(self, time: int, key: Any, change: tuple[Any, Any], context: ChangeContext) -> None:
        """Take in a change; one that waits already keeps its place."""
        ...

    def first(self) -> tuple[Any, tuple[Any, Any], ChangeContext]:
        """Return key, change and context of what leaves next."""
        ...

    def remove_first(self) -> None:
        """Take out what ``first`` has returned."""
        ...

    def prior(self, key: Any) -> tuple[bool, Any]:
        """Return whether a change of ``key`` waits, and the value from before its first one."""
        ...


class Timestamps:
    """Which timestamp an update stores (constants, not an enum: compared once at compile time)."""

    RECORD = "record"
    """The record's own: tables."""
    MAX = "max"
    """The larger of the record's and the stored one: aggregations."""


class KeyValueStore(Protocol):
    """A task's view of one key-value store: record cache over write-back layer over backend.

    Typed at the surface (serdes inside). Writes stay in memory until the task commits:
    ``flush_cache`` -> ``flush_changelog`` -> (Kafka commit) -> ``commit``. ``abort`` forgets all.
    """

    name: str
    caching: bool
    logging: bool
    evicts: bool
    """It keeps a number of entries, those put or looked up last."""

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Return ``(value, timestamp)``; the timestamp is -1 in a store without timestamps."""
        ...

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers = None) -> None:
        """Set ``key``; a value of ``None`` deletes.

        ``headers`` are for the changelog of a store whose kind logs them. It forwards nothing by
        itself unless the cache is on.
        """
        ...

    def with_headers(self) -> KeyValueStore:
        """Return what reads the same store, whose kind keeps headers, with them (KIP-1271)."""
        ...

    def put_if_absent(self, key: Any, value: Any, timestamp: int) -> tuple[Any, int] | None:
        """Set ``key`` if it has no value; return what it had, as ``get`` does."""
        ...

    def put_all(self, rows: Iterable[tuple[Any, Any, int]]) -> None:
        """Set several keys: ``(key, value, timestamp)``; a value of ``None`` deletes."""
        ...

    def delete(self, key: Any, timestamp: int) -> tuple[Any, int] | None:
        """Delete ``key``; return what it had, as ``get`` does."""
        ...

    def range(
        self, start: Any, end: Any, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any, int]]:
        """Iterate ``(key, value, timestamp)``, ordered by serialized key.

        From ``start`` to ``end``, both inclusive; ``None`` leaves a side open.
        """
        ...

    def prefix_scan(
        self, prefix: Any, encode: Callable[[Any], bytes] | None = None
    ) -> Iterator[tuple[Any, Any, int]]:
        """Iterate ``(key, value, timestamp)`` of the keys whose bytes begin with the prefix's.

        ``encode`` serializes the prefix; without it the store's key serde does.
        """
        ...

    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
        ...

    def num_keys(self) -> int:
        """Count the keys; of windows and sessions, each that is kept. All of it is read."""
        ...

    def follow(self, under_way: UnderWay) -> None:
        """Keep with each change that waits where the record under way was read.

        To be called before ``updater``.
        """
        ...

    def on_change(self, forward: Forward | None, *, send_old: bool) -> None:
        """Name the downstream node.

        With the cache on, flushed entries go there as ``(new, old)``.
        """
        ...

    def updater(
        self, step: Update | None, timestamps: str, initializer: Callable[[], Any] | None = None
    ) -> Forward:
        """Compile read-modify-write-forward into one function ``(key, value, timestamp, headers)``.

        ``step(key, value, old)`` gives the new value, ``None`` to delete; a ``step`` of ``None``
        means that the value itself replaces the old one (tables), which needs no read. With an
        ``initializer``, ``old`` of an absent key is what it returns. The change ``(new, old)``
        goes to ``on_change``'s node (to be named before) at once when the cache is off, at flush
        or eviction when it is on. ``old`` is ``None`` in the forwarded change unless
        ``send_old``. This is the hot path of every DSL aggregate and table.
        """
        ...

    def flush_cache(self) -> int:
        """Forward the changes of dirty cache entries downstream; return how many entries that were.

        From the ``flush_cache`` that begins a commit to ``commit`` nothing else may write to the
        store. A flush may write to a store that was flushed before: repeat over all stores until
        every one returns 0.
        """
        ...

    def flush_changelog(self) -> int:
        """Send every write not yet in the changelog; return how many records that were."""
        ...

    def seal(self) -> None:
        """Fix what ``commit`` writes, after both flushes; optional.

        From now on the store may be written to again, while the engine waits for the broker: that
        belongs to the next commit. Without a seal nothing may be written before ``commit``.
        """
        ...

    def commit(self, position: Position | None) -> None:
        """Write all uncommitted entries and the position to the backend in one batch.

        If ``seal`` was called, the entries written before it.
        """
        ...

    def abort(self, *, resend: bool = False) -> None:
        """Forget every uncommitted write.

        Args:
            resend: no transaction takes back what the changelog was sent, so send it what the
                store holds of the same keys with the next flush.
        """
        ...

    def uncommitted_bytes(self) -> int:
        """Memory held by writes that are not committed; a bound on it commits early."""
        ...

    def close(self) -> None:
        """Close the backend. Uncommitted writes are lost: commit first."""
        ...


class WaitingRecord(NamedTuple):
    """A record that waits in the buffer of a join, and where it was read."""

    value: Any
    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers


LATEST: Final = -1
"""A version without a following one (Kafka's ``PUT_RETURN_CODE_VALID_TO_UNDEFINED``)."""
NOT_PUT: Final = -(2**63)
"""A put that was too old (Kafka's ``PUT_RETURN_CODE_NOT_PUT``)."""


class NotLatest(tuple[Any, Any]):
    """The change ``(new, old)`` of a versioned table by a version that has a following one."""

    __slots__ = ()


class VersionedStore(KeyValueStore, Protocol):
    """A store that knows the values of the past, as far as its history retention goes.

    ``get`` gives the newest one. ``put`` adds a version, or replaces that of the same time.
    """

    on_expired: Callable[[], None]
    """Called with each put that is too old to be kept."""

    def get_as_of(self, key: Any, as_of: int) -> tuple[Any, int] | None:
        """Return value and time of the version that was valid at ``as_of``."""
        ...

    def put_version(self, key: Any, value: Any, timestamp: int) -> int:
        """As ``put``; return the time of the following version, ``LATEST`` or ``NOT_PUT``."""
        ...


class TimedStore(KeyValueStore, Protocol):
    """A store of windows or of sessions: its keys are ``(key, time, other)``.

    In a store of windows they are key, start and number among duplicates; in one of sessions key,
    end and start. What is older than the store's retention, by stream time, is never read.
    """

    window_size_ms: int
    on_expired: Callable[[], None]
    """Called with each put that is too old to be kept."""

    @property
    def stream_time(self) -> int:
        """The largest time of all puts, in milliseconds; -1 before the first."""
        ...

    def append(
        self, key: Any, start: int, value: Any, timestamp: int, headers: Headers = None
    ) -> None:
        """Set the value of a window, or add one where duplicates are retained.

        ``None`` deletes; where duplicates are retained, it does nothing. ``headers`` as in ``put``.
        """
        ...

    def fetch(
        self, key: Any, first: int, last: int, *, reverse: bool = False
    ) -> list[tuple[int, int, Any, int]]:
        """Return ``(time, other, value, timestamp)`` of a key, in the order of times.

        From time ``first`` to ``last``, both inclusive.
        """
        ...

    def fetch_all(
        self,
        first: int,
        last: int,
        *,
        low: Any = None,
        high: Any = None,
        reverse: bool = False,
    ) -> Iterator[tuple[Any, int, int, Any, int]]:
        """Iterate ``(key, time, other, value, timestamp)`` of all keys from ``low`` to ``high``.

        On disk segment by segment, each in the order of bytes; in memory by time, then by key. Both
        times and both keys are inclusive; a key of ``None`` leaves a side open.
        """
        ...

    def fetch_closed(self, first: int, last: int) -> list[tuple[Any, int, int, Any, int]]:
        """Return as ``fetch_all`` what is forwarded now because it has closed, by time and key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """What one task asks to be committed for one input partition."""

    partition: TopicPartition
    offset: int
    """The next offset to read."""
    metadata: str
    """Kafka Streams' base64 metadata with the partition time."""


class StateListener(Protocol):
    """Hears state changes of an application or worker."""

    def __call__(self, new: str, old: str) -> None:
        """Told after the fact, never on the per-record path."""
        ...


StoreMap: TypeAlias = Mapping[str, KeyValueStore]
Records: TypeAlias = Sequence[RawRecord]
