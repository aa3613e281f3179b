"""``--outputs latest``: of what a task sends to a topic under one key, only the last is written.

What is the last is known at the cut, so until then outputs wait in a topic of the backfill's own,
one partition for each task, written in the transactions of that task:

    sinks ─► <application id>-backfill-outputs ─► at the cut: the last of each key ─► the topics

They leave it in the order of their offsets, in transactions that hold the offset up to which all
has left; so a task that is killed goes on from there, and nothing is written twice or left out. A
record without a key stands for itself and is written.
"""

from __future__ import annotations

import sqlite3
import struct
import tempfile
import time
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater import failpoints
from headwater.kafka.consumer import FROM_START
from headwater.kafka.settings import batch_records, consumer_settings
from headwater.model.topics import InternalTopic
from headwater.native.clients import TaskClients
from headwater.ports import PartitionOffsets
from headwater.spark.reader import ReaderToCut
from headwater.wire.offset_metadata import OffsetMetadata, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.config import StreamsConfig
    from headwater.ids import TopicPartition
    from headwater.ports import Headers, RawRecord, Send

_WHERE: Final = struct.Struct(">hi")
_KEYED: Final = b"k"
_KEYLESS: Final = b"-"
_IS_NULL: Final = "headwater.null"
_POLL_S: Final = 0.1
_COMMIT_S: Final = 2.0
_CONFIG: Final = {
    # The last record of a key is all that is asked for.
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    "max.message.bytes": str(100 * 1024 * 1024),
}


def outputs_topic(application_id: str) -> str:
    """Return the name of the topic in which outputs wait."""
    return f"{application_id}-backfill-outputs"


def waiting_topic(application_id: str, tasks: int, replication_factor: int) -> InternalTopic:
    """Return the topic as it is to be created."""
    return InternalTopic(
        name=outputs_topic(application_id),
        partitions=tasks,
        configs=_CONFIG,
        replication_factor=replication_factor,
    )


