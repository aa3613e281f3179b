"""One StreamTask of a backfill, up to the cut: what a Python worker of Spark does.

    initialise the transactional id ──► is the manifest still ours? ──► restore what is committed
         ──► read, process, commit … up to the cut ──► TaskDone

It is the loop of a StreamThread with a reader that ends; where sub-topologies feed each other, at
the end of each pass. Each commit is one transaction of changelog entries, repartition records,
outputs, and offsets in a group of the backfill's own; so a task that is killed and run again, here
or on another machine, goes on from its last commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater import failpoints
from headwater.errors import FencedError
from headwater.kafka.manifest import ManifestGate
from headwater.model.engine import spark_transactional_id
from headwater.model.offset_reset import OffsetReset
from headwater.model.partitions import internal_topic_names
from headwater.native.policy import LoopPolicy
from headwater.spark.latest import write_latest
from headwater.spark.outputs import ChosenOutputs, Outputs
from headwater.spark.reader import BoundedReader, PassReader, ReaderToCut, TurnReader
from headwater.spark.scratch import scratch_directory
from headwater.spark.single import WORKER, SingleTask, for_a_task
from headwater.spark.turns.loop import TurnLoop, UpToTurnEnd
from headwater.spark.turns.messages import TakenOverError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.access import Access
    from headwater.kafka.producer import StreamsProducer
    from headwater.model.topology import Topology
    from headwater.native.application import ApplicationSettings
    from headwater.native.clients import TaskClients
    from headwater.native.intake import Intake
    from headwater.native.opening import RunningTask


Reader = TypeVar("Reader", bound=BoundedReader)
Policy = TypeVar("Policy", bound=LoopPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWork:
    """All that a Python worker is told; it travels there pickled.

    Attributes:
        task: which.
        application: its configuration and topology.
        generation: the backfill's.
        attempt: the driver's.
        clock_ms: the time that the task's clock shows.
        cut: where each of the task's partitions ends.
        start: where each begins, if not at 0.
        more: in one pass of several, the partitions of which a later pass reads on beyond ``cut``;
            ``None`` if the task is to come to its end at once.
        outputs: what is written to topics that are not the application's own.
        waiting: where outputs wait of which only the last are written.
        is_writing_latest: the task has reached the cut, and what waits up to ``cut`` is written.
    """

    task: TaskId
    application: ApplicationSettings
    generation: str
    attempt: int
    clock_ms: int
    cut: Mapping[TopicPartition, int]
    start: Mapping[TopicPartition, int] = field(default_factory=dict)
    more: frozenset[TopicPartition] | None = None
    outputs: Outputs
    waiting: TopicPartition | None = None
    is_writing_latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone:
    """A task that has reached the cut, or the end of a pass.

    Attributes:
        task: which.
        processed: records it has processed, without those of an earlier attempt.
        dropped: those among them that had no key, came too late, or were let go by a handler.
        dead_letters: records sent to dead-letter topics, likewise.
        keys: how many keys its stores hold; not counted before the last pass.
        went_on: part of it was committed by an earlier attempt, of which nothing is counted.
    """

    task: TaskId
    processed: int
    dropped: int
    dead_letters: int
    keys: int
    went_on: bool = False

    def after(self, earlier: TaskDone) -> TaskDone:
        """Return what this pass and the one before have done together."""
        return replace(
            self,
            processed=earlier.processed + self.processed,
            dropped=earlier.dropped + self.dropped,
            dead_letters=earlier.dead_letters + self.dead_letters,
            went_on=earlier.went_on or self.went_on,
        )


class FixedClock:
    """A wall clock that stands still, so that a task which is run again does the same."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time at which the backfill began."""
        return self._now_ms


def progress_group(application_id: str, generation: str) -> str:
    """Return the group in which the tasks of a backfill commit how far they are."""
    return f"{application_id}-backfill-{generation}"


def transactional_id(application_id: str, owner: object) -> str:
    """Return ``<application id>-spark-<task>``; the driver has one, too."""
    return spark_transactional_id(application_id, owner)


def run_task(work: TaskWork) -> TaskDone:
    """Run a task up to the cut, or to the end of a pass.

    Raises:
        TakenOverError: another driver has taken the backfill over.
        FencedError: another copy of this task has begun, and goes on from what is committed.
        HeadwaterError: as a StreamThread would end with.
    """
    if work.is_writing_latest:
        return _write_latest(work)
    with scratch_directory() as directory:
        kind = _CutHost if work.more is None else _PassHost
        host = kind(work, str(directory))
        try:
            return host.run()
        except FencedError:
            # By another driver, which is final, or by a copy that Spark runs elsewhere.
            host.check()
            raise
        finally:
            host.close()


class _UpToCut:
    """The policy of a task that comes to its end at once (a ``LoopPolicy``): up to the cut."""

    is_record_by_record = False

    def __init__(self, reader: ReaderToCut) -> None:
        self._reader = reader

    def lags(self, running: RunningTask, intake: Intake) -> Mapping[TopicPartition, int]:
        """Say which partitions have come to their cut."""
        return intake.lags(running)

    def is_over(self, intake: Intake, now_ms: int) -> bool:
        """Whether everything before the cut is processed."""
        del now_ms
        return self._reader.is_at_cut and not intake.buffered()


