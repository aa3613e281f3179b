"""Readers say how far they are, one commit after the other."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from headwater.ids import TopicPartition
from headwater.spark.frames.reading import Teller

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.ports import PartitionOffsets

PARTITION = TopicPartition("in", 0)


class Reader:
    """A consumer whose broker answers when it is polled."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.told: list[int] = []
        self._pending: Future[None] = Future()

    def position(self, partition: TopicPartition) -> int | None:
        assert partition == PARTITION
        return self.at

    def commit_later(self, offsets: Iterable[PartitionOffsets]) -> Future[None]:
        self.told += [one.offset for one in offsets]
        self._pending = Future()
        return self._pending

    def poll(self, _timeout_s: float) -> list[Any]:
        if not self._pending.done():
            self._pending.set_result(None)
        return []


def teller_of(reader: Any, interval_s: float = 0) -> Teller:
    return Teller(reader, PARTITION, interval_s)


def test_nothing_is_told_while_the_last_is_not_known_or_was_just_now() -> None:
    reader = Reader()
    teller = teller_of(reader)
    teller.tell()
    assert reader.told == []

    for reader.at in (3, 5):
        teller.tell()
    assert reader.told == [3]

    reader.poll(0)
    teller.tell()
    assert reader.told == [3, 5]

    seldom = Reader()
    seldom.at = 7
    teller_of(seldom, interval_s=3_600).tell()
    assert seldom.told == []


def test_at_the_end_all_is_told_when_what_was_told_before_is_known() -> None:
    reader = Reader()
    teller = teller_of(reader)
    reader.at = 3
    teller.tell()
    reader.at = 9

    teller.end()

    assert reader.told == [3, 9]
    assert reader._pending.done()