def waiting_sender(send: Send, topic: str, number: int) -> Send:
    """Return the function by which a sink's output goes into the waiting topic.

    Args:
        send: sends to the waiting topic.
        topic: where the output is to go in the end.
        number: the task's partition of the waiting topic.
    """
    name = topic.encode()

    def wait(
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        # Keys of their own topics and partitions do not replace each other.
        where = _WHERE.pack(len(name), -1 if partition is None else partition) + name
        identity = _KEYLESS + uuid.uuid4().bytes if key is None else _KEYED + key
        if value is None:  # which would delete the record before it
            value, headers = b"", [(_IS_NULL, b""), *(headers or ())]
        send(where + identity, value, timestamp, headers, number)

    return wait


def unpacked(
    record: RawRecord,
) -> tuple[str, bytes | None, bytes | None, int, Headers, int | None]:
    """Return topic, key, value, timestamp, headers and partition of an output that has waited."""
    _, timestamp, packed, value, headers = record
    assert packed is not None, "every output waits under a key"
    size, partition = _WHERE.unpack_from(packed)
    name = packed[_WHERE.size : _WHERE.size + size].decode()
    identity = packed[_WHERE.size + size :]
    key = identity[1:] if identity[:1] == _KEYED else None
    if headers and headers[0][0] == _IS_NULL:
        value, headers = None, headers[1:] or None
    return name, key, value, timestamp, headers, None if partition < 0 else partition


class Newest:
    """Which offsets of the waiting partition hold the last record of a key; lies on disk."""

    def __init__(self, directory: str) -> None:
        self._database = sqlite3.connect(Path(directory, "newest.db"), isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE newest (key BLOB PRIMARY KEY, at) WITHOUT ROWID")

    def note(self, records: list[RawRecord]) -> None:
        """Take notice of records, in the order of their offsets."""
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO newest VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET at = excluded.at",
            [(record[2], record[0]) for record in records],
        )
        self._database.execute("COMMIT")

    def offsets(self, start: int) -> Iterator[int]:
        """Yield the offsets from ``start`` on, in order."""
        found = self._database.execute("SELECT at FROM newest WHERE at >= ? ORDER BY at", (start,))
        return (at for (at,) in found)

    def close(self) -> None:
        """Release the file."""
        self._database.close()


def write_latest(
    config: StreamsConfig,
    *,
    waiting: TopicPartition,
    end: int,
    name: str,
    transactional_id: str,
    group: str,
    check: Callable[[TaskClients[ReaderToCut]], None],
) -> int:
    """Write what waits in a partition, from where an earlier attempt has come to.

    Args:
        config: of a task.
        waiting: the partition.
        end: of it.
        name: of the clients.
        transactional_id: of the task whose outputs they are.
        group: where it is committed how far this has come.
        check: raises if somebody else does this by now.

    Returns:
        How many records this attempt has written.

    Raises:
        HeadwaterError: as a StreamThread would end with.
    """
    clients = TaskClients(
        config,
        name=name,
        transactional_id=transactional_id,
        group=group,
        reader=partial(ReaderToCut, cut={waiting: end}),
    )
    timeout_s = config.request_timeout_ms / 1000
    try:
        clients.admin.check_reachable(timeout_s)
        clients.producer.init_transactions(timeout_s)
        check(clients)
        start = clients.admin.committed(group, [waiting])[waiting].offset
        with (
            tempfile.TemporaryDirectory(prefix="headwater-outputs-") as directory,
            closing(Newest(directory)) as newest,
        ):
            for records in _all(_second_reader(config, clients, group, waiting, end)):
                newest.note(records)
            wanted = newest.offsets(start)
            return _write(clients, waiting, start, end, wanted, batch_records(config), timeout_s)
    finally:
        clients.producer.discard()
        clients.consumer.close()


def _second_reader(
    config: StreamsConfig,
    clients: TaskClients[ReaderToCut],
    group: str,
    waiting: TopicPartition,
    end: int,
) -> ReaderToCut:
    settings = consumer_settings(
        config, clients.connection, client_id=f"{clients.access.client_id}-newest", group=group
    )
    reader = ReaderToCut(settings, clients.connection, cut={waiting: end})
    reader.assign({waiting: FROM_START})
    return reader


def _all(reader: ReaderToCut) -> Iterator[list[RawRecord]]:
    """Yield everything up to the cut."""
    try:
        while not reader.is_at_cut:
            for _, records in reader.poll(_POLL_S):
                yield records
            reader.take_lost()
    finally:
        reader.close()


def _write(
    clients: TaskClients[ReaderToCut],
    waiting: TopicPartition,
    start: int,
    end: int,
    wanted: Iterator[int],
    at_most: int,
    timeout_s: float,
) -> int:
    """Send the records at the offsets that are wanted; commit about ``at_most`` at a time."""
    producer, reader = clients.producer, clients.consumer
    senders: dict[str, Send] = {}
    following = next(wanted, end)
    written = open_records = 0
    due = time.monotonic() + _COMMIT_S
    reader.assign({waiting: start})
    producer.begin()
    while True:
        for _, records in reader.poll(_POLL_S):
            for record in records:
                if record[0] != following:
                    continue
                topic, key, value, timestamp, headers, partition = unpacked(record)
                if topic not in senders:
                    senders[topic] = producer.sender(topic)
                senders[topic](key, value, timestamp, headers, partition)
                open_records += 1
                following = next(wanted, end)
        reader.take_lost()
        producer.check()
        is_over = reader.is_at_cut
        if is_over or open_records >= at_most or time.monotonic() >= due:
            reached = end if is_over else (reader.next_offset(waiting) or start)
            offsets = PartitionOffsets(
                partition=waiting, offset=reached, metadata=encode(OffsetMetadata())
            )
            producer.add_offsets([offsets], reader.group_metadata, timeout_s)
            producer.flush(timeout_s)
            failpoints.hit("backfill.latest_acknowledged")
            producer.commit_transaction(timeout_s)
            failpoints.hit("backfill.latest_committed")
            written += open_records
            if is_over:
                return written
            producer.begin()
            open_records, due = 0, time.monotonic() + _COMMIT_S
