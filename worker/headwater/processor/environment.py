"""What the compiled nodes of one task share: its ports, the record under way, its counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from headwater.errors import TopologyError
from headwater.measuring.task import Measures, TaskMeasures
from headwater.ports import NO_RECORD, NOWHERE, UnderWay
from headwater.processor.resolving import serde_of
from headwater.processor.stages import Stages

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.ids import TaskId
    from headwater.model.stores import StoreKind, StoreSpec
    from headwater.ports import (
        Clock,
        Headers,
        KeyValueStore,
        RecordCollector,
        StoreMap,
        TimedStore,
        TimeOrderedBuffer,
    )
    from headwater.processor.failures import Failures
    from headwater.processor.punctuation import Punctuations
    from headwater.processor.resolving import Half
    from headwater.serde import Serde

Warn: TypeAlias = Callable[[str], None]
"""Receives one sentence about a dropped record or the like; the engine logs it."""
Late: TypeAlias = Callable[[int, str, int], None]
"""``late(timestamp, window, closed)``: a record's window, written ``[start,end)``, has closed.

It ends before ``closed``, in milliseconds as ``timestamp``.
"""


class Current(UnderWay):
    """Where the record under way was read, and what time it is. One per task.

    Inside a punctuation ``record`` is ``NO_RECORD``. Below a record cache that is flushed it is the
    one whose change is forwarded, without its key and value.
    """

    __slots__ = ("headers", "timestamp")

    def __init__(self) -> None:
        super().__init__()
        self.timestamp = -1
        """Time of the punctuation under way, or of the record given to a user's processor."""
        self.headers: Headers = None
        """Of the record given to a user's processor that has a store with headers."""

    def leave(self) -> None:
        """Say that no record is under way."""
        self.record, self.source = NO_RECORD, NOWHERE

    @property
    def offset(self) -> int:
        """Offset of the record under way, -1 if there is none."""
        return self.record[0]

    @property
    def source_topic(self) -> str | None:
        """Topic of the record under way, ``None`` if there is none."""
        return self.source.topic or None

    @property
    def source_partition(self) -> int:
        """Partition of the record under way, -1 if there is none."""
        return self.source.partition

    @property
    def read_at(self) -> str:
        """Where the record under way was read, as Kafka Streams logs it."""
        topic, partition = self.source
        return f"topic=[{topic or 'null'}] partition=[{partition}] offset=[{self.offset}]"


class Counters:
    """What happened in a task since it was created."""

    __slots__ = ("dead_letters", "dropped", "processed")

    def __init__(self) -> None:
        self.processed = 0
        """Records taken from the buffer, dropped ones included."""
        self.dropped = 0
        """Kafka's ``dropped-records``: null keys, handlers that said CONTINUE, and the like."""
        self.dead_letters = 0
        """Records that handlers have sent to dead-letter topics."""


class GlobalStore(NamedTuple):
    """A global store as the tasks of a process share it; they do not write to it."""

    store: KeyValueStore
    kind: StoreKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The surroundings of one task's nodes."""

    task_id: TaskId
    config: StreamsConfig
    collector: RecordCollector
    stores: StoreMap
    clock: Clock
    topic_name: Callable[[str], str]
    """From a topic of the topology to the broker's name: internal ones carry the application id."""
    current: Current
    counters: Counters
    failures: Failures
    punctuations: Punctuations
    request_commit: Callable[[], None]
    stream_time: Callable[[], int]
    kinds: Mapping[str, StoreKind]
    """What each store is."""
    warn: Warn
    processor_metadata: MutableMapping[str, int] = field(default_factory=dict)
    """What nodes commit with the offsets, by the names of their stores."""
    global_stores: Mapping[str, GlobalStore] = field(default_factory=dict)
    measures: TaskMeasures = field(default_factory=lambda: TaskMeasures(Measures.off(), ""))
    """What is measured of the task."""
    stages: Stages = field(default_factory=Stages)
    """The nodes where records wait."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What several nodes of the task have in common, by a name that only they know."""

    def global_store(self, name: str) -> KeyValueStore:
        """Return the global store ``name``.

        Raises:
            TopologyError: whoever runs the task has no such store.
        """
        if name not in self.global_stores:
            raise TopologyError(
                f"task {self.task_id} has no global store {name!r}: run the application by workers"
            )
        return self.global_stores[name].store

    def store(self, name: str) -> KeyValueStore:
        """Return the store ``name``.

        Raises:
            TopologyError: the sub-topology has no such store.
        """
        if name not in self.stores:
            raise TopologyError(
                f"task {self.task_id} has no store {name!r}; connect it to the processor"
            )
        return self.stores[name]

    def buffer(self, name: str) -> TimeOrderedBuffer:
        """Return the buffer ``name`` of a suppression.

        Raises:
            TopologyError: the sub-topology has no such store.
        """
        return cast("TimeOrderedBuffer", self.store(name))

    def count_expired(self, specs: Iterable[StoreSpec]) -> None:
        """Count and tell each put into a store that is older than what the store keeps."""
        for spec in specs:
            if spec.kind.expires or spec.kind.versioned:
                timed = cast("TimedStore", self.stores[spec.name])
                what = "put" if spec.kind.versioned else "segment"
                timed.on_expired = self.skipping(f"store {spec.name}", f"record for expired {what}")

    def serde(self, half: Half, given: Serde[Any] | None, node: str) -> Serde[Any]:
        """Return the serde given, or the default for ``half``.

        Raises:
            ConfigError: neither is there.
        """
        return serde_of(self.config, half, given, f"node {node}")

    def dropping(self) -> Callable[[], None]:
        """Return a function that counts one dropped record."""
        counters = self.counters

        def drop() -> None:
            counters.dropped += 1

        return drop

    def skipping(self, place: str, why: str) -> Callable[[], None]:
        """Return a function that counts one record that a node drops, and says so in the log.

        Args:
            place: the node or store, for the log.
            why: what Kafka Streams says after "Skipping", such as "record due to null key".
        """
        counters, current, warn = self.counters, self.current, self.warn
        whose = self.failures.whose

        def skip() -> None:
            counters.dropped += 1
            warn(f"{whose}, {place}: Skipping {why}. {current.read_at}")

        return skip

    def skipping_late(self, place: str, closing_ms: int) -> Late:
        """Return a function that counts one record whose window has closed, and logs it so.

        Args:
            place: the node, for the log.
            closing_ms: how far stream time is ahead of the windows that have closed.
        """
        counters, current, warn = self.counters, self.current, self.warn
        whose = self.failures.whose

        def late(timestamp: int, window: str, closed: int) -> None:
            counters.dropped += 1
            warn(
                f"{whose}, {place}: Skipping record for expired window. {current.read_at} "
                f"timestamp=[{timestamp}] window={window} expiration=[{closed}] "
                f"streamTime=[{closed + closing_ms}]"
            )

        return late
