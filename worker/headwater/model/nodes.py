"""The parts of a topology: nodes, and the sub-topologies they form with their stores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.offset_reset import OffsetReset
    from headwater.model.operators.base import Operator
    from headwater.model.stores import SerdeLike, StoreSpec

_FLAGS: Final = {re.IGNORECASE: "i", re.ASCII: "a", re.DOTALL: "s", re.VERBOSE: "x"}

TimestampExtractorLike: TypeAlias = "Callable[..., int] | str"
"""A function ``(record, partition_time)``, a built-in extractor's name or ``"module:function"``."""


class TimestampExtractors(StrEnum):
    """The built-in timestamp extractors, by the names that a configuration has for them."""

    FAIL_ON_INVALID = "fail-on-invalid"
    """The record's timestamp; a negative one is an error (``FailOnInvalidTimestamp``)."""
    LOG_AND_SKIP_ON_INVALID = "log-and-skip-on-invalid"
    """As above; a negative one drops the record (``LogAndSkipOnInvalidTimestamp``)."""
    USE_PARTITION_TIME_ON_INVALID = "use-partition-time-on-invalid"
    """The partition time in place of a negative one (``UsePartitionTimeOnInvalidTimestamp``)."""
    WALLCLOCK = "wallclock"
    """The time of processing (``WallclockTimestampExtractor``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceNode:
    """Reads topics. A serde of ``None`` means the configured default.

    With a ``pattern`` it reads the topics whose whole names match; ``topics`` are those there are,
    which are known to who runs it.
    """

    name: str
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    timestamp_extractor: TimestampExtractorLike | None = None
    offset_reset: OffsetReset | None = None
    changes: bool = False
    """The values are table changes in Kafka's ``Change`` layout (below KTable.group_by)."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The topics; a pattern stands among topics as ``^`` and its text."""
        if self.pattern is None or self.topics:
            return self.topics
        flags = self.pattern.flags & ~re.UNICODE
        letters = "".join(letter for flag, letter in _FLAGS.items() if flags & flag)
        return (f"^(?{letters}){self.pattern.pattern}" if letters else f"^{self.pattern.pattern}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorNode:
    """Does what its ``operator`` says with what its parents forward.

    ``stores`` are the names of all connected stores, in the order in which Kafka Streams
    initialises them. ``wrapped`` makes processors around an operator of the DSL (KIP-1112).
    """

    name: str
    parents: tuple[str, ...]
    operator: Operator
    stores: tuple[str, ...] = ()
    wrapped: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkNode:
    """Writes to a topic, or to the topic that ``topic(key, value, record_context)`` names.

    ``partitioner(topic, key, value, partitions)`` gives a partition, several of them, none at all
    (an empty collection drops the record) or ``None`` for the murmur2 default (Kafka's
    ``StreamPartitioner``).

    With ``by_key_alone``, as ``KStream.to`` and joins by a foreign key have it, and no partitioner,
    a key within a window lies where the key alone does, if the serde of such keys is given or
    inherited (Kafka's ``WindowedStreamPartitioner``). Repartition topics and sinks of the Processor
    API take the whole key, as in Kafka Streams.
    """

    name: str
    parents: tuple[str, ...]
    topic: str | Callable[..., str]
    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    partitioner: Callable[..., Any] | None = None
    by_key_alone: bool = False
    changes: bool = False


Node: TypeAlias = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """Nodes that share a task: connected by forwarding or by a store.

    Numbered as Kafka Streams numbers them.

    ``nodes`` are in insertion order (parents before children); ``stores`` in registration order,
    which is the order of flushing at a commit. That of a global store, ``is_global``, has no tasks:
    a source and the processor that keeps the store, in every process that reads it.
    """

    id: int
    nodes: tuple[Node, ...]
    stores: tuple[StoreSpec, ...]
    is_global: bool = False

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The source nodes, in insertion order."""
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @property
    def source_topics(self) -> tuple[str, ...]:
        """Undecorated names of all topics read, and patterns, in insertion order."""
        return tuple(topic for source in self.sources for topic in source.reads)

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        """The sink nodes, in insertion order."""
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))
