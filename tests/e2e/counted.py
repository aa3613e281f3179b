"""A word count whose counts are known: its topology, its input, and what has come out of it."""

from __future__ import annotations

import struct
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from confluent_kafka import Message

PARTITIONS = 4
_ADMIN_S = 60
_FLUSH_S = 300
_COUNTED_S = 900
_LINES = 5
SLOW = "slowly"
"""A line that begins so takes a StreamThread ``SLOW_S`` until ``SLOW_FOR_S`` after it was sent."""
SLOW_S = 0.02
SLOW_FOR_S = 60
SLOW_LINES_PER_S = 80
"""More than one StreamThread can process."""
_PAUSE_S = 0.2
_VOCABULARY = 97

_TOPOLOGY = '''
"""Counts words."""

import time
from threading import Event

from headwater import Serdes


def words(line):
    found = line.split()
    # When it is read again later, it is as fast as any other.
    if found[0] == "{slow}" and time.time() - float(found[-1]) < {slow_for_s}:
        Event().wait({slow_s})
    return found


def build(builder):
    (
        builder.stream("{source}", key_serde=Serdes.string, value_serde=Serdes.string)
        .flat_map_values(words)
        .group_by(lambda _key, word: word, key_serde=Serdes.string, value_serde=Serdes.string)
        .count(store="counts-store")
        .to_stream()
        .to("{result}", key_serde=Serdes.string, value_serde=Serdes.long)
    )
'''


class Counted:
    """The topics of one word count.

    Args:
        bootstrap: of Kafka.
        prefix: the application id.
        source: the topic that it reads, if it makes that and ``result`` itself; else they are made.
        result: the topic that it writes.

    Attributes:
        prefix: of its internal topics: the application id.
        sent: how often each word was sent.
        seen: the last count of each word that a reader of committed records sees.
    """

    def __init__(self, bootstrap: str, prefix: str, *, source: str = "", result: str = "") -> None:
        self.prefix = prefix
        self._source = source or f"{prefix}-in"
        self._result = result or f"{prefix}-out"
        self._made = [] if source else [self._source, self._result]
        self.sent: Counter[str] = Counter()
        self.seen: dict[str, int] = {}
        self._undelivered: list[str] = []
        self._lines = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        # Idempotent, or the producer itself might send a line twice.
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{prefix}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )

    def __enter__(self) -> Self:
        there = self._topics()
        assert not there, (
            f"{', '.join(there)} are on this Kafka already: remove them, or take another"
        )
        if self._made:
            # As many replicas as the brokers make by themselves.
            topics = [NewTopic(name, PARTITIONS) for name in self._made]
            for future in self._admin.create_topics(topics).values():
                future.result(_ADMIN_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the topics, also those that the application made."""
        self._consumer.close()
        if mine := self._topics():
            for future in self._admin.delete_topics(mine).values():
                future.result(_ADMIN_S)

    def _topics(self) -> list[str]:
        """Those that are there, also those that the application made."""
        own = (self._source, self._result)
        topics = self._admin.list_topics(timeout=_ADMIN_S).topics
        return [name for name in topics if name in own or name.startswith(f"{self.prefix}-")]

    @property
    def topology(self) -> str:
        """The source text."""
        return _TOPOLOGY.format(
            source=self._source,
            result=self._result,
            slow=SLOW,
            slow_s=SLOW_S,
            slow_for_s=SLOW_FOR_S,
        )

    # -- in ----------------------------------------------------------------------------------

    @contextmanager
    def under_load(self, *, heavy: bool = False) -> Iterator[None]:
        """Send lines all the while; when it ends, all of them have been delivered.

        Args:
            heavy: more than one StreamThread can process.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._feed, args=(ended, heavy), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        left = self._producer.flush(_FLUSH_S)
        assert (left, self._undelivered) == (0, [])

    def _feed(self, ended: threading.Event, heavy: bool) -> None:  # not public
        lines = round(SLOW_LINES_PER_S * _PAUSE_S) if heavy else _LINES
        while not ended.is_set():
            for _ in range(lines):
                self._lines += 1
                line = f"all streams lead to word{self._lines % _VOCABULARY}"
                if heavy:
                    line = f"{SLOW} {line} {time.time():.0f}"
                partition = self._lines % PARTITIONS
                self._producer.produce(
                    self._source, line, partition=partition, callback=self._delivered
                )
                self.sent.update(line.split())
            self._producer.poll(0)
            ended.wait(_PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._undelivered.append(str(error))

    # -- out ---------------------------------------------------------------------------------

    def until_exact(self) -> dict[str, int]:
        """Wait until every word has been counted as often as it was sent; nothing is sent now."""
        wait_for(
            lambda: self.read() == self.sent,
            what="exact counts",
            timeout_s=_COUNTED_S,
            every_s=0.5,
        )
        return dict(self.seen)

    def begin_anew(self) -> None:
        """Expect all counts from the first one on again: all that was sent will be read again."""
        assert self.seen == self.sent
        self.seen = {}

    def until_more(self) -> None:
        """Wait until something is counted that is sent from now on."""
        before = sum(dict(self.sent).values())  # so what is counted beyond it was sent since
        wait_for(
            lambda: sum(self.read().values()) > before,
            what="more counts",
            timeout_s=_COUNTED_S,
            every_s=0.5,
        )

    def read(self) -> dict[str, int]:
        """Read on; a word's counts grow, or something was counted twice."""
        if not self._consumer.assignment():
            self._consumer.assign(
                [TopicPartition(self._result, number, 0) for number in range(PARTITIONS)]
            )
        for message in self._consumer.consume(10_000, timeout=2.0):
            assert message.error() is None, message.error()
            word = (message.key() or b"").decode()
            [count] = struct.unpack(">q", message.value() or b"")
            before = self.seen.get(word, 0)
            assert count > before, f"{word!r} was counted to {count} after {before}"
            self.seen[word] = count
        return self.seen
