"""Reads a piece of a partition in a Python worker of Spark, as Arrow batches of bounded size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headwater.config import StreamsConfig
from headwater.errors import EnvironmentProblemError
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.errors import Connection
from headwater.kafka.settings import consumer_settings
from headwater.spark.reader import ReaderToCut
from headwater.spark.tables.columns import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater.ids import TopicPartition
    from headwater.spark.tables.spans import Span

_BATCH_RECORDS: Final = 10_000
_POLL_S: Final = 0.5
_SILENCE_S: Final = 60.0


class _PieceReader(ReaderToCut):
    """Knows that records are gone, in the words of somebody who only looks."""

    def take_lost(self) -> list[TopicPartition]:
        """Raise if records were deleted before they were read."""
        lost = PartitionConsumer.take_lost(self)
        if lost:
            raise EnvironmentProblemError(
                f"{', '.join(map(str, lost))}: records that were to be read have been deleted "
                "meanwhile (by retention, or somebody purged the topic); read the topic again"
            )
        return []


def read_piece(config: Mapping[str, str | int | float | bool], span: Span) -> Iterator[Any]:
    """Yield the committed records of ``span`` as Arrow batches.

    Not more than a batch and what the client fetches ahead is in memory.

    Raises:
        EnvironmentProblemError: records were deleted before they were read.
        KafkaUnavailableError: nobody has answered for a minute.
    """
    parsed = StreamsConfig.parse(config)
    connection = Connection(parsed.bootstrap_servers)
    client_id = f"{parsed.client_id or parsed.application_id}-look"
    settings = consumer_settings(parsed, connection, client_id=client_id, role="global")
    partition = span.partition
    reader = _PieceReader(
        settings, connection, batch_records=_BATCH_RECORDS, cut={partition: span.end}
    )
    try:
        reader.assign({partition: span.start})
        heard = time.monotonic()
        while not reader.is_at_cut:
            before = reader.position(partition)
            for _, records in reader.poll(_POLL_S):
                yield batch_of(partition, records)
            reader.take_lost()
            if reader.position(partition) != before:
                heard = time.monotonic()
            elif time.monotonic() > heard + _SILENCE_S:
                raise connection.problem(f"reading {partition}")
    finally:
        reader.close()
