"""Virtual time, processes that can be frozen and killed at any step, and what they share.

A process is a generator: every ``yield`` is a moment at which it can be frozen or killed, and says
how many milliseconds pass until its next step. One seed decides everything that is left open.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING

from headwater.ids import TaskId, TopicPartition
from headwater.model.appstatus import AppStatus
from headwater.model.cluster import Lease, StreamWorker, WorkerSpec, WorkerStatus
from headwater.model.streamapp import StreamApp, parse
from headwater.model.topics import (
    ChangelogTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)
from headwater.wire.partitioner import partition_for_key
from tests.sim.broker import ModelBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.model.duties import DutyResult, Reset
    from headwater_operator.decide import Decision, Observed
    from tests.sim.global_thread import GlobalTable

LINES, WORDS, OUT = "lines", "app-words-repartition", "out"
CHANGELOG = "app-counts-changelog"
PARTITIONS = 3
GROUP = "app"

TOPOLOGY = TopologyReport(
    hash="model",
    subtopologies=(
        SubtopologyReport(id=0, source_topics=(LINES,), sink_topics=(WORDS,)),
        SubtopologyReport(
            id=1,
            repartition_sources=(RepartitionTopic(name=WORDS),),
            sink_topics=(OUT,),
            changelogs=(ChangelogTopic(name=CHANGELOG, store="counts"),),
            stores=("counts",),
        ),
    ),
)


class ViolationError(AssertionError):
    """A law of the protocol was broken."""


class Process:
    """Something that takes steps. Subclasses write ``run``."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.thaws_ms: int | None = None
        self.next_ms = world.now_ms
        self._steps = self.run()
        world.processes.append(self)

    def run(self) -> Iterator[int]:
        """Take steps; yield the milliseconds until the next one."""
        raise AssertionError(f"{type(self).__name__} takes no steps")

    def step(self) -> None:
        """Take one step."""
        try:
            delay = next(self._steps)
        except StopIteration:
            self.end("ended")
        else:
            self.next_ms = self.world.now_ms + self.world.rng.randint(delay, delay + delay // 2 + 2)

    def freeze(self, for_ms: int) -> None:
        """Stop it as SIGSTOP does; it goes on by itself after ``for_ms``."""
        self.world.note(f"{self.name} freezes for {for_ms} ms")
        self.thaws_ms = self.world.now_ms + for_ms

    def at(self, moment: str) -> None:
        """Say that it has come to a moment at which a fault is worth a try."""
        self.world.moments.append((self, moment))

    def end(self, why: str) -> None:
        """It is gone, by itself or by SIGKILL (which works on a frozen process too)."""
        if not self.alive:
            return
        self.alive = False
        self.world.note(f"{self.name} {why}")
        self._steps.close()
        self.world.processes.remove(self)
        self.on_end()

    def on_end(self) -> None:
        """Do what the kernel does for others when this process is gone."""

    def ready_ms(self) -> int:
        """When its next step is due."""
        return self.next_ms if self.thaws_ms is None else max(self.next_ms, self.thaws_ms)


@dataclass
class Store:
    """One task's state on a worker's disk."""

    data: dict[str, int] = field(default_factory=dict)
    position: int = 0
    opened_by: Process | None = None
    read: bytes = b""
    """Up to where the input was read; of a copy that is not known."""
    written: int = 0
    """Counts what was written."""
    writer: str = ""
    """Names whoever has opened it last."""
    topic: int = 0
    """Tells its changelog from earlier ones of that name."""

    def copy(self) -> Store:
        """Return what a reader sees of it now."""
        return replace(self, data=dict(self.data))


def _global_table() -> GlobalTable:
    from tests.sim.global_thread import GlobalTable

    return GlobalTable()


@dataclass
class Disk:
    """What outlives the processes of a worker."""

    stores: dict[TaskId, Store] = field(default_factory=dict)
    highest_epoch: int = 0
    places: GlobalTable = field(default_factory=_global_table)

    def open(self, task: TaskId, process: Process) -> Store:
        """Open a store; only one process may have it open."""
        store = self.stores.setdefault(task, Store())
        if store.topic != process.world.topics_made:
            store = self.stores[task] = Store(topic=process.world.topics_made)
        if store.opened_by is not None and store.opened_by.alive:
            raise ViolationError(
                f"{process.name} opens {task}, which {store.opened_by.name} has open"
            )
        store.opened_by = process
        store.writer = f"{process.name}, {process.world.now_ms}"
        return store


def make_app(*, exactly_once: bool, replicas: int, standbys: int, acceptable_lag: int) -> StreamApp:
    """The StreamApp of every simulation."""
    return parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "app"},
            "spec": {
                "topology": {"module": "model:build"},
                "replicas": replicas,
                "threadsPerWorker": 2,
                "processingGuarantee": "exactly_once_v2" if exactly_once else "at_least_once",
                "assignment": {
                    "moveDelay": "5s",
                    "standbyReplicas": standbys,
                    "acceptableRecoveryLag": acceptable_lag,
                    "maxWarmupReplicas": 1,
                    "warmupTimeout": "20s",
                },
            },
        }
    )


