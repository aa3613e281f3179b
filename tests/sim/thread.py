"""A model StreamThread and a model StateUpdater: processes of a worker that touch the broker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.ids import SlotId, TaskId, TopicPartition
from headwater.model.metrics import THREAD_PROCESS, TRANSACTION_OPEN, Snapshot
from headwater.native.messages import (
    AddTasks,
    Cancelled,
    CancelRestore,
    Failed,
    Follow,
    Following,
    Go,
    Initialized,
    LeaseRenewed,
    Locate,
    Pause,
    Paused,
    Released,
    Restore,
    Restored,
    Resume,
    RevokeTasks,
    ShareCache,
    Stats,
    Stop,
    Stopped,
    TaskRunning,
)
from headwater.service.decide.observations import ThreadEnded, ThreadSaid, UpdaterEnded, UpdaterSaid
from headwater.wire import positions
from tests.sim.broker import ModelProducer, ProducerFencedError
from tests.sim.global_thread import check_table
from tests.sim.world import (
    CHANGELOG,
    GROUP,
    OUT,
    WORDS,
    Process,
    Store,
    ViolationError,
    inputs_of,
    partition_of,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sim.broker import Record
    from tests.sim.worker import Worker

COMMIT_INTERVAL_MS = 300


@dataclass
class RunningTask:
    """A task on a thread."""

    id: TaskId
    committed: int
    position: int
    store: Store | None
    changed: dict[str, int] = field(default_factory=dict)
    """Written since the last commit."""
    unsent: set[str] = field(default_factory=set)
    """Keys of ``changed`` that the changelog does not have yet."""
    changelog_end: int | None = None
    """The offset after this task's last entry in the changelog."""

    @property
    def has_uncommitted(self) -> bool:
        """Whether its store lacks what it has written."""
        return bool(self.changed)

    def count(self, word: str) -> int:
        """Add one to a word's count and return it."""
        assert self.store is not None
        count = self.changed.get(word, self.store.data.get(word, 0)) + 1
        self.changed[word] = count
        self.unsent.add(word)
        return count