class _TaskHost(ABC, Generic[Reader, Policy]):
    """One task that runs up to where its policy says."""

    def __init__(
        self,
        work: TaskWork,
        directory: str,
        *,
        reader: Callable[..., Reader],
        policy: Callable[[Reader], Policy],
    ) -> None:
        self._work = work
        application = _for_a_task(work.application)
        config = self._config = application.parsed()
        self._single: SingleTask[Reader, Policy] = SingleTask(
            work.task,
            application=application,
            state_dir=directory,
            reader=reader,
            policy=policy,
            clock=FixedClock(work.clock_ms),
            default_reset=OffsetReset.NONE,
            check=partial(_check, work),
            group=progress_group(config.application_id, work.generation),
            collector=self._chosen,
            # Made after the collector.
            dead_letters=lambda: self._collector.dead_letters,
            # What has come since then is none of the backfill's.
            topics={p.topic for p in work.cut},
        )

    def _chosen(self, producer: StreamsProducer, topology: Topology) -> ChosenOutputs:
        work = self._work
        report = topology.report(self._config.application_id)
        self._collector = ChosenOutputs(
            producer,
            internal=internal_topic_names(report),
            outputs=work.outputs,
            waiting=work.waiting,
        )
        return self._collector

    def run(self) -> TaskDone:
        single = self._single
        single.clients.admin.check_reachable(single.config.request_timeout_ms / 1000)
        running = single.open(lambda: failpoints.hit("backfill.task_initialized"))
        self._read(running)
        failpoints.hit("backfill.task_done")
        # All of it is committed by now, and what was aborted on the way is not in it.
        found = single.counts.total
        return TaskDone(
            task=self._work.task,
            processed=found.processed,
            dropped=found.dropped,
            dead_letters=found.dead_letters,
            # Counted: RocksDB's estimate counts a key as often as it was committed.
            keys=0
            if self._work.more
            else sum(store.num_keys() for store in running.stores.values()),
            went_on=any(at > self._work.start.get(p, 0) for p, at in running.start.items()),
        )

    @abstractmethod
    def _read(self, running: RunningTask) -> None:
        """Process and commit everything within the bounds."""

    def check(self) -> None:
        """Ask again whether the backfill is still the one that this task belongs to.

        Raises:
            TakenOverError: it is not.
        """
        _check(self._work, self._single.clients)

    def close(self) -> None:
        """Release everything; what is not committed is given up."""
        self._single.close()


class _CutHost(_TaskHost[ReaderToCut, _UpToCut]):
    """One task that runs up to the cut."""

    def __init__(self, work: TaskWork, directory: str) -> None:
        reader = partial(ReaderToCut, cut=work.cut)
        super().__init__(work, directory, reader=reader, policy=_UpToCut)

    def _read(self, running: RunningTask) -> None:
        loop, cut = self._single.loop, self._work.cut
        while any(running.committed.get(p) != end for p, end in cut.items()):
            if loop.is_over:
                loop.commit_now(every_offset=True)
            else:
                loop.run_once()


class _PassHost(_TaskHost[TurnReader, UpToTurnEnd]):
    """One task that runs up to the end of a pass, or until only the next one may read on.

    Of several partitions the record with the lowest timestamp is next, as everywhere. If that may
    be one which this pass does not read, the task stops: no end of a pass changes the order.
    """

    def __init__(self, work: TaskWork, directory: str) -> None:
        super().__init__(work, directory, reader=PassReader, policy=UpToTurnEnd)

    def _read(self, running: RunningTask) -> None:
        single, more = self._single, self._work.more
        assert more is not None
        turn = TurnLoop(single.loop, single.policy, running)
        turn.begin(self._work.cut, more)
        while not (turn.is_over and turn.end()):
            turn.run_once()


def _write_latest(work: TaskWork) -> TaskDone:
    """Write the last outputs of a task that has reached the cut."""
    assert work.waiting is not None, "its outputs have waited"
    config = _for_a_task(work.application).parsed()
    write_latest(
        config,
        waiting=work.waiting,
        end=work.cut[work.waiting],
        name=f"{WORKER}-{work.task}",
        transactional_id=transactional_id(config.application_id, work.task),
        group=progress_group(config.application_id, work.generation),
        check=partial(_check, work),
    )
    return TaskDone(task=work.task, processed=0, dropped=0, dead_letters=0, keys=0)


def _check(work: TaskWork, clients: TaskClients[Any]) -> None:
    check_not_taken_over(work.task, work.generation, work.attempt, clients.access)


def check_not_taken_over(task: TaskId, generation: str, attempt: int, access: Access) -> None:
    """Make sure that the backfill is still the one that a task belongs to.

    To be asked once the task's id was initialised, and again when it was fenced.

    Args:
        task: which.
        generation: of the backfill.
        attempt: of its driver.
        access: to the broker.

    Raises:
        TakenOverError: another driver has come.
    """
    gate = ManifestGate(access)
    try:
        gate.check_task(task, generation, attempt)
    except FencedError as error:
        raise TakenOverError(str(error)) from error


def _for_a_task(application: ApplicationSettings) -> ApplicationSettings:
    # Whoever waits does so by the clock, which stands still; and nothing comes later.
    waits = ("max.task.idle.ms", "windows.emit.interval.ms", "joins.emit.interval.ms")
    return for_a_task(application, dict.fromkeys(waits, 0))
