"""How far the readers of DataFrames are: they commit it in a group of its own, for people to see.

Nobody goes on from these offsets, so it does not matter if some of them, or all, are lost.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater.errors import HeadwaterError
from headwater.ports import PartitionOffsets
from headwater.spark.progress import Committed, Computing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from headwater.ids import TopicPartition
    from headwater.kafka.admin import Admin
    from headwater.spark.frames.rows import PartitionWork
    from headwater.spark.progress import Shown
    from headwater.spark.reader import ReaderToCut

_INTERVAL_S: Final = 1.0
_LAST_S: Final = 5.0
_POLL_S: Final = 0.01


def reading_group(application_id: str, generation: str) -> str:
    """Return the group in which readers say how far they are."""
    return f"{application_id}-backfill-{generation}-reading"


class Teller:
    """Says now and then how far the reader of a partition is.

    Args:
        consumer: which reads it, in the group.
        partition: which.
        interval_s: how often.
    """

    def __init__(
        self, consumer: ReaderToCut, partition: TopicPartition, interval_s: float = _INTERVAL_S
    ) -> None:
        self._consumer = consumer
        self._partition = partition
        self._interval_s = interval_s
        self._due = time.monotonic() + interval_s
        self._pending: Future[None] | None = None

    def tell(self) -> None:
        """Say it, unless that was said just now, or is being said."""
        if time.monotonic() >= self._due and (self._pending is None or self._pending.done()):
            self._due = time.monotonic() + self._interval_s
            self._commit()

    def end(self) -> None:
        """Say that all is read, and wait a little until that is known."""
        deadline = time.monotonic() + _LAST_S
        self._wait(deadline)
        self._commit()
        self._wait(deadline)

    def _commit(self) -> None:
        position = self._consumer.position(self._partition)
        if position is not None:
            told = PartitionOffsets(partition=self._partition, offset=position, metadata="")
            self._pending = self._consumer.commit_later([told])

    def _wait(self, deadline: float) -> None:
        # Only what completes a commit is wanted: everything before the cut has been returned.
        while self._pending and not self._pending.done() and time.monotonic() < deadline:
            self._consumer.poll(_POLL_S)


@contextmanager
def with_reading(
    admin: Admin,
    group: str,
    works: Sequence[PartitionWork],
    tell: Callable[[Shown], None],
) -> Iterator[Callable[[Shown], None]]:
    """Add to what is told of Spark how far the readers are, while this is entered.

    Args:
        admin: asked for that.
        group: in which they say it.
        works: what they read.
        tell: told both.
    """
    forget = partial(admin.delete_group, group)
    with suppress(HeadwaterError):
        forget()  # what an earlier driver has left
    start = {work.partition: work.start for work in works}
    look = Committed(
        partial(_told, admin, group, start),
        start=start,
        goal={work.partition: work.cut for work in works},
    )

    def tell_both(found: Shown) -> None:
        if isinstance(found, Computing):
            with suppress(HeadwaterError):
                found = replace(found, reading=look())
        tell(found)

    try:
        yield tell_both
    finally:
        with suppress(HeadwaterError):
            forget()


def _told(
    admin: Admin, group: str, partitions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {p: found.offset for p, found in admin.committed(group, partitions).items()}
