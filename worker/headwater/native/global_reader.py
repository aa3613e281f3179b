"""Fills global stores from their topics, and follows these.

    bootstrap   of every partition up to where it ended just now, before any task
    update      what has come since

A GlobalStreamThread keeps those that lie on a disk, and goes on at their positions. Copies in
memory are filled from the beginning. The consumer is in no group and commits nothing. Only
committed records are read.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from headwater import failpoints
from headwater.errors import KafkaUnavailableError, MissingTopicError, StoreCorruptedError
from headwater.kafka.consumer import FROM_START
from headwater.model.metrics import Snapshot
from headwater.model.restoring import RestoreStep
from headwater.native.cutoff import CutOffWatch
from headwater.native.global_stores import GlobalStores
from headwater.native.messages import StoreRestore
from headwater.native.watching import Advice, TopicWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.ids import TopicPartition
    from headwater.kafka.access import Access
    from headwater.kafka.consumer import PartitionConsumer
    from headwater.kafka.topics import TopicDescription
    from headwater.measuring.task import Measures
    from headwater.model.nodes import Subtopology
    from headwater.native.global_places import GlobalPlaces
    from headwater.ports import Clock
    from headwater.processor.environment import GlobalStore

log = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_STALLED_S: Final = 60.0
_COMPLETE_S: Final = 30.0
_ADVICE: Final = Advice(
    "was deleted while a global store is made of it; create it again and fill it, then start the "
    "application: the store is filled anew",
    "was deleted and created again while a global store is made of it; start the application "
    "again: the store is filled anew from what the topic holds now",
)
_POLLS_MAX: Final = 4
"""So many batches are applied between two turns of the loop; tasks have to go on, too."""


def check_topics(topics: Iterable[str], found: Mapping[str, TopicDescription]) -> None:
    """Check that global stores can be made of their topics.

    Raises:
        MissingTopicError: one does not exist, or has no partitions.
    """
    if absent := sorted(set(topics) - found.keys()):
        raise MissingTopicError(
            f"topic {absent[0]} does not exist, and a global store is made of it; create it"
        )
    if empty := sorted(topic for topic, about in found.items() if not about.partitions):
        raise MissingTopicError(
            f"topic {empty[0]} has no partitions, and a global store is made of it; delete it "
            "and create it again"
        )


class GlobalReader:
    """Keeps the global stores of a process.

    It has no thread: whoever runs it calls ``update``, a StreamThread between its records.

    Args:
        groups: the sub-topologies of the stores.
        access: to the broker.
        consumer: makes what reads the topics.
        clock: the wall clock.
        heartbeat: called now and then while stores are filled, and in long batches.
        places: where the stores lie; in memory if not given.
        measures: what is measured; nothing if not given.
        tell: told how stores are filled, if somebody listens.

    Attributes:
        stores: the stores by name; empty before ``bootstrap``.
        records: how many were read.
        remaining: how many offsets are left to read before the stores are filled.
    """

    def __init__(
        self,
        groups: Iterable[Subtopology],
        access: Access,
        consumer: Callable[[], PartitionConsumer],
        clock: Clock,
        heartbeat: Callable[[], None],
        places: GlobalPlaces | None = None,
        measures: Measures | None = None,
        tell: Callable[[StoreRestore], object] | None = None,
    ) -> None:
        self.stores: dict[str, GlobalStore] = {}
        self.records = self.remaining = 0
        self._groups = tuple(groups)
        self._access = access
        self._make_consumer = consumer
        self._clock = clock
        self._heartbeat = heartbeat
        self._places = places
        self._measures = measures
        self._tell_main = tell
        self._restored: Counter[TopicPartition] = Counter()
        self._topics = tuple(topic for group in self._groups for topic in group.source_topics)
        self._kept: GlobalStores | None = None
        self._consumer: PartitionConsumer | None = None
        self._watch = TopicWatch(access.admin, access.connection, _ADVICE)
        self._cut_off: CutOffWatch | None = None
        self._complete_due = 0.0
        self._filling = True

    def bootstrap(self) -> None:
        """Fill all stores up to the present ends of their topics; does nothing the second time.

        Raises:
            KafkaUnavailableError: nothing came for a minute.
            MissingTopicError: a topic does not exist.
            RecordError: a record could not be handled and its handler said FAIL.
            StateError: a store on a disk cannot be opened.
        """
        if self._kept is not None or not self._topics:
            return
        began = time.monotonic()
        admin = self._access.admin
        found = admin.describe_topics(self._topics)
        check_topics(self._topics, found)
        asked_at_ms = self._clock.now_ms()
        kept, start = self._opened(found, asked_at_ms)
        self._kept = kept
        self._watch.watch({topic: about.topic_id for topic, about in found.items()})
        consumer = self._consumer = self._make_consumer()
        self._cut_off = CutOffWatch(consumer, admin, committed_only=True)
        first = admin.earliest_offsets(kept.partitions)
        ends = admin.end_offsets(kept.partitions, committed_only=True)
        consumer.assign({p: start.get(p, FROM_START) for p in kept.partitions})
        for partition, end in ends.items():
            self._tell(RestoreStep.START, partition, start.get(partition, first[partition]), end)
        self._read_to({p: end for p, end in ends.items() if end > start.get(p, first[p])}, start)
        for partition in ends:
            self._tell(RestoreStep.END, partition, self._restored[partition])
        for topic in self._topics:
            self._complete(topic, asked_at_ms, filled=True)
        self._filling = False
        self.stores |= kept.stores
        names, took = ", ".join(self.stores), time.monotonic() - began
        log.info("global stores %s: filled in %.1f s, %d records", names, took, self.records)

    def _opened(
        self, found: Mapping[str, TopicDescription], now_ms: int
    ) -> tuple[GlobalStores, dict[TopicPartition, int]]:
        """Open the stores; return them, and from where partitions are read that have a position."""
        counts = {topic: about.partitions for topic, about in found.items()}
        config, places = self._access.config, self._places
        if places is None:
            return GlobalStores(self._groups, config, counts, self._clock, log.warning), {}
        start = places.open(self._groups, found, self._access.admin, now_ms)
        kept = GlobalStores(
            self._groups,
            config,
            counts,
            self._clock,
            log.warning,
            places.backend_of,
            self._heartbeat,
            self._measures,
        )
        return kept, start

    def update(self, timeout_s: float = 0.0) -> None:
        """Apply what has come.

        Args:
            timeout_s: so long it is waited for the first record.

        Raises:
            KafkaUnavailableError: the client has lost its brokers.
            MissingTopicError: a topic was deleted.
            RecordError: a record could not be handled and its handler said FAIL.
            StoreCorruptedError: records were deleted before they could be read.
        """
        if self._kept is None or self._consumer is None or self._cut_off is None:
            return
        for _ in range(_POLLS_MAX):
            self._apply(timeout_s)
            if not self._consumer.has_backlog:
                break
        self._cut_off.check(self._assigned)
        for topic, count in self._watch.check().items():
            if added := self._kept.grow(topic, count):
                log.info("partitions were added to %s: reading %d more", topic, len(added))
                if self._places is not None:
                    self._places.grow(added)
                self._consumer.assign(dict.fromkeys(added, FROM_START))
        if self._places is not None and time.monotonic() >= self._complete_due:
            self._note_what_is_complete()

    def measured(self, now_s: float) -> Snapshot:
        """Return what is measured of the stores; nothing before they are open."""
        return Snapshot() if self._kept is None else self._kept.measured(now_s)

    def close(self) -> None:
        """Close the processors and their stores, and leave the broker."""
        if self._kept is not None:
            self._kept.close()
        if self._consumer is not None:
            self._consumer.close()

    def _assigned(self) -> list[TopicPartition]:
        return [] if self._consumer is None else list(self._consumer.assigned)

    def _read_to(
        self, ends: dict[TopicPartition, int], start: Mapping[TopicPartition, int]
    ) -> None:
        assert self._consumer is not None
        moved_at = time.monotonic()
        while ends:
            has_moved = self._apply(_POLL_S)
            if has_moved:
                moved_at = time.monotonic()
            reached = {p: self._consumer.position(p) or start.get(p, 0) for p in ends}
            for partition in [p for p, offset in reached.items() if offset >= ends[p]]:
                del ends[partition]
            self.remaining = sum(end - reached[p] for p, end in ends.items())
            if has_moved:
                failpoints.hit("globals.filling")
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
            self.records += len(records)
            if self._filling:
                self._restored[partition] += len(records)
                self._tell(RestoreStep.BATCH, partition, records[-1][0], len(records))
            if self._places is None:
                self._kept.update(partition, records, filling=self._filling)
                continue
            position = self._places.position(partition, records[-1][0] + 1)
            self._kept.update(partition, records, position, filling=self._filling)
            self._places.publish(partition.topic)
        if lost := self._consumer.take_lost():
            raise StoreCorruptedError(
                f"{lost[0]}: records of a global store were deleted before they were read; the "
                "store is filled anew from what is left"
            )
        return bool(batches)

    def _tell(self, step: RestoreStep, partition: TopicPartition, *numbers: int) -> None:
        if self._tell_main is not None and self._kept is not None:
            store = self._kept.tasks[partition.topic].name
            self._tell_main(
                StoreRestore(step=step, partition=partition, store=store, numbers=numbers)
            )

    def _note_what_is_complete(self) -> None:
        """Remember now and then that nothing is missing: an old position is not trusted."""
        assert self._consumer is not None
        self._complete_due = time.monotonic() + _COMPLETE_S
        at_ms = self._clock.now_ms()
        for topic in self._topics:
            partitions = [p for p in self._consumer.assigned if p.topic == topic]
            if all(self._consumer.end_of(p) is not None for p in partitions):
                self._complete(topic, at_ms)

    def _complete(self, topic: str, at_ms: int, *, filled: bool = False) -> None:
        """Write that a store has had everything at a time, markers of transactions included."""
        places, kept, consumer = self._places, self._kept, self._consumer
        if places is None or kept is None or consumer is None:
            return
        for partition in kept.tasks[topic].partitions:
            if (offset := consumer.position(partition)) is not None:
                places.position(partition, offset)
        kept.tasks[topic].commit(places.complete(topic, at_ms))
        places.publish(topic, filled=filled)
