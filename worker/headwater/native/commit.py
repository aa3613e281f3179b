"""How a StreamThread commits: the order that keeps outputs, offsets, changelogs, stores in step."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater import failpoints
from headwater.errors import KafkaUnavailableError
from headwater.ports import Position
from headwater.wire import positions

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from concurrent.futures import Future

    from headwater.ids import TopicPartition
    from headwater.native.clients import TaskClients
    from headwater.native.opening import RunningTask
    from headwater.ports import Clock, PartitionOffsets


Ends: TypeAlias = "Mapping[TopicPartition, int]"
"""Where the changelogs end, as far as the broker has acknowledged them."""


class Committer:
    """Commits tasks of one StreamThread, all in one transaction under exactly-once.

    The broker is waited for in a second thread, so that the loop can go on working.

    Args:
        clients: the consumer names the group, and commits its offsets under at-least-once; the
            producer is flushed, and holds the transaction; the admin client is asked where the
            changelogs end.
        clock: stamps the positions.
    """

    def __init__(self, clients: TaskClients[Any], clock: Clock) -> None:
        config = self._config = clients.access.config
        self._consumer = clients.consumer
        self._producer = clients.producer
        self._admin = clients.admin
        self._clock = clock
        self._timeout_s = config.task_timeout_ms / 1000
        self._broker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
        self.commits = 0
        """Commits completed."""

    def commit(
        self,
        tasks: Sequence[RunningTask],
        topic_ids: Mapping[str, str],
        *,
        every_offset: bool = False,
    ) -> Generator[Future[Any], None, None]:
        """Commit, in this order; to be resumed whenever the future that it yields is done.

        1. Flush the record caches, which forwards what they held back, and send every changed
           entry to its changelog. Seal the stores and hold back what is sent from now on: records
           processed while this commit waits belong to the next.
        2. Flush the producer. A record that failed ends the commit here.
        3. Commit the offsets; under exactly-once as the last part of the transaction that holds
           the outputs and changelog records, too.
        4. Write the entries to the stores, with the changelog position that they correspond to,
           in one batch per store.
        5. Note what is committed.

        A crash after 1 or 2 leaves the offsets as they were: under exactly-once the transaction is
        aborted, under at-least-once records are processed again. After 3, stores are behind their
        changelog, which is read from the stored position on. No order of crashes puts a store
        ahead of its changelog.

        Args:
            tasks: those with something to commit.
            topic_ids: UUIDs of the changelog topics.
            every_offset: commit offsets that have not changed, too, so that none expires.
        """
        offsets: list[PartitionOffsets] = []
        sourced: dict[TopicPartition, int] = {}
        read: list[bytes] = []
        for running in tasks:
            changed = running.task.prepare_commit()
            current = running.task.offsets()
            offsets.extend(current if every_offset else changed)
            sourced |= {**running.start, **{o.partition: o.offset for o in current}}
            read.append(positions.encode_read((o.partition, o.offset) for o in current))
            for store in running.stores.values():
                store.seal()
        self._producer.hold()
        # A source topic that is a changelog goes, for us, as far as we have read it.
        changelogs = [
            p for running in tasks for p in running.changelogs.values() if p not in sourced
        ]
        failpoints.hit("commit.flushed")

        settling = self._broker.submit(self._settle, offsets, changelogs)
        yield settling
        ends = {**settling.result(), **sourced}
        self._producer.release()
        if offsets and not self._config.exactly_once:
            yield from self._commit_offsets(offsets)
        failpoints.hit("commit.offsets_committed")

        now_ms = self._clock.now_ms()
        for running, position in zip(tasks, read, strict=True):
            stored = dict.fromkeys(running.stores, Position("", 0, now_ms, read=position))
            for name, p in running.changelogs.items():
                stored[name] = Position(topic_ids[p.topic], ends[p], now_ms, read=position)
            running.task.post_commit(stored)
            failpoints.hit("commit.store_written")
        for running in tasks:
            running.committed.update(
                {o.partition: o.offset for o in offsets if o.partition in running.start}
            )
        self.commits += 1

    def close(self) -> None:
        """Let the second thread end; a commit that waits there is not waited for."""
        self._broker.shutdown(wait=False)

    def _settle(
        self, offsets: Sequence[PartitionOffsets], changelogs: Sequence[TopicPartition]
    ) -> Ends:
        """Step 2, step 3 of a transaction, and the ends of the changelogs; waits for the broker."""
        timeout_s = self._timeout_s
        if self._config.exactly_once:
            # They count only once the transaction is committed, so they may travel beside records.
            self._producer.add_offsets(offsets, self._consumer.group_metadata, timeout_s)
        self._producer.flush(timeout_s)
        failpoints.hit("commit.acknowledged")
        # All our records are in; what may follow are our own transaction markers.
        ends = self._admin.end_offsets_later(changelogs)
        if self._config.exactly_once:
            self._producer.commit_transaction(timeout_s)
        return ends()

    def _commit_offsets(
        self, offsets: Sequence[PartitionOffsets]
    ) -> Generator[Future[Any], None, None]:
        """Commit offsets under at-least-once, again while nobody answers."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            committing = self._consumer.commit_later(offsets)
            yield committing
            error = committing.exception()
            if error is None:
                return
            if not isinstance(error, KafkaUnavailableError) or time.monotonic() > deadline:
                raise error
