"""The clients of a process whose records do not go through objects of Python's client.

They are the clients in Python, which hold everything but the record itself: assignments, offsets,
commits, transactions, errors. What differs is told by the two overrides below: a batch is read
from a queue of our own, and a record is queued by a function in C (docs/adr/0098).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from headwater.ids import TopicPartition
from headwater.kafka.consumer import Batch, PartitionConsumer
from headwater.kafka.headers import say_mended
from headwater.kafka.producer import StreamsProducer
from headwater.kafka.refused import Output
from headwater.kafka.unreadable import within_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.kafka.errors import Connection
    from headwater.kafka.native_module import Native
    from headwater.ports import Headers, OnRefused, Send

_QUEUE_FULL: Final = KafkaError._QUEUE_FULL  # noqa: SLF001 - the client's name for its own code
_QUEUE_WAIT_S: Final = 0.005
"""So long a full queue is left alone: no delivery report ends the waiting."""
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
_SERVE_EVERY_S: Final = 0.1
"""The client's callbacks are served so often while records are waited for."""
_LOOK_EVERY_S: Final = 0.01
"""Likewise, while a partition has not been heard of since it was assigned."""


class NativeConsumer(PartitionConsumer):
    """A ``PartitionConsumer`` that reads records from a queue of its own.

    The partitions' queues are forwarded to it. The client's own queue keeps what it has callbacks
    for, and is served beside. When a fetch stops, the client cuts a partition's queue off, at some
    later moment and without a notice. So a partition is forwarded again with every poll until
    something of it comes, which is only after the last stop.

    Args:
        native: the extension.
        settings: as ``PartitionConsumer``.
        connection: as ``PartitionConsumer``.
        options: as ``PartitionConsumer``.
    """

    def __init__(
        self, native: Native, settings: Mapping[str, Any], connection: Connection, **options: Any
    ) -> None:
        super().__init__(native.settings(settings), connection, **options)
        self._reader = native.module.RecordReader(self._consumer, self._batch_records)
        self._run_of = native.module.RecordRun
        self._unheard: set[TopicPartition] = set()

    def _reading(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._reader.follow(*partition)
            self._unheard.add(partition)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading partitions; unknown ones are passed over."""
        leaving = list(partitions)
        super().unassign(leaving)
        self._unheard.difference_update(leaving)

    def poll(self, timeout_s: float) -> list[Batch]:
        """As ``PartitionConsumer.poll``."""
        found, read = self._read(self._reader.read, timeout_s)
        for partition, records, longest in read:
            if self._hands_on and longest > self._bound:
                found += [(partition, part) for part in within_bound(records, self._bound)]
            else:
                found.append((partition, records))
        return found + self._passed_over() if self._unreadable else found

    def poll_runs(self, timeout_s: float) -> list[tuple[TopicPartition, Any]]:
        """As ``PartitionConsumer.poll_runs``; they are what a ``ChangelogRun`` is, and no more."""
        served, read = self._read(self._reader.read_runs, timeout_s)
        found = [(partition, self._run_of(records)) for partition, records in served]
        return found + [(partition, run) for partition, run, _ in read]

    def _read(
        self, read: Callable[[int], Any], timeout_s: float
    ) -> tuple[list[Batch], list[tuple[TopicPartition, Any, int]]]:
        """Wait for the first record only.

        Returns:
            Records that came before their partition's forwarding, and are older than the others.
            Partition, what ``read`` has made of its records, and bytes of the longest value.
        """
        self._raise_problem()
        left = timeout_s
        while True:
            served = self._served()
            step = min(left, _LOOK_EVERY_S if self._unheard else _SERVE_EVERY_S)
            batches, events, count = read(0 if served else round(step * 1_000))
            left -= step
            if count or served or left <= 0:
                break
        self._more = count >= self._batch_records // 2
        for code, reason, topic, number, offset in events:
            if code == _END and topic is not None:
                self._unheard.discard(TopicPartition(topic, number))
            self._on_event(KafkaError(code, reason), topic, number, offset)
        found = []
        for topic, number, made, following, longest, mended in batches:
            partition = self._keys[topic][number]
            self._passed(partition, following)
            self._unheard.discard(partition)
            if mended >= 0:
                self._has_mended = self._has_mended or say_mended(topic, number, mended)
            found.append((partition, made, longest))
        if batches:
            self._connection.answered()
        return served, found

    def _served(self) -> list[Batch]:
        """Have the client call back; return records that came before their partition's forwarding.

        They are older than any in our queue.
        """
        for partition in self._unheard:
            self._reader.follow(*partition)
        found: list[Batch] = []
        while messages := self._consumer.consume(self._batch_records, 0):
            found += self._batches(self._without_events(messages))
        return found

    def close(self) -> None:
        """Stop fetching and release the connections; commits nothing."""
        for partition in self._assigned:
            self._reader.leave(*partition)
        self._reader.close()
        super().close()


class NativeProducer(StreamsProducer):
    """A ``StreamsProducer`` that queues records by a function in C.

    Args:
        native: the extension.
        settings: as ``StreamsProducer``.
        connection: as ``StreamsProducer``.
        options: as ``StreamsProducer``.
    """

    def __init__(
        self, native: Native, settings: Mapping[str, Any], connection: Connection, **options: Any
    ) -> None:
        # A transaction waits for its flush, which is to end with the last delivery.
        failures_only = "transactional.id" not in settings
        made = native.settings(settings, failures_only=failures_only)
        super().__init__(made, connection, **options)
        self._queue_wait_s = _QUEUE_WAIT_S
        self._writer = native.module.RecordWriter(self._producer, _refuse)
        self._produce = self._target = self._writer.produce

    def sender(self, topic: str, on_refused: OnRefused | None = None) -> Send:
        """Return the function that sends to ``topic``. See ``StreamsProducer.sender``."""
        detour = super().sender(topic, on_refused)

        def failed(
            code: int,
            key: bytes | None,
            value: bytes | None,
            timestamp: int,
            headers: Headers,
            partition: int | None,
        ) -> None:
            if code == _QUEUE_FULL:
                self._send_when_there_is_room(topic, key, value, timestamp, headers, partition)
            else:
                record = Output(topic, key, value, timestamp, headers, partition)
                self._not_taken(_error(code), record, on_refused)

        found = self._writer.sender(topic, failed, detour)
        self._counters[-1] = found.times_sent  # the detour has put its own there
        return found.send

    def _redirect(self, target: Callable[..., None]) -> None:
        super()._redirect(target)
        if self._target == self._produce:
            self._writer.direct()
        elif self._target == self._keep:
            self._writer.hold(self._held)
        else:
            self._writer.redirect()

    def _serve(self, timeout_s: float) -> None:
        try:
            super()._serve(timeout_s)
        finally:
            self._hear_of_failures()

    def drain(self, timeout_s: float) -> bool:
        """As ``StreamsProducer.drain``."""
        try:
            return super().drain(timeout_s)
        finally:
            self._hear_of_failures()

    def _hear_of_failures(self) -> None:
        if self._writer.has_failures():
            for code, topic, value, key, partition in self._writer.take_failures():
                self._not_delivered(KafkaError(code), topic, value, key, partition)

    def discard(self) -> None:
        """Throw away what was sent but has not left; for a producer that will send no more."""
        super().discard()
        self._writer.close()


def new_consumer(native: Native | None) -> Callable[..., PartitionConsumer]:
    """Return what makes a consumer of a StreamThread: in C, if that is given."""
    return PartitionConsumer if native is None else partial(NativeConsumer, native)


def new_producer(native: Native | None) -> Callable[..., StreamsProducer]:
    """Return what makes a producer of a StreamThread: in C, if that is given."""
    return StreamsProducer if native is None else partial(NativeProducer, native)


def _error(code: int) -> KafkaError:
    return KafkaError(code, f"Unable to produce message: {KafkaError(code).str()}")


def _refuse(code: int) -> None:
    """Raise what the client's ``produce`` would."""
    raise KafkaException(_error(code))
