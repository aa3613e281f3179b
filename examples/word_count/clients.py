"""The demonstration's Kafka clients: lines in, counts out, and what a kill has undone."""

from __future__ import annotations

import logging
import struct
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONG = struct.Struct(">q")
_QUESTION_S = 10.0
_SLOW_PAUSE_S = 0.05
SILENT = logging.getLogger("word-count-clients")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False
"""The broker ends with the demonstration: that clients lose it is no news."""


class Feeder(threading.Thread):
    """Writes lines to a topic as fast as the broker takes them.

    Args:
        bootstrap_servers: the broker.
        topic: written to.
        lines: to write.
        held_back: share of the lines, the last ones, that come slowly until ``release``: so long
            there is always work under way, however fast the machine.
    """

    def __init__(
        self, bootstrap_servers: str, topic: str, lines: Sequence[str], *, held_back: float = 0.0
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self._lines = lines
        self._full_speed = round(len(lines) * (1 - held_back))
        self._slow_batch = max(1, len(lines) // 1_000)
        self._released = threading.Event()
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                # Lines have no key: an equal share for every partition.
                "partitioner": "random",
                "sticky.partitioning.linger.ms": 5,
            },
            logger=SILENT,
        )
        self.sent = 0
        """Lines handed to the client."""
        self.error = ""
        """Why feeding stopped early, if it did."""
        self._ended = threading.Event()

    def run(self) -> None:
        """Feed everything."""
        try:
            for line in self._lines:
                self._send(line.encode())
                self.sent += 1
                if self._ended.is_set():
                    return
                if self.sent > self._full_speed and self.sent % self._slow_batch == 0:
                    self._released.wait(_SLOW_PAUSE_S)
            if self._producer.flush(60):
                self.error = "the broker did not take all lines within a minute"
        except Exception as error:  # noqa: BLE001 - whatever ends the thread is told by the main one
            self.error = f"{type(error).__name__}: {error}"

    def release(self) -> None:
        """Feed the rest at full speed."""
        self._released.set()

    def stop(self) -> None:
        """Feed no more."""
        self._ended.set()
        self._released.set()

    def _send(self, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value=value, on_delivery=self._hear)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _hear(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.error = str(error)


class CountsReader(threading.Thread):
    """Follows the topic with the counts, committed records only; the last count of a word holds."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(name="reader", daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "word-count-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
            },
            logger=SILENT,
        )
        self._topic = topic
        self.counts: dict[str, int] = {}
        """The last count of every word."""
        self.updates = 0
        """Records read."""
        self.error = ""
        """Why reading stopped early, if it did."""
        self._ended = threading.Event()

    @property
    def total(self) -> int:
        """The sum of all counts: how many words were counted, once each, if all went well."""
        return sum(self.counts.copy().values())

    def run(self) -> None:
        """Read until stopped."""
        try:
            partitions = self._partitions()
            self._consumer.assign([TopicPartition(self._topic, number, 0) for number in partitions])
            while not self._ended.is_set():
                for message in self._consumer.consume(2_000, timeout=0.1):
                    word, count = message.key(), message.value()
                    if message.error() is None and word is not None and count is not None:
                        self.counts[word.decode()] = _LONG.unpack(count)[0]
                        self.updates += 1
        except Exception as error:  # noqa: BLE001 - whatever ends the thread is told by the main one
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._consumer.close()

    def stop(self) -> None:
        """Read no more; return when the client is closed."""
        self._ended.set()
        self.join(10)

    def _partitions(self) -> list[int]:
        while not self._ended.is_set():
            found = self._consumer.list_topics(self._topic, timeout=10).topics[self._topic]
            if found.error is None:
                return sorted(found.partitions)
            time.sleep(0.1)
        return []


class AbortedRecords(threading.Thread):
    """Counts the records of transactions that were open at one moment and were aborted later.

    ``look`` at that moment; start the thread when the transactions have been aborted.
    """

    def __init__(self, bootstrap_servers: str, topics: Sequence[str]) -> None:
        super().__init__(name="aborted", daemon=True)
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap_servers
        }
        self._admin = AdminClient(self._settings, logger=SILENT)
        self._topics = topics
        self._begin: dict[tuple[str, int], int] = {}
        self._end: dict[tuple[str, int], int] = {}
        self.count = 0
        """How many there are; known when the thread has ended."""
        self.error = ""
        """Why they were not counted, if they were not."""

    def look(self) -> dict[tuple[str, int], int]:
        """Return how many records (and marks) are undecided at this moment, by partition."""
        self._begin = self._latest(IsolationLevel.READ_COMMITTED)
        self._end = self._latest(IsolationLevel.READ_UNCOMMITTED)
        return {
            key: end - self._begin[key] for key, end in self._end.items() if end > self._begin[key]
        }

    def run(self) -> None:
        """Read what was undecided twice, with and without what was aborted."""
        try:
            written = self._read("read_uncommitted")
            self.count = written - self._read("read_committed")
        except Exception as error:  # noqa: BLE001 - whatever ends the thread is told by the main one
            self.error = f"{type(error).__name__}: {error}"

    def _latest(self, isolation: IsolationLevel) -> dict[tuple[str, int], int]:
        known = self._admin.list_topics(timeout=_QUESTION_S).topics
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {
            TopicPartition(topic, number): latest
            for topic in self._topics
            for number in known[topic].partitions
        }
        answers = self._admin.list_offsets(
            asked, isolation_level=isolation, request_timeout=_QUESTION_S
        )
        return {
            (partition.topic, partition.partition): answer.result(_QUESTION_S).offset
            for partition, answer in answers.items()
        }

    def _read(self, isolation: str) -> int:
        open_ = {key for key, end in self._end.items() if end > self._begin[key]}
        consumer = Consumer(
            {
                **self._settings,
                "group.id": "word-count-aborted",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            },
            logger=SILENT,
        )
        consumer.assign([TopicPartition(*key, self._begin[key]) for key in open_])
        count = 0
        deadline = time.monotonic() + _QUESTION_S
        while open_ and time.monotonic() < deadline:
            for message in consumer.consume(5_000, timeout=0.2):
                key = (str(message.topic()), message.partition() or 0)
                offset = message.offset()
                if message.error() is not None or offset is None or offset >= self._end[key]:
                    open_.discard(key)
                elif key in open_:
                    count += 1
        consumer.close()
        return count
