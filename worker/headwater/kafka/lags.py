"""Asks a broker how far groups are behind, and which groups there are."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient

from headwater.errors import HeadwaterError
from headwater.ids import TopicPartition
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.errors import ClientError, cause
from headwater.kafka.settings import admin_settings, consumer_settings
from headwater.model.lags import PartitionLag, rows_of
from headwater.model.partitions import plan, topics_to_describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId
    from headwater.kafka.access import Access
    from headwater.model.topics import TopologyReport

_OLDEST_S: Final = 3.0
_LIST_S: Final = 10.0
_EVERY_TOPIC: Final = "^.*"
"""A pattern (``model.patterns``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGroup:
    """A consumer group as brokers describe it.

    Attributes:
        group: its id.
        state: such as Stable, Empty or Dead.
        members: what its live members call themselves, and where they are.
    """

    group: str
    state: str
    members: tuple[str, ...] = ()


def lags_of(access: Access, group: str, report: TopologyReport | None) -> list[PartitionLag]:
    """Return how far a group is behind in every input partition.

    Args:
        access: to the broker.
        group: whose committed offsets.
        report: of the topology; without one, the partitions with committed offsets are shown.

    Raises:
        TopicError: the topics do not fit the topology.
        KafkaUnavailableError: nobody answered.
    """
    admin = access.admin
    tasks: Mapping[TopicPartition, TaskId] = {}
    if report is not None:
        described = admin.describe_topics(topics_to_describe(report))
        counts = {name: topic.partitions for name, topic in described.items()}
        inputs = plan(report, counts).inputs
        tasks = {partition: task for task, read in inputs.items() for partition in read}
        # Before the first start, repartition topics do not exist.
        wanted = [partition for partition in tasks if partition.topic in described]
    else:
        every = admin.describe_topics([_EVERY_TOPIC])
        wanted = [
            TopicPartition(name, number)
            for name, topic in every.items()
            for number in range(topic.partitions)
        ]
    committed = {p: one.offset for p, one in admin.committed(group, wanted).items()}
    shown = wanted if report is not None else sorted(committed)
    end = admin.end_offsets(shown, committed_only=access.config.exactly_once)
    return rows_of(tasks, committed, admin.earliest_offsets(shown), end)


def with_oldest(access: Access, rows: list[PartitionLag]) -> list[PartitionLag]:
    """Return the rows with the times of the first unread records, as far as they come at once."""
    wanted = {row.partition: max(row.committed or 0, row.first) for row in rows if row.lag}
    if not wanted:
        return rows
    settings = consumer_settings(
        access.config, access.connection, client_id=f"{access.client_id}-oldest"
    )
    settings |= {"fetch.message.max.bytes": 1_024, "queued.min.messages": 1}
    consumer = PartitionConsumer(settings, access.connection)
    found: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + _OLDEST_S
    try:
        consumer.assign(wanted)
        while found.keys() < wanted.keys() and time.monotonic() < deadline:
            for partition, records in consumer.poll(0.1):
                if partition not in found and records:
                    found[partition] = records[0][1]
                    consumer.pause([partition])
    except HeadwaterError:
        pass  # an age that cannot be had is left out
    finally:
        consumer.close()
    return [replace(row, oldest_ms=found.get(row.partition)) for row in rows]


def groups_of(access: Access) -> list[FoundGroup]:
    """Return every group that the brokers know.

    Raises:
        KafkaUnavailableError: nobody answered.
    """
    access.admin.check_reachable(_LIST_S)
    settings = admin_settings(
        access.config, access.connection, client_id=f"{access.client_id}-groups"
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            # The older request: see `kafka.groups`.
            listed: list[Any] = AdminClient(settings).list_groups(timeout=_LIST_S)
    except ClientError as error:
        raise access.connection.explain(error, "listing groups") from cause(error)
    return [
        FoundGroup(
            group=one.id,
            state=one.state or "Unknown",
            members=tuple(
                f"{member.client_id or member.id} at {(member.client_host or '?').lstrip('/')}"
                for member in one.members
            ),
        )
        for one in sorted(listed, key=lambda one: str(one.id))
    ]