class Thread(Process):
    """One incarnation of one slot."""

    def __init__(self, worker: Worker, slot: int) -> None:
        self.worker = worker
        self.slot = slot
        self.inbox: deque[object] = deque()
        self.tasks: dict[TaskId, RunningTask] = {}
        self.adding: list[TaskId] = []
        self.lease_until_ms: int | None = None
        self.may_go = False
        self.is_paused = False
        self.id = SlotId(worker.worker, slot)
        tid = self.id.transactional_id("app")
        self.producer = ModelProducer(
            worker.world.broker, tid if worker.world.exactly_once else None
        )
        self.committed_ms = worker.world.now_ms
        self.processed = 0
        super().__init__(worker.world, f"{worker.name}/thread-{slot}")

    def on_end(self) -> None:
        if self.worker.alive:
            self.worker.inbox.append(ThreadEnded(slot=self.slot, exit_code=0))

    def say(self, message: object) -> None:
        """Send a message to the main process."""
        if self.worker.alive:
            self.worker.inbox.append(ThreadSaid(slot=self.slot, message=message))

    def run(self) -> Iterator[int]:
        self.at("starting")
        yield self.world.rng.randint(50, 800)
        try:
            yield from self.work()
        except ProducerFencedError:
            self.world.note(f"{self.name} finds itself fenced")
            self.say(Failed(error="FencedError", message="fenced", fenced=True))

    def work(self) -> Iterator[int]:
        """Initialise, wait for the word, process until told to stop."""
        self.at("before init")
        yield 1
        self.producer.init()
        self.at("after init")
        yield 5
        self.say(Initialized())
        self.at("waiting to go")
        spoke_ms = self.world.now_ms
        while True:
            if self.lease_until_ms is not None and self.world.now_ms > self.lease_until_ms:
                return
            if self.inbox:
                message = self.inbox.popleft()
                if isinstance(message, Stop):
                    yield from self.commit()
                    self.say(Stopped())
                    return
                yield from self.obey(message)
            worked = yield from self.process()
            yield from self.commit_if_due()
            if self.world.now_ms - spoke_ms > 1_000:
                spoke_ms = self.world.now_ms
                told = {THREAD_PROCESS: self.processed, TRANSACTION_OPEN: self.producer.is_open}
                numbers = Snapshot.of(told, self.id.thread_id)
                self.say(Stats(numbers=numbers, busy_s=self.busy_s()))
            yield 5 if worked or self.adding else 150

    def busy_s(self) -> dict[TaskId, float]:
        """Say of tasks with even partitions that they take all the time, so that some move."""
        return {
            task: 0.0 if task.partition % 2 else self.world.now_ms / 2_000 for task in self.tasks
        }

    def obey(self, message: object) -> Iterator[int]:
        """Carry out one message."""
        match message:
            case Go():
                self.may_go = True
            case AddTasks(tasks=tasks):
                self.adding.extend(tasks)
            case RevokeTasks(tasks=tasks, epoch=epoch):
                yield from self.revoke(tasks, epoch)
            case LeaseRenewed(until_boot_ms=until_ms):
                self.lease_until_ms = until_ms
            case ShareCache():
                yield from self.commit()
            case Pause():
                yield from self.pause()
            case Resume():
                self.is_paused = False
            case Locate():
                pass  # The whole process was frozen, and the thread hangs no more.
            case _:
                raise AssertionError(message)

    def pause(self) -> Iterator[int]:
        """Commit, say so, and process nothing more."""
        self.at("pausing")
        yield 1
        yield from self.commit()
        self.is_paused = True
        self.say(Paused())

    def revoke(self, tasks: tuple[TaskId, ...], epoch: int) -> Iterator[int]:
        """Commit, close, say so."""
        self.at("revoking")
        yield 1
        yield from self.commit()
        for task in tasks:
            self.close(task, epoch)
            yield 2

    def close(self, task: TaskId, epoch: int) -> None:
        """Give one task back."""
        if task in self.adding:
            self.adding.remove(task)
        running = self.tasks.pop(task, None)
        offsets: dict[str, int] = {}
        if running is not None:
            offsets = {str(inputs_of(task)): running.committed}
            if running.store is not None:
                running.store.opened_by = None
        self.say(Released(task=task, offsets=offsets, epoch=epoch))

    def add(self) -> Iterator[int]:
        """Open the stores of new tasks and find out where to begin."""
        assert self.may_go or not self.adding, f"{self.name} was given tasks before it may go"
        for task in list(self.adding):
            try:
                committed = self.world.broker.committed_offset(GROUP, inputs_of(task)) or 0
            except BlockingIOError:
                continue
            self.adding.remove(task)
            store = None
            if task.subtopology == 1:
                store = self.worker.disk.open(task, self)
                self.check_restored(task, store)
            self.tasks[task] = self.opened(task, committed, store)
            if self.world.global_table:
                check_table(self.worker, self.name)
            self.world.note(f"{self.name} runs {task} from {committed}")
            self.say(TaskRunning(task=task))
            yield 3

    def opened(self, task: TaskId, committed: int, store: Store | None) -> RunningTask:
        """Return a task that begins where was committed."""
        return RunningTask(task, committed, committed, store)

    def check_restored(self, task: TaskId, store: Store) -> None:
        """Nobody else can write, so the store must say what the changelog says."""
        if not self.world.exactly_once or self.producer.is_fenced:
            return
        truth = replay(self.world.broker, task.partition)
        if store.data != truth:
            raise ViolationError(
                f"{self.name} begins {task} with {store.data} at {store.position}, "
                f"but the changelog says {truth}"
            )

    def process(self) -> Iterator[int]:
        """Process a few records of one task; return whether there were any."""
        yield from self.add()
        if self.is_paused:
            return False
        for task in self.world.rng.sample(sorted(self.tasks), len(self.tasks)):
            running = self.tasks[task]
            records, position = self.world.broker.read_committed(
                inputs_of(task), running.position, self.world.rng.randint(1, 6)
            )
            if not records:
                continue
            if not self.producer.is_open:
                self.producer.begin()
            for record in records:
                self.process_record(running, record)
                self.processed += 1
                self.at("transaction open")
                yield 1
            running.position = position
            if self.world.rng.random() < 0.3:
                self.flush_changelog(running)
            return True
        return False

    def process_record(self, running: RunningTask, record: Record) -> None:
        """Word count."""
        if running.id.subtopology == 0:
            if self.world.global_table:
                check_table(self.worker, self.name)
            number, word = record.value  # type: ignore[misc]  # as World.feed wrote it
            self.producer.send(TopicPartition(WORDS, partition_of(word)), word, number)
            return
        word = str(record.key)
        count = running.count(word)
        partition = TopicPartition(OUT, running.id.partition)
        self.producer.send(partition, word, (record.value, count))

    def flush_changelog(self, running: RunningTask) -> None:
        """Send what the changelog does not have yet."""
        partition = TopicPartition(CHANGELOG, running.id.partition)
        for word in sorted(running.unsent):
            offset = self.producer.send(partition, word, running.changed[word])
            running.changelog_end = offset + 1
        running.unsent.clear()

    @property
    def is_due(self) -> bool:
        """Whether the commit interval has passed."""
        return self.world.now_ms - self.committed_ms > COMMIT_INTERVAL_MS

    def commit_if_due(self) -> Iterator[int]:
        """Commit once in each commit interval."""
        if self.is_due:
            yield from self.commit()

    def commit(self) -> Iterator[int]:
        """Commit all tasks: changelogs, offsets, then the stores."""
        self.committed_ms = self.world.now_ms
        dirty = [task for task in self.tasks.values() if task.position != task.committed]
        if not dirty:
            return
        for running in dirty:
            self.flush_changelog(running)
            yield 1
        self.producer.send_offsets(
            GROUP, {inputs_of(running.id): running.position for running in dirty}
        )
        self.at("before commit")
        yield 2
        if self.producer.is_open:
            self.check_offsets(dirty)
            self.producer.commit()
        self.at("committed, not stored")
        yield 2
        for running in dirty:
            running.committed = running.position
            self.store(running)
            yield 1

    def check_offsets(self, dirty: list[RunningTask]) -> None:
        """What is about to be committed must follow what was committed last."""
        if not self.world.exactly_once or self.producer.is_fenced:
            return
        for running in dirty:
            known = self.world.broker.offsets.get((GROUP, inputs_of(running.id)), 0)
            if known != running.committed:
                raise ViolationError(
                    f"{self.name} commits {running.id} from {running.committed}, "
                    f"but {known} is committed"
                )

    def store(self, running: RunningTask) -> None:
        """Write data and position in one batch."""
        if running.store is None:
            return
        running.store.data.update(running.changed)
        running.changed.clear()
        if running.changelog_end is not None:
            running.store.position = running.changelog_end
        running.store.read = positions.encode_read([(inputs_of(running.id), running.position)])
        running.store.written += 1


