"""A model worker: the real decisions of ``headwater.service.decide``, carried out in the model."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headwater.errors import KafkaUnavailableError
from headwater.model.cluster import Lease, StoredTask, WorkerSpec, WorkerStatus
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    DutyFailed,
    Fence,
    GroupDescribed,
    IdsFenced,
    Reset,
    TopicsCreated,
    TopicsDescribed,
)
from headwater.service.decide.actions import (
    BeginDuty,
    End,
    KillGlobalThread,
    KillThread,
    KillUpdater,
    LookAtGroup,
    ReadSpec,
    RememberEpoch,
    StartGlobalThread,
    StartThread,
    StartUpdater,
    TellGlobalThread,
    TellThread,
    TellUpdater,
)
from headwater.service.decide.balance import Loads
from headwater.service.decide.global_thread import GlobalThread as DecidedGlobalThread
from headwater.service.decide.observations import DutyEnded, LeaseKept, SpecRead
from headwater.service.decide.observe import observe
from headwater.service.decide.reconcile import decide
from headwater.service.decide.report import status_of
from headwater.service.decide.values import Table
from tests.sim.broker import ModelProducer
from tests.sim.global_thread import PLACES, GlobalThread
from tests.sim.queries import QueryProcess
from tests.sim.thread import Thread, Updater
from tests.sim.world import TOPOLOGY, Disk, Process, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.duties import Duty, DutyResult
    from headwater.service.decide.actions import Action
    from headwater.service.decide.observations import Observation

RENEW_MS = 10_000
HUNG_MS = 15_000


class Worker(Process):
    """The main process of a worker, in one incarnation."""

    thread_type: type[Thread] = Thread
    updater_type: type[Updater] = Updater
    global_type: type[GlobalThread] = GlobalThread
    query_type: type[QueryProcess] = QueryProcess

    def __init__(self, world: World, worker: str) -> None:
        world.incarnations += 1
        self.worker = worker
        self.incarnation = f"i{world.incarnations}"
        self.disk = self.mount(world)
        self.inbox: deque[Observation] = deque()
        self.threads: dict[int, Thread] = {}
        self.updaters: dict[int, Updater] = {}
        self.global_thread: GlobalThread | None = None
        self.queries: QueryProcess | None = None
        self.places_at_start = world.broker.end_offset(PLACES) if world.global_table else 0
        self.hands: list[DutyHand] = []
        self.renewals = 0
        self.reported: WorkerStatus | None = None
        self.table = Table(
            worker=worker,
            incarnation=self.incarnation,
            exactly_once=world.exactly_once,
            hung_ms=HUNG_MS,
            cores=1,
            highest_epoch=self.disk.highest_epoch,
            remembered_epoch=self.disk.highest_epoch,
            stateful=frozenset({1}),
            topology=TOPOLOGY,
            loads=Loads(window_ms=2_000, pause_ms=4_000),
            global_thread=DecidedGlobalThread() if world.global_table else None,
        )
        if world.queries:
            self.table.endpoint = f"{worker}:8080"
        super().__init__(world, f"{worker}:{self.incarnation}")
        world.mains[worker] = self

    def mount(self, world: World) -> Disk:
        """Return what outlives this process."""
        return world.disks.setdefault(self.worker, Disk())

    @property
    def children(self) -> list[Process]:
        """Its living child processes."""
        every: list[Process] = [*self.threads.values(), *self.updaters.values()]
        if self.global_thread is not None:
            every.append(self.global_thread)
        if self.queries is not None:
            every.append(self.queries)
        return [child for child in every if child.alive]

    def freeze(self, for_ms: int) -> None:
        """Stop the main process with all its threads; its children go on."""
        super().freeze(for_ms)
        for hand in self.hands:
            if hand.alive:
                hand.freeze(for_ms)

    def freeze_all(self, for_ms: int) -> None:
        """Stop the main process and every child."""
        self.freeze(for_ms)
        for child in self.children:
            child.freeze(for_ms)

    def on_end(self) -> None:
        """The parent-death signal."""
        for child in (*self.children, *self.hands):
            child.end("dies with its parent")

    def run(self) -> Iterator[int]:
        yield self.world.rng.randint(200, 1_500)
        renewed_ms = -RENEW_MS
        while True:
            if self.world.now_ms - renewed_ms >= RENEW_MS and not self.is_cut_off():
                renewed_ms = self.world.now_ms
                yield 1
                if not self.is_cut_off():
                    yield from self.renew(renewed_ms)
            while self.inbox:
                self.hear(self.inbox.popleft())
                yield 1
            self.table.must_read = self.table.must_read or self.world.rng.random() < 0.4
            self.table.stored = {
                task: StoredTask(task=task, offset_bucket=store.position)
                for task, store in self.disk.stores.items()
            }
            for action in decide(self.table, self.world.now_ms):
                yield from self.carry_out(action)
                if isinstance(action, End):
                    return
            if self.queries is not None:
                self.queries.tell()
            yield from self.report()
            yield 60

    def queries_for_caller(self) -> QueryProcess:
        """Return the process that answers queries, started anew if there is none."""
        if self.queries is None or not self.queries.alive:
            self.queries = self.query_type(self)
        return self.queries

    def is_cut_off(self) -> bool:
        """Whether it cannot reach its resources."""
        return self.world.is_cut_off(self.worker)

    def renew(self, at_ms: int) -> Iterator[int]:
        """Renew the Lease."""
        self.renewals += 1
        self.world.leases[self.worker] = Lease(
            worker=self.worker, holder=self.incarnation, renewals=self.renewals
        )
        yield 1
        self.hear(LeaseKept(at_ms=at_ms))

    def hear(self, observation: Observation) -> None:
        """Take in one observation."""
        observe(self.table, observation, self.world.now_ms)

    def report(self) -> Iterator[int]:
        """Write the status if it changed."""
        status = status_of(self.table)
        if status == self.reported or self.is_cut_off():
            return
        yield self.world.rng.choice((1, 1, 1, 200))
        if not self.is_cut_off():
            self.world.statuses[self.worker] = status
            self.reported = status

    def read_spec(self) -> WorkerSpec | None:
        """Read the own spec, uncached."""
        return self.world.specs.get(self.worker)

    def carry_out_globally(
        self, action: StartGlobalThread | TellGlobalThread | KillGlobalThread
    ) -> None:
        """Carry out an action on the GlobalStreamThread."""
        if isinstance(action, StartGlobalThread):
            self.global_thread = self.global_type(self, action.number)
        elif self.global_thread is not None and isinstance(action, TellGlobalThread):
            self.global_thread.inbox.append(action.message)
        elif self.global_thread is not None and isinstance(action, KillGlobalThread):
            self.global_thread.end(f"is killed: {action.reason}")

    def carry_out(self, action: Action) -> Iterator[int]:  # noqa: C901 - one case per action
        """Carry out one action."""
        match action:
            case ReadSpec():
                if not self.is_cut_off():
                    spec = self.read_spec()
                    yield 1
                    self.hear(SpecRead(spec=spec))
            case RememberEpoch(epoch=epoch):
                self.disk.highest_epoch = max(epoch, self.disk.highest_epoch)
            case StartThread(slot=slot):
                self.threads[slot] = self.thread_type(self, slot)
            case TellThread(slot=slot, message=message):
                self.threads[slot].inbox.append(message)
            case KillThread(slot=slot, reason=reason):
                self.threads[slot].end(f"is killed: {reason}")
            case StartUpdater(updater=number):
                self.updaters[number] = self.updater_type(self, number)
            case TellUpdater(updater=number, message=message):
                self.updaters[number].inbox.append(message)
            case KillUpdater(updater=number, reason=reason):
                self.updaters[number].end(f"is killed: {reason}")
            case StartGlobalThread() | TellGlobalThread() | KillGlobalThread():
                self.carry_out_globally(action)
            case BeginDuty(duty=duty):
                self.hands.append(DutyHand(self, duty))
            case LookAtGroup() | End():
                pass  # Nobody else is in the group here, and nobody looks (``group_watch_ms``).
        yield 1


class DutyHand(Process):
    """A thread of the main process that carries out one duty."""

    def __init__(self, worker: Worker, duty: Duty) -> None:
        self.worker = worker
        self.duty = duty
        super().__init__(worker.world, f"{worker.name}/{duty.id}")

    def run(self) -> Iterator[int]:
        yield 5
        if not self.worker.alive:
            return
        spec = None if self.worker.is_cut_off() else self.worker.read_spec()
        result: DutyResult | None = None
        if spec is not None and any(duty.id == self.duty.id for duty in spec.duties):
            yield 5
            result = yield from self.carry_out()
        if self.worker.alive:
            self.worker.inbox.append(DutyEnded(id=self.duty.id, result=result))

    def carry_out(self) -> Iterator[int]:
        """Carry it out; return the result."""
        broker = self.world.broker
        if self.world.rng.random() < 0.05:
            error = KafkaUnavailableError.__name__
            return DutyFailed(id=self.duty.id, error=error, message="no broker")
        match self.duty:
            case DescribeTopics(id=id_, topics=topics):
                found = {
                    name: broker.partitions[name] for name in topics if name in broker.partitions
                }
                return TopicsDescribed(id=id_, partitions=found)
            case CreateTopics(id=id_, topics=topics):
                for topic in topics:
                    broker.create_topic(topic.name, topic.partitions)
                    yield 5
                return TopicsCreated(
                    id=id_, partitions={topic.name: topic.partitions for topic in topics}
                )
            case Fence(id=id_, transactional_ids=ids):
                for id__ in ids:
                    ModelProducer(broker, id__).init()
                    self.world.note(f"{self.name} has fenced {id__}")
                    yield 20
                return IdsFenced(id=id_)
            case DescribeGroup(id=id_):
                return GroupDescribed(id=id_)
            case Reset():
                return self.world.reset(self.name, self.duty)
        raise AssertionError(self.duty)
