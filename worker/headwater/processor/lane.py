"""One input partition of a task: its queue and its time.

Records wait undecoded in the lists in which they arrived and are decoded when their turn comes, so
that a bad record is found after the good ones before it are done. The loops are in ``loops``.
"""

from __future__ import annotations

import sys
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from headwater.measuring.task import RECORD_BYTES, SAMPLED
from headwater.ports import Unreadable
from headwater.processor.loops import Head, compile_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.ids import TopicPartition
    from headwater.ports import RawRecord, Records
    from headwater.processor.environment import Environment
    from headwater.processor.operators.endpoints import Input

UNKNOWN_TIME: Final = -1


def bytes_of(records: Records, sampled: int, topic: str) -> int:
    """Return about how many bytes records have, as Kafka Streams counts them.

    Args:
        records: of one partition.
        sampled: how many of them are looked at; the others are taken to be alike.
        topic: whose name counts, too.
    """
    count = len(records)
    # An odd step: records often take turns.
    looked_at = records if count <= sampled else records[:: count // sampled | 1]
    size = (RECORD_BYTES + len(topic)) * len(looked_at)
    for _, _, key, value, headers in looked_at:
        # Kafka's clients say -1 of what is null.
        size += (-1 if key is None else len(key)) + (-1 if value is None else len(value))
        if headers:
            size += sum(len(name) + len(data or b"") for name, data in headers)
    return size * count // len(looked_at)


class Lane:
    """The queue of one partition (Kafka's ``RecordQueue``).

    A task with one partition calls ``run``; one with several looks at heads and calls ``advance``
    when it has processed one. The two are not to be mixed.

    Attributes:
        partition: whose records these are.
        partition_time: largest timestamp processed from it, -1 at first.
        position: the next offset to read when nothing is buffered; ``None`` while unknown.
        size: records buffered, the head included.
        head: the next record, decoded; ``None`` before ``advance`` and when nothing is buffered.
        forward: the pipeline behind this partition.
        node: the source node.
        arrival: where the node's records are noted, if they are.
        added: records queued so far, but for those that were forgotten.
        added_bytes: their bytes, estimated from some of them unless each is recorded.
    """

    __slots__ = (
        "_chunk",
        "_chunks",
        "_current",
        "_decode",
        "_heads",
        "_iterator",
        "_remaining",
        "_run",
        "_sampled",
        "_unreadable",
        "added",
        "added_bytes",
        "arrival",
        "forward",
        "head",
        "node",
        "partition",
        "partition_time",
        "position",
        "size",
    )

    def __init__(self, partition: TopicPartition, source: Input, environment: Environment) -> None:
        self.partition = partition
        self.partition_time = UNKNOWN_TIME
        self.position: int | None = None
        self.size = 0
        self.head: Head | None = None
        self.forward = source.forward
        self.node, self.arrival = source.node, source.arrival
        self.added = self.added_bytes = 0
        measures = environment.measures
        self._sampled = 0 if not measures.is_on else sys.maxsize if measures.is_debug else SAMPLED
        self._current = environment.current
        self._chunks: deque[Records] = deque()
        self._chunk: Records = ()
        self._iterator: Iterator[RawRecord] = iter(())
        self._remaining = 0
        """How many records of ``_chunk`` the iterator has still to give."""
        self._run, self._decode = compile_loops(self, source, environment)
        self._heads: Iterator[Head] = iter(())
        self._unreadable = environment.failures.unreadable

    def add(self, records: Records) -> None:
        """Queue records, in the order of their offsets."""
        if records:
            self._chunks.append(records)
            self.size += len(records)
            self.added += len(records)
            if self._sampled:
                self.added_bytes += bytes_of(records, self._sampled, self.partition.topic)

    def clear(self) -> None:
        """Forget what is queued."""
        self._chunks.clear()
        self._turn_to((), 0)
        if self.size:
            self.added_bytes -= self.added_bytes * self.size // self.added
            self.added -= self.size
        self.size = 0

    @property
    def next_offset(self) -> int | None:
        """What to commit: the offset of the next record, queued or to be read."""
        if not self.size:
            return self.position
        if self.head is not None:
            return self.head[0][0]
        if self._remaining:
            return self._chunk[-self._remaining][0]
        return self._chunks[0][0][0]

    def run(self, records_max: int) -> int:
        """Run up to ``records_max`` records in order; return how many were taken."""
        self._current.source = self.partition
        taken = 0
        while taken < records_max and self.size:
            if not self._remaining:
                self._turn_to(self._chunks.popleft(), 0)
            count = min(self._remaining, records_max - taken)
            whole = count == self._remaining
            try:
                self._run(self._iterator if whole else islice(self._iterator, count))
            except BaseException:
                self._put_back()
                raise
            self._remaining -= count
            self.size -= count
            taken += count
            if not self.size:
                self.position = self._chunk[-1][0] + 1
        return taken

    def advance(self) -> Head | None:
        """Leave the head behind, if there is one; decode the next, dropping what cannot be."""
        try:
            head = next(self._heads, None)
            while head is None and self.size:
                self._turn_to(self._chunks.popleft(), 0)
                head = next(self._heads, None)
        except BaseException:
            self._put_back()
            raise
        self.head = head
        if head is None:
            self._remaining = 0
            if self._chunk:
                self.position = self._chunk[-1][0] + 1
        return head

    def _turn_to(self, chunk: Records, index: int) -> None:
        self._chunk = chunk
        self._iterator = islice(chunk, index, None) if index else iter(chunk)
        self._remaining = len(chunk) - index
        if isinstance(chunk, Unreadable):
            self._iterator, self._heads = self._ask_about(chunk), self._pass_over(chunk)
        else:
            self._heads = self._decode(self._iterator)
        self.head = None

    def _ask_about(self, unreadable: Unreadable) -> Iterator[RawRecord]:
        """Ask the handler when the record's turn comes; give nothing."""
        for record in unreadable:
            self._current.record = record
            self._unreadable(record, unreadable.reason)
        yield from ()

    def _pass_over(self, unreadable: Unreadable) -> Iterator[Head]:
        """As ``_ask_about``, for ``advance``, which counts as it goes."""
        yield from self._decode(self._ask_about(unreadable))
        self.size -= 1

    def _put_back(self) -> None:
        """Make the record under way, which raised, the next one again."""
        failed = self._current.record
        for index, record in enumerate(self._chunk):
            if record is failed:
                self._turn_to(self._chunk, index)
                break
        self.size = self._remaining + sum(len(chunk) for chunk in self._chunks)
