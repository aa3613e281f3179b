"""The Processor API: what a user's processor is given and gives.

(Kafka Streams' ``processor.api``, KIP-478, KIP-820).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from headwater.ids import TaskId

Headers: TypeAlias = "list[tuple[str, bytes | None]] | None"

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
K = TypeVar("K")
V = TypeVar("V")


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

    def with_key(self, key: Any) -> Record[Any, V]:
        """Return the same record with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> Record[K, Any]:
        """Return the same record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Return the same record at another time, in milliseconds."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """Return the same record with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)


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


class ProcessorContext(Protocol):
    """What a processor may ask of its task (Kafka's ``ProcessorContext``)."""

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

    def app_configs(self) -> Mapping[str, object]:
        """Return the configuration as it was given, by the names in which it was given."""
        ...

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand ``record`` to every child, or only to the child node of that name.

        Raises:
            TopologyError: there is no child of that name.
            ValueError: the timestamp is negative.
        """
        ...

    def schedule(
        self,
        interval_ms: int,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_ms: int | None = None,
    ) -> Cancellable:
        """Call ``callback(timestamp_ms)`` every ``interval_ms``; from ``init`` or ``process``.

        Stream time first fires at the first record; a jump over several intervals fires once.
        ``start_ms`` is when to fire first, in milliseconds since the epoch (KIP-1146).

        Raises:
            TopologyError: the callback is an async or generator function.
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


class Processor(ABC, Generic[KIn, VIn, KOut, VOut]):
    """One step of a topology in user code; every task has its own instance.

    ``context`` is there from ``init`` on.
    """

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Keep the context.

        An override calls ``super().init(context)`` first, then schedules and fetches stores.
        """
        self.context = context

    @abstractmethod
    def process(self, record: Record[KIn, VIn]) -> None:
        """Handle one record; results go to ``self.context.forward``."""

    def close(self) -> None:
        """Release what ``init`` took; stores are closed by the task."""


ProcessorSupplier: TypeAlias = Callable[[], Processor[KIn, VIn, KOut, VOut]]
"""Makes a new processor at each call; a ``Processor`` class that needs no arguments is one."""
