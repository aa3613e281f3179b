"""Fills the global stores of one process from their topics, and follows these.

    bootstrap   from the beginning of every partition to where it ended just now, before any task
    update      what has come since, between two turns of the loop

The consumer is in no group and commits nothing: a process that starts reads everything anew. Only
committed records are read.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import KafkaUnavailableError, MissingTopicError, StateError
from headwater.kafka.consumer import FROM_START
from headwater.native.cutoff import CutOffWatch
from headwater.native.global_stores import GlobalStores, global_topics
from headwater.native.watching import TopicWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ids import TopicPartition
    from headwater.kafka.consumer import PartitionConsumer
    from headwater.model.topology import Topology
    from headwater.native.clients import TaskClients
    from headwater.ports import Clock
    from headwater.processor.environment import GlobalStore

log = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_STALLED_S: Final = 60.0
_POLLS_MAX: Final = 4
"""So many batches are applied between two turns of the loop; tasks have to go on, too."""


class GlobalReader:
    """Keeps the global stores of a process (what Kafka's ``GlobalStreamThread`` does).

    It has no thread: whoever runs tasks calls ``update`` between their records, so that neither
    waits for the other in the middle of a record.

    Args:
        topology: names the stores.
        clients: make the consumer, and know the broker.
        clock: the wall clock.
        heartbeat: called now and then while stores are filled.

    Attributes:
        stores: the stores by name; empty before ``bootstrap``.
    """

    def __init__(
        self,
        topology: Topology,
        clients: TaskClients[Any],
        clock: Clock,
        heartbeat: Callable[[], None],
    ) -> None:
        self.stores: dict[str, GlobalStore] = {}
        self._topology = topology
        self._clients = clients
        self._clock = clock
        self._heartbeat = heartbeat
        self._topics = global_topics(topology)
        self._kept: GlobalStores | None = None
        self._consumer: PartitionConsumer | None = None
        self._watch = TopicWatch(clients.admin, clients.connection)
        self._cut_off: CutOffWatch | None = None

    def bootstrap(self) -> None:
        """Fill all stores up to the present ends of their topics; does nothing the second time.

        Raises:
            KafkaUnavailableError: nothing came for a minute.
            MissingTopicError: a topic does not exist.
            RecordError: a record could not be handled and its handler said FAIL.
        """
        if self._kept is not None or not self._topics:
            return
        began = time.monotonic()
        config, admin = self._clients.access.config, self._clients.admin
        found = admin.describe_topics(self._topics)
        if absent := sorted(set(self._topics) - found.keys()):
            raise MissingTopicError(
                f"topic {absent[0]} does not exist, and a global store is made of it; create it"
            )
        counts = {topic: about.partitions for topic, about in found.items()}
        kept = GlobalStores(self._topology, config, counts, self._clock, log.warning)
        self._kept = kept
        self._watch.watch({topic: about.topic_id for topic, about in found.items()})
        consumer = self._consumer = self._clients.global_consumer()
        self._cut_off = CutOffWatch(consumer, admin, committed_only=True)
        first = admin.earliest_offsets(kept.partitions)
        ends = admin.end_offsets(kept.partitions, committed_only=True)
        consumer.assign(dict.fromkeys(kept.partitions, FROM_START))
        self._read_to({p: end for p, end in ends.items() if end > first[p]})
        self.stores |= kept.stores
        names, took = ", ".join(self.stores), time.monotonic() - began
        log.info("global stores %s: filled from their topics in %.1f s", names, took)

    def update(self) -> None:
        """Apply what has come, without waiting for anything.

        Raises:
            KafkaUnavailableError: the client has lost its brokers.
            MissingTopicError: a topic was deleted.
            RecordError: a record could not be handled and its handler said FAIL.
            StateError: records were deleted before they could be read.
        """
        if self._kept is None or self._consumer is None or self._cut_off is None:
            return
        for _ in range(_POLLS_MAX):
            self._apply(0.0)
            if not self._consumer.has_backlog:
                break
        self._cut_off.check(self._assigned)
        for topic, count in self._watch.check().items():
            if added := self._kept.grow(topic, count):
                log.info("partitions were added to %s: reading %d more", topic, len(added))
                self._consumer.assign(dict.fromkeys(added, FROM_START))

    def close(self) -> None:
        """Close the processors and their stores, and leave the broker."""
        if self._kept is not None:
            self._kept.close()
        if self._consumer is not None:
            self._consumer.close()

    def _assigned(self) -> list[TopicPartition]:
        return [] if self._consumer is None else list(self._consumer.assigned)

    def _read_to(self, ends: dict[TopicPartition, int]) -> None:
        assert self._consumer is not None
        moved_at = time.monotonic()
        while ends:
            if self._apply(_POLL_S):
                moved_at = time.monotonic()
            reached = [p for p, end in ends.items() if (self._consumer.position(p) or 0) >= end]
            for partition in reached:
                del ends[partition]
            if time.monotonic() - moved_at > _STALLED_S and ends:
                partition, end = next(iter(ends.items()))
                raise KafkaUnavailableError(
                    f"nothing new of {partition} for {_STALLED_S:.0f} s while a global store is "
                    f"filled up to offset {end}; check the broker"
                )
            self._heartbeat()

    def _apply(self, timeout_s: float) -> bool:
        """Apply the next batch; return whether there was one."""
        assert self._consumer is not None
        assert self._kept is not None
        batches = self._consumer.poll(timeout_s)
        for partition, records in batches:
            self._kept.update(partition, records)
        if lost := self._consumer.take_lost():
            raise StateError(
                f"{lost[0]}: records of a global store were deleted before they were read; a new "
                "process fills the store from what is left"
            )
        return bool(batches)
