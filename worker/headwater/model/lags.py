"""How far an application is behind: rows, totals, and how they are shown. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.model.tables import aligned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.ids import TaskId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One input partition.

    Attributes:
        partition: which.
        task: that reads it; ``None`` if the topology is not known.
        committed: offset of the next record to read; ``None`` if nothing is committed.
        first: the first offset that there is.
        end: the offset after the last record that may be read.
        oldest_ms: time of the first record to read, since 1970; ``None`` if there is none.
    """

    partition: TopicPartition
    task: TaskId | None
    committed: int | None
    first: int
    end: int
    oldest_ms: int | None = None

    @property
    def lag(self) -> int:
        """How many offsets are unread; all that there are if nothing is committed."""
        start = self.first if self.committed is None else max(self.committed, self.first)
        return max(0, self.end - start)


def rows_of(
    tasks: Mapping[TopicPartition, TaskId],
    committed: Mapping[TopicPartition, int],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> list[PartitionLag]:
    """Return one row for each partition of ``end``, by task.

    Args:
        tasks: that read the partitions, as far as they are known.
        committed: offsets; a partition without one is not in it.
        first: offsets of the first records.
        end: offsets after the last records.
    """
    found = [
        PartitionLag(
            partition=partition,
            task=tasks.get(partition),
            committed=committed.get(partition),
            first=first[partition],
            end=end[partition],
        )
        for partition in end
    ]
    return sorted(found, key=lambda row: (str(row.task or ""), row.partition))


def total_of(rows: Sequence[PartitionLag]) -> int:
    """Return how many offsets are unread in all."""
    return sum(row.lag for row in rows)


def table(rows: Sequence[PartitionLag], now_ms: int) -> list[str]:
    """Return the rows as lines of text, with a heading and the total."""
    header = ("TASK", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "OLDEST UNREAD")
    lines = [header]
    lines += [
        (
            "-" if row.task is None else str(row.task),
            row.partition.topic,
            str(row.partition.partition),
            "-" if row.committed is None else str(row.committed),
            str(row.end),
            str(row.lag),
            "" if row.oldest_ms is None else f"{age(now_ms - row.oldest_ms)} ago",
        )
        for row in rows
    ]
    lines.append(("TOTAL", "", "", "", "", str(total_of(rows)), ""))
    return aligned(lines, right=range(2, 6))


def document(group: str, rows: Sequence[PartitionLag]) -> dict[str, Any]:
    """Return the rows as JSON values."""
    return {
        "group": group,
        "lag": total_of(rows),
        "partitions": [
            {
                "task": None if row.task is None else str(row.task),
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "committed": row.committed,
                "end": row.end,
                "lag": row.lag,
                "oldestUnreadMs": row.oldest_ms,
            }
            for row in rows
        ],
    }


def age(elapsed_ms: int) -> str:
    """Return a duration for people, in its largest unit: ``3 min``."""
    seconds = max(0, elapsed_ms) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