class Updater(Process):
    """One StateUpdater."""

    def __init__(self, worker: Worker, number: int) -> None:
        self.worker = worker
        self.number = number
        self.inbox: deque[object] = deque()
        self.restoring: dict[TaskId, tuple[Store, int]] = {}
        self.following: dict[TaskId, Store] = {}
        super().__init__(worker.world, f"{worker.name}/updater-{number}")

    def on_end(self) -> None:
        if self.worker.alive:
            self.worker.inbox.append(UpdaterEnded(updater=self.number, exit_code=0))

    def say(self, message: object) -> None:
        """Send a message to the main process."""
        if self.worker.alive:
            self.worker.inbox.append(UpdaterSaid(updater=self.number, message=message))

    def run(self) -> Iterator[int]:
        yield self.world.rng.randint(50, 300)
        spoke_ms = self.world.now_ms
        while True:
            if self.inbox:
                message = self.inbox.popleft()
                if isinstance(message, Stop):
                    self.say(Stopped())
                    return
                self.obey(message)
                yield 1
            for task in sorted(self.restoring):
                self.advance(task)
                yield 3
            for task in sorted(self.following) if not self.restoring else ():
                self.read(task, self.following[task])
                yield 3
            if self.following and self.world.now_ms - spoke_ms > 500:
                spoke_ms = self.world.now_ms
                self.say(Following(lags={t: self.lag(t) for t in self.following}, applied=0))
            yield 5 if self.restoring else 100

    def obey(self, message: object) -> None:
        """Carry out one message."""
        match message:
            case Restore(task=task):
                if task in self.following:
                    store = self.following.pop(task)
                    self.restoring[task] = (store, self.goal_of_promoted(task, store))
                    self.at("promoting")
                else:
                    store = self.worker.disk.open(task, self)
                    self.restoring[task] = (store, self.goal(task))
                    self.at("restoring")
            case Follow(task=task):
                self.following[task] = self.worker.disk.open(task, self)
            case CancelRestore(task=task):
                if task in self.restoring:
                    self.restoring.pop(task)[0].opened_by = None
                if task in self.following:
                    self.following.pop(task).opened_by = None
                self.say(Cancelled(task=task))
            case _:
                raise AssertionError(message)

    def goal(self, task: TaskId) -> int:
        """Up to where to restore: the end, what is not committed yet included."""
        return self.world.broker.end_offset(TopicPartition(CHANGELOG, task.partition))

    def goal_of_promoted(self, task: TaskId, _: Store) -> int:
        """The same, for a task that was followed."""
        return self.goal(task)

    def lag(self, task: TaskId) -> int:
        """How much a copy has not read."""
        return max(0, self.goal(task) - self.following[task].position)

    def advance(self, task: TaskId) -> None:
        """Apply a few entries; finish at the goal."""
        store, goal = self.restoring[task]
        records = self.read(task, store)
        if store.position >= goal:
            del self.restoring[task]
            store.opened_by = None
            self.say(Restored(task=task, records=records))

    def read(self, task: TaskId, store: Store) -> int:
        """Apply a few entries; return how many."""
        records, position = self.world.broker.read_committed(
            TopicPartition(CHANGELOG, task.partition), store.position, 4
        )
        if position > store.position:
            store.data.update({str(record.key): int(str(record.value)) for record in records})
            store.position, store.read = position, b""
            store.written += 1
        return len(records)
