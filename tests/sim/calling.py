"""StreamThreads whose functions wait: real StreamTasks, with calls in flight at any moment.

Tasks, their stages and stores are the product's, and so is what a commit covers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater import Serdes
from headwater.errors import FencedError, ProcessingError
from headwater.ids import TopicPartition
from headwater.model.reporting import changelog_topic, decorate
from headwater.ports import Position
from headwater.processor.task import StreamTask
from headwater.state import open_store
from headwater.wire import positions
from tests.sim.broker import ProducerFencedError
from tests.sim.calls import CONFIG, ModelCallers, topology
from tests.sim.clients import ModelBackend, ModelClock, ModelCollector
from tests.sim.loop import Loop
from tests.sim.thread import RunningTask, Thread
from tests.sim.worker import Worker
from tests.sim.world import CHANGELOG, GROUP, WORDS, ViolationError, inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.ids import TaskId
    from headwater.ports import RawRecord
    from headwater.state import LayeredStore
    from tests.sim.broker import Record
    from tests.sim.world import Store


@dataclass
class CallingTask(RunningTask):
    """A StreamTask on a thread."""

    task: StreamTask = field(kw_only=True)
    stores: dict[str, LayeredStore] = field(kw_only=True)
    fetched: int = field(kw_only=True)
    """Up to where its input was read into its buffer."""

    @property
    def has_uncommitted(self) -> bool:
        return self.task.commit_needed or self.task.uncommitted_bytes() > 0


class CallingThread(Thread):
    """One incarnation of one slot, whose functions wait."""

    order = "key"
    task_type: type[StreamTask] = StreamTask

    def __init__(self, worker: Worker, slot: int) -> None:
        self.wants_commit = False
        super().__init__(worker, slot)
        self.callers = ModelCallers(self)
        self.collector = ModelCollector(self.producer)

    @property
    def running(self) -> list[CallingTask]:
        """Its tasks."""
        return [task for task in self.tasks.values() if isinstance(task, CallingTask)]

    def work(self) -> Iterator[int]:
        try:
            yield from super().work()
        except FencedError as error:
            raise ProducerFencedError(str(error)) from error
        except ProcessingError as error:
            if isinstance(error.__cause__, ViolationError):
                raise error.__cause__ from None
            raise

    def opened(self, task: TaskId, committed: int, store: Store | None) -> RunningTask:
        """Open a StreamTask as a StreamThread does."""
        part = topology(self.order).subtopologies[task.subtopology]
        stores: dict[str, LayeredStore] = {}
        for spec in part.stores:
            assert store is not None
            stores[spec.name] = open_store(
                spec,
                task=task,
                changelog_topic=changelog_topic(GROUP, spec.name),
                backend=ModelBackend(store),
                cache=None,
                changelog_send=self.collector.sender(changelog_topic(GROUP, spec.name)),
                key_serde=Serdes.string,
                value_serde=Serdes.long,
            )
        made = self.task_type(
            task_id=task,
            subtopology=part,
            partitions=[inputs_of(task)],
            config=CONFIG[self.world.exactly_once],
            collector=self.collector,
            stores=stores,
            clock=ModelClock(self.world),
            topic_name=lambda topic: decorate(GROUP, topic) if "repartition" in topic else topic,
            warn=self.world.note,
            callers=self.callers,
        )
        made.restore_metadata({inputs_of(task): (committed, None)})
        made.initialize()
        return CallingTask(
            task, committed, committed, store, task=made, stores=stores, fetched=committed
        )

    def close(self, task: TaskId, epoch: int) -> None:
        running = self.tasks.get(task)
        if isinstance(running, CallingTask):
            running.task.close()
        super().close(task, epoch)

    # ---- records -------------------------------------------------------------------------------

    def process(self) -> Iterator[int]:
        """Process a few records of each task; return whether there is more to do."""
        yield from self.add()
        if self.is_paused:
            return False
        return (yield from self.turn())

    def turn(self) -> Iterator[int]:
        """Process a few records of each task; return whether there is more to do."""
        worked = False
        for running in self.world.rng.sample(self.running, len(self.running)):
            self.fetch(running)
            taken = running.task.process(self.world.rng.randint(1, 6), self.world.now_ms)
            self.processed += taken
            if running.task.pending:
                self.at("calls in flight")
            if taken or running.task.pending:
                worked = True
                yield 1
        return worked

    def fetch(self, running: CallingTask) -> None:
        """Read a few records into a task's buffer."""
        partition = inputs_of(running.id)
        if running.task.buffered(partition) > 4:
            return
        records, running.fetched = self.world.broker.read_committed(partition, running.fetched, 6)
        if records:
            running.task.add_records(
                partition, [self.raw(running.id, record) for record in records]
            )

    def raw(self, task: TaskId, record: Record) -> RawRecord:
        """Return a record as it is read: its key is a word, its value the number of the input."""
        number, word = record.value if task.subtopology == 0 else (record.value, record.key)
        return record.offset, record.offset, str(word).encode(), str(number).encode(), None

    # ---- commits -------------------------------------------------------------------------------

    def commit_if_due(self) -> Iterator[int]:
        """Have the tasks settle when a commit is due, and commit once all have."""
        if self.is_due:
            self.committed_ms = self.world.now_ms
            self.observe_positions()
            self.wants_commit = True
        self.wants_commit = self.wants_commit and self.is_needed()
        if self.wants_commit and self.settles():
            yield from self.commit_settled(works_ahead=True)

    def commit(self) -> Iterator[int]:
        """Commit, and wait for the calls in flight."""
        self.observe_positions()
        if not self.is_needed():
            return
        while not self.settles():
            self.at("settling")
            yield 5
        yield from self.commit_settled()

    def observe_positions(self) -> None:
        """Pass transaction markers."""
        for running in self.running:
            running.task.observe_position(inputs_of(running.id), running.fetched)

    def is_needed(self) -> bool:
        """Whether there is anything to commit."""
        return any(running.task.commit_needed for running in self.running) or self.producer.is_open

    def settles(self) -> bool:
        """Let calls in flight end; return whether nothing waits inside any task."""
        settled = [running.task.settle() for running in self.running]
        return all(settled)

    def commit_settled(self, *, works_ahead: bool = False) -> Iterator[int]:
        """Commit what is complete: changelogs, offsets, then the stores.

        Args:
            works_ahead: records are processed for the next commit while the broker is waited for.
        """
        self.wants_commit = False
        self.committed_ms = self.world.now_ms
        dirty = [running for running in self.running if running.task.commit_needed]
        for running in dirty:
            running.task.prepare_commit()
            running.position = self.offset_of(running)
            for store in running.stores.values():
                store.seal()
            yield 1
        self.check_complete(dirty)
        if not self.producer.is_open:
            self.producer.begin()
        self.producer.send_offsets(
            GROUP, {inputs_of(running.id): running.position for running in dirty}
        )
        self.collector.hold()
        for running in self.running:
            running.task.resume()
        self.at("before commit")
        yield 2
        for _ in range(self.world.rng.randint(0, 5) if works_ahead else 0):
            yield from self.turn()
            yield 5
        if self.world.exactly_once and self.world.rng.random() < 0.05:
            self.go_back()
            return
        self.check_offsets(dirty)
        self.producer.commit()
        self.at("committed, not stored")
        yield 2
        stored = [(running, self.positions_of(running)) for running in dirty]
        self.collector.release()
        for running, position in stored:
            running.committed = running.position
            running.task.post_commit(position)
            yield 1

    def offset_of(self, running: CallingTask) -> int:
        """Return what is to be committed for the one input of a task."""
        (offsets,) = running.task.offsets()
        return offsets.offset

    def positions_of(self, running: CallingTask) -> dict[str, Position]:
        """Return up to where the changelog holds what was committed."""
        if running.store is None:
            return {}
        end = self.collector.ends.get(TopicPartition(CHANGELOG, running.id.partition))
        at = running.store.position if end is None else end
        read = positions.encode_read([(inputs_of(running.id), running.position)])
        return {"counts": Position("counts", at, self.world.now_ms, read=read)}

    def check_complete(self, dirty: list[CallingTask]) -> None:
        """A commit covers the inputs whose outputs were sent since the last one, and no others."""
        for topic, sent in self.collector.sent.items():
            covered = {
                number
                for running in dirty
                if (topic == WORDS) == (running.id.subtopology == 0)
                for number in self.inputs_of(running)
            }
            if missing := sorted(covered - sent):
                raise ViolationError(f"{self.name} commits inputs {missing} without their results")
            if beyond := sorted(sent - covered):
                raise ViolationError(f"{self.name} commits the results of {beyond} without inputs")

    def inputs_of(self, running: CallingTask) -> Iterator[int]:
        """Yield the numbers of the inputs that are about to be committed."""
        records, _ = self.world.broker.read_committed(inputs_of(running.id), running.committed)
        for record in records:
            if record.offset < running.position:
                yield record.value[0] if running.id.subtopology == 0 else record.value

    def go_back(self) -> None:
        """A broker has refused an output: forget everything since the last commit."""
        self.world.note(f"{self.name} goes back to its last commit")
        self.producer.abort()
        self.collector.forget()
        for running in self.running:
            running.task.abort()
            running.position = running.fetched = running.committed


class CallingWorker(Worker):
    thread_type = CallingThread


class Calling(Loop):
    """Its StreamThreads have functions that wait."""

    worker_type = CallingWorker
