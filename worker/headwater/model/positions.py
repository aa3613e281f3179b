"""How far a store's contents have come, in offsets of the input (Kafka's ``Position``, KIP-796).

An answer to a query says for each input partition which record was the last that went into it. A
``PositionBound`` asks for answers that are at least so new, so that a reader never goes back.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Position:
    """Offsets by topic and partition: those of the last records that were processed.

    A position is a value: methods that change it return another one.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self._offsets: dict[str, dict[int, int]] = {
            topic: dict(partitions) for topic, partitions in (offsets or {}).items() if partitions
        }

    @classmethod
    def empty_position(cls) -> Position:
        """Return the position before the first record (``Position.emptyPosition``)."""
        return cls()

    @classmethod
    def from_map(cls, offsets: Mapping[str, Mapping[int, int]]) -> Position:
        """Return the position of these offsets (``Position.fromMap``)."""
        return cls(offsets)

    @classmethod
    def of(cls, offsets: Iterable[tuple[str, int, int]]) -> Position:
        """Return the position of these topics, partitions and offsets."""
        found: dict[str, dict[int, int]] = {}
        for topic, partition, offset in offsets:
            found.setdefault(topic, {})[partition] = offset
        return cls(found)

    @property
    def is_empty(self) -> bool:
        """Whether it names no topic."""
        return not self._offsets

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it names."""
        return frozenset(self._offsets)

    def partition_positions(self, topic: str) -> Mapping[int, int]:
        """Return the offsets of a topic by partition (``getPartitionPositions``)."""
        return MappingProxyType(self._offsets.get(topic, {}))

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """Return this position with one offset, if that is not behind what it has."""
        return self.merge(Position({topic: {partition: offset}}))

    def merge(self, other: Position) -> Position:
        """Return the larger offset of both for each partition (``Position.merge``)."""
        merged = {topic: dict(partitions) for topic, partitions in self._offsets.items()}
        for topic, partitions in other._offsets.items():
            mine = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                mine[partition] = max(offset, mine.get(partition, offset))
        return Position(merged)

    def reaches(self, bound: Position, partition: int) -> bool:
        """Whether it is at ``bound`` or after it in this partition of every topic of the bound."""
        for topic, wanted in bound._offsets.items():
            if partition in wanted:
                offset = self._offsets.get(topic, {}).get(partition)
                if offset is None or offset < wanted[partition]:
                    return False
        return True

    def to_map(self) -> dict[str, dict[int, int]]:
        """Return the offsets by topic and partition, a copy."""
        return {topic: dict(partitions) for topic, partitions in self._offsets.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._offsets == other._offsets

    def __hash__(self) -> int:
        items = ((t, frozenset(offsets.items())) for t, offsets in self._offsets.items())
        return hash(frozenset(items))

    def __repr__(self) -> str:
        return f"Position({self._offsets!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Position, (self._offsets,)


class PositionBound:
    """A position that an answer must have reached (Kafka's ``PositionBound``).

    Make it with ``unbounded()`` or ``at(position)``.
    """

    __slots__ = ("position",)

    def __init__(self, position: Position) -> None:
        self.position = position
        """What must be reached; empty for no bound."""

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Return the bound that every answer has reached."""
        return cls(Position())

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """Return the bound at ``position``."""
        return cls(position)

    @property
    def is_unbounded(self) -> bool:
        """Whether every answer has reached it."""
        return self.position.is_empty

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositionBound) and self.position == other.position

    def __hash__(self) -> int:
        return hash(self.position)

    def __repr__(self) -> str:
        return (
            "PositionBound.unbounded()"
            if self.is_unbounded
            else f"PositionBound.at({self.position!r})"
        )