class World:
    """Everything there is, and the clock."""

    def __init__(
        self,
        seed: str,
        *,
        exactly_once: bool,
        replicas: int = 2,
        standbys: int = 0,
        global_table: bool = False,
        queries: bool = False,
    ) -> None:
        self.rng = Random(seed)
        self.seed = seed
        self.exactly_once = exactly_once
        self.now_ms = 0
        self.processes: list[Process] = []
        self.broker = ModelBroker()
        self.broker.create_topic(LINES, PARTITIONS)
        self.broker.create_topic(OUT, PARTITIONS)
        self.global_table = global_table
        """Tasks read a table that each worker keeps (``global_thread``)."""
        self.queries = queries
        """Readers ask the workers for counts (``readers``)."""
        # From copies that have read almost everything to such that have hardly begun.
        lag = self.rng.choice((5, 50, 5_000))
        self.app = make_app(
            exactly_once=exactly_once, replicas=replicas, standbys=standbys, acceptable_lag=lag
        )
        self.status = AppStatus()
        self.specs: dict[str, WorkerSpec] = {}
        self.statuses: dict[str, WorkerStatus] = {}
        self.leases: dict[str, Lease] = {}
        self.disks: dict[str, Disk] = {}
        self.mains: dict[str, Process] = {}
        self.cut_off_until: dict[str, int] = {}
        self.generation = 0
        self.incarnations = 0
        self.inputs = 0
        self.topics_made = 0
        """How often a reset has made the internal topics anew."""
        self.story: deque[str] = deque(maxlen=400)
        self.watchers: list[Callable[[], None]] = []
        self.judges: list[Callable[[Observed, Decision, int], None]] = []
        """What looks at every decision."""
        self.moments: list[tuple[Process, str]] = []
        """What the step that is being taken has come to; see ``Process.at``."""

    def note(self, what: str) -> None:
        """Add a line to the story that a failure prints."""
        self.story.append(f"{self.now_ms / 1000:9.3f}  {what}")

    def run_until(self, end_ms: int) -> None:
        """Let everybody take steps until ``end_ms``."""
        while True:
            due_ms, process = self.next_process()
            if due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.broker.advance(self.now_ms)
            if process.thaws_ms is not None:
                self.note(f"{process.name} thaws")
                process.thaws_ms = None
            process.step()
            for watch in self.watchers:
                watch()
            self.moments.clear()
        self.now_ms = end_ms

    def next_process(self) -> tuple[int, Process]:
        """Return whose step is next, and when; of several, the first by name."""
        found = self.processes[0]
        first_ms = found.ready_ms()
        for process in self.processes:
            due_ms = process.next_ms
            if process.thaws_ms is not None and process.thaws_ms > due_ms:
                due_ms = process.thaws_ms
            if due_ms < first_ms or (due_ms == first_ms and process.name < found.name):
                found, first_ms = process, due_ms
        return first_ms, found

    def decided(self, observed: Observed, decision: Decision) -> None:
        """Let everybody who judges decisions look at one."""
        for judge in self.judges:
            judge(observed, decision, self.now_ms)

    def feed(self) -> None:
        """Append one line to the input."""
        word = f"word{self.rng.randrange(9)}"
        partition = TopicPartition(LINES, self.rng.randrange(PARTITIONS))
        self.broker.append(partition, None, (self.inputs, word), None)
        self.inputs += 1

    def reset(self, by: str, duty: Reset) -> DutyResult:
        """Carry out a reset; only a cluster has them."""
        raise AssertionError(f"{by}: {duty}")

    def read_worker(self, name: str) -> StreamWorker:
        """The resource as it stands now."""
        return StreamWorker(
            name=name, spec=self.specs[name], status=self.statuses.get(name, WorkerStatus())
        )

    def scale(self, replicas: int) -> None:
        """What the user does."""
        self.note(f"user: {replicas} replicas")
        self.app = replace(self.app, spec=replace(self.app.spec, replicas=replicas))

    def set_threads(self, threads: int) -> None:
        """What the user does: another number of StreamThreads for each worker."""
        self.note(f"user: {threads} threads")
        self.app = replace(self.app, spec=replace(self.app.spec, threads_per_worker=threads))

    def set_paused(self, *, paused: bool) -> None:
        """What the user does: pause processing, or let it go on."""
        self.note(f"user: {'pause' if paused else 'resume'}")
        self.app = replace(self.app, spec=replace(self.app.spec, paused=paused))

    def is_cut_off(self, worker: str) -> bool:
        """Whether a worker cannot reach its resources now."""
        return self.now_ms < self.cut_off_until.get(worker, 0)


def inputs_of(task: TaskId) -> TopicPartition:
    """The one input partition of a task."""
    return TopicPartition(LINES if task.subtopology == 0 else WORDS, task.partition)


@cache
def partition_of(word: str) -> int:
    """The partitioner."""
    return partition_for_key(word.encode(), PARTITIONS)


def replay(broker: ModelBroker, partition: int, end: int = 1 << 30) -> dict[str, int]:
    """What the committed part of a changelog says, up to an offset."""
    records, _ = broker.read_committed(TopicPartition(CHANGELOG, partition), 0)
    return {str(record.key): int(str(record.value)) for record in records if record.offset < end}
