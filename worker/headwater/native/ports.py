"""What a loop needs of its clients: Kafka's in a process, the memory of a test driver elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from headwater.ids import TopicPartition
    from headwater.kafka.committed import CommittedOffset
    from headwater.model.offset_reset import OffsetReset
    from headwater.native.opening import RunningTask
    from headwater.ports import Records


class Reader(Protocol):
    """Reads the partitions of a loop's tasks; ``kafka.consumer.PartitionConsumer`` is one."""

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, too, from these offsets on."""
        ...

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        ...

    def poll(self, timeout_s: float) -> Sequence[tuple[TopicPartition, Records]]:
        """Return what is there, waiting for it at most ``timeout_s`` seconds."""
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing more of these until they are resumed."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``."""
        ...

    def take_lost(self) -> list[TopicPartition]:
        """Return, once, the partitions whose next offset is not on the broker."""
        ...

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return the end offset if everything before it was returned, else ``None``."""
        ...


class Output(Protocol):
    """Where a loop's tasks send to; ``kafka.producer.StreamsProducer`` is one."""

    @property
    def is_congested(self) -> bool:
        """Whether so much waits to be sent that nothing should be processed."""
        ...

    @property
    def held(self) -> int:
        """How many records are held back while a commit waits."""
        ...

    @property
    def queued(self) -> int:
        """How many records the broker has not acknowledged."""
        ...

    @property
    def is_transaction_open(self) -> bool:
        """Whether something was sent in a transaction that is not committed."""
        ...

    def begin(self) -> None:
        """Begin a transaction, if there are any and none is open."""
        ...

    def check(self) -> None:
        """Raise what has gone wrong with a delivery."""
        ...

    def drain(self, timeout_s: float) -> bool:
        """Wait for deliveries; return whether none is left."""
        ...

    def abort_transaction(self, timeout_s: float) -> None:
        """Take back what was not committed, as far as that is possible."""
        ...

    def settle_refused(self) -> None:
        """All that was processed before an output was refused is committed by now."""
        ...


class Offsets(Protocol):
    """What a loop asks about topics and offsets; ``native.opening.TaskOpener`` answers."""

    @property
    def repartition_topics(self) -> frozenset[str]:
        """The broker's names of all repartition topics."""
        ...

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the UUIDs of topics."""
        ...

    def reset_policy(self, topic: str) -> OffsetReset:
        """Return where a partition of ``topic`` is read from without a committed offset."""
        ...

    def offset_since(self, partition: TopicPartition, duration_ms: int) -> int | None:
        """Return where the records begin that are not older than ``duration_ms``, if any is."""
        ...

    def committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """Return the committed offsets of those that have one."""
        ...


class Commit(Protocol):
    """Carries out a commit; ``native.commit.Committer`` does it with a broker."""

    def commit(
        self,
        tasks: Sequence[RunningTask],
        topic_ids: Mapping[str, str],
        *,
        every_offset: bool = False,
    ) -> Generator[Future[Any], None, None]:
        """Commit tasks; each future that is yielded is to be done before the next step."""
        ...


class Purger(Protocol):
    """Deletes records; ``kafka.admin.Admin`` is one."""

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Iterable[Future[object]]:
        """Delete what lies before these offsets."""
        ...


class LoopClients(Protocol):
    """The clients of one loop, which belong together; ``native.clients.TaskClients`` are some."""

    @property
    def consumer(self) -> Reader:
        """Reads the tasks' partitions."""
        ...

    @property
    def producer(self) -> Output:
        """Where tasks send to."""
        ...

    @property
    def admin(self) -> Purger:
        """Purges."""
        ...

    @property
    def connection(self) -> BrokerState:
        """Asked whether a broker is there."""
        ...


class BrokerState(Protocol):
    """Whether a broker answers; ``kafka.errors.Connection`` knows."""

    @property
    def lost_for_s(self) -> float:
        """For how long none has answered, in seconds; 0 if one does."""
        ...

    def problem(self, doing: str) -> Exception:
        """Return the error that says so."""
        ...
