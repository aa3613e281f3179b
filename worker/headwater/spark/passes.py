"""Sub-topologies that feed each other, computed side by side in passes. Pure.

One pass reads a slice of what comes from elsewhere, and of the repartition topics between them what
lies there as it begins. What the pass itself writes there is read by the next one. So records go
round in slices, as they do natively from commit to commit; see
``docs/adr/0039-what-a-backfill-is.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headwater.ids import TopicPartition

SLICE_RECORDS: Final = 100_000
"""Of each partition that is not written in the circle, in one pass. Every pass opens its tasks anew
and restores their state; natively so many records go by between two commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass.

    Attributes:
        ends: up to where each partition is read.
        more: those among them that a later pass is known to read on.
    """

    ends: Mapping[TopicPartition, int]
    more: frozenset[TopicPartition]


def next_pass(
    committed: Mapping[TopicPartition, int],
    cut: Mapping[TopicPartition, int],
    finished: Collection[TopicPartition],
    size: int,
) -> Pass:
    """Return what is read next.

    Args:
        committed: how far each partition was read.
        cut: where each ends; one that is written in passes, where it ends now.
        finished: those among them to which no task writes any more, which end there for good.
        size: how many offsets of one of those are read at the most.
    """
    ends = {p: min(end, committed[p] + size) if p in finished else end for p, end in cut.items()}
    return Pass(ends=ends, more=frozenset(p for p, end in ends.items() if end < cut[p]))
