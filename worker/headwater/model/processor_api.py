"""The Processor API: what a user's processor is given, and records as it gives them.

(Kafka Streams' ``processor.api``, KIP-478, KIP-820.) The processors are in ``processors``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from headwater.ids import TaskId
    from headwater.model.durations import Duration
    from headwater.model.sensors import StreamsMetrics

Headers: TypeAlias = "list[tuple[str, bytes | None]] | None"

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")
KForward = TypeVar("KForward")
VForward = TypeVar("VForward")


class RecordMetadata(NamedTuple):
    """Where the record under way was read (Kafka's ``RecordMetadata``)."""

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """What a topic extractor is told besides key and value (Kafka's ``RecordContext``)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: Headers


@dataclass(slots=True)
class Record(Generic[K, V]):
    """A record between processors; change it with the ``with_`` methods only, it may be shared.

    ``timestamp`` is in milliseconds since the epoch, never negative.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers = None

    def with_key(self, key: KR) -> Record[KR, V]:
        """Return the same record with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: VR) -> Record[K, VR]:
        """Return the same record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Return the same record at another time, in milliseconds."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """Return the same record with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)


@dataclass(slots=True)
class FixedKeyRecord(Generic[K, V]):
    """A record whose key stays (Kafka's ``FixedKeyRecord``); it may be shared, as a ``Record``.

    The task makes it; what a processor forwards comes of it by the ``with_`` methods.
    """

    key: K
    value: V
    timestamp: int
    headers: Headers = None

    def with_value(self, value: VR) -> FixedKeyRecord[K, VR]:
        """Return the same record with another value."""
        return FixedKeyRecord(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> FixedKeyRecord[K, V]:
        """Return the same record at another time, in milliseconds."""
        return FixedKeyRecord(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> FixedKeyRecord[K, V]:
        """Return the same record with other headers."""
        return FixedKeyRecord(self.key, self.value, self.timestamp, headers)


class PunctuationType(StrEnum):
    """Which clock drives a punctuation."""

    STREAM_TIME = "stream-time"
    """The highest timestamp seen by the task."""
    WALL_CLOCK_TIME = "wall-clock-time"
    """The machine's clock."""


class Cancellable(Protocol):
    """A punctuation that can be stopped."""

    def cancel(self) -> None:
        """Stop it; calling twice does no harm."""
        ...


class ProcessingContext(Protocol):
    """What any processor may ask of its task (Kafka's ``ProcessingContext``)."""

    @property
    def task_id(self) -> TaskId:
        """The task in which the processor runs."""
        ...

    @property
    def application_id(self) -> str:
        """The application id."""
        ...

    @property
    def state_dir(self) -> str:
        """The configured state directory."""
        ...

    @property
    def metrics(self) -> StreamsMetrics:
        """The sensors of the StreamThread, to which a processor may add its own."""
        ...

    @property
    def key_serde(self) -> Any:
        """The configured ``default.key.serde``.

        Raises:
            ConfigError: it is not set.
        """
        ...

    @property
    def value_serde(self) -> Any:
        """The configured ``default.value.serde``.

        Raises:
            ConfigError: it is not set.
        """
        ...

    def app_configs(self) -> Mapping[str, object]:
        """Return the configuration as it was given, by the names in which it was given."""
        ...

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, object]:
        """Return what was given under names that begin with ``prefix``, which is cut off."""
        ...

    def schedule(
        self,
        interval: Duration,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_ms: datetime | int | None = None,
    ) -> Cancellable:
        """Call ``callback(timestamp_ms)`` every ``interval``; from ``init`` or ``process``.

        Stream time first fires at the first record; a jump over several intervals fires once.
        ``interval`` is a ``timedelta`` or whole milliseconds. ``start_ms`` is when to fire first,
        an aware ``datetime`` or milliseconds since the epoch (KIP-1146).

        Raises:
            TopologyError: the callback is an async or generator function, ``kind`` is no
                PunctuationType, the interval no duration, or the start no time.
            ValueError: the interval is not positive or the start is negative.
        """
        ...

    def get_state_store(self, name: str) -> Any:
        """Return the store ``name``, which must be connected to this processor.

        Raises:
            TopologyError: the store is not connected to this processor.
        """
        ...

    def commit(self) -> None:
        """Ask for a commit as soon as possible; it does not happen within this call."""
        ...

    def current_stream_time_ms(self) -> int:
        """Return the highest timestamp this task has seen, -1 before the first record."""
        ...

    def current_system_time_ms(self) -> int:
        """Return the wall-clock time, in milliseconds since the epoch."""
        ...

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the record under way was read; ``None`` if there has been none yet."""
        ...


class ProcessorContext(ProcessingContext, Protocol[KForward, VForward]):
    """What a processor may ask of its task (Kafka's ``ProcessorContext``)."""

    def forward(self, record: Record[KForward, VForward], child: str | None = None) -> None:
        """Hand ``record`` to every child, or only to the child node of that name.

        Raises:
            ValueError: there is no child of that name.
            ValueError: the timestamp is negative.
        """
        ...


class FixedKeyProcessorContext(ProcessingContext, Protocol[KForward, VForward]):
    """What a processor that keeps keys may ask of its task (Kafka's class of this name)."""

    def forward(self, record: FixedKeyRecord[KForward, VForward], child: str | None = None) -> None:
        """Hand ``record`` to every child, or only to the child node of that name.

        Raises:
            ValueError: there is no child of that name.
            ValueError: the timestamp is negative.
        """
        ...
