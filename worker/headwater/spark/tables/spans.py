"""Which offsets a look at a topic reads, cut into pieces that can be read side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition: from ``start`` up to, not including, ``end``."""

    partition: TopicPartition
    start: int
    end: int


def pieces(ranges: Mapping[TopicPartition, tuple[int, int]], at_most: int) -> tuple[Span, ...]:
    """Cut each partition's offsets into pieces of about the same size; nothing for an empty one.

    Args:
        ranges: first offset and end of each partition.
        at_most: offsets of a piece.
    """
    found = []
    for partition, (start, end) in sorted(ranges.items()):
        size = end - start
        number = -(-size // at_most)
        found += [
            Span(partition, start + size * piece // number, start + size * (piece + 1) // number)
            for piece in range(number)
        ]
    return tuple(found)
