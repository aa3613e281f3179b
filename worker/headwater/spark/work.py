"""One StreamTask of a backfill, up to the cut: what a Python worker of Spark does.

    initialise the transactional id ──► is the manifest still ours? ──► restore what is committed
         ──► read, process, commit … up to the cut ──► TaskDone

It is the loop of a StreamThread with a reader that ends. Each commit is one transaction of
changelog entries, repartition records, outputs, and offsets in a group of the backfill's own; so a
task that is killed and run again, here or on another machine, goes on from its last commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from headwater import failpoints
from headwater.config import StreamsConfig
from headwater.errors import FencedError
from headwater.kafka.manifest import ManifestGate
from headwater.model.engine import spark_transactional_id
from headwater.model.partitions import internal_topic_names
from headwater.native.opening import NO_RESET
from headwater.spark.counting import CountingLoop
from headwater.spark.latest import write_latest
from headwater.spark.outputs import ChosenOutputs, Outputs
from headwater.spark.reader import ReaderToCut
from headwater.spark.scratch import scratch_directory
from headwater.spark.single import WORKER, Code, SingleTask, for_a_task
from headwater.spark.turns import TakenOverError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.dsl.loading import SourceText
    from headwater.ids import TaskId, TopicPartition
    from headwater.kafka.producer import StreamsProducer
    from headwater.model.topology import Topology
    from headwater.native.clients import TaskClients
    from headwater.native.opening import RunningTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWork:
    """All that a Python worker is told; it travels there pickled.

    Attributes:
        task: which.
        config: the StreamsConfig as given (dotted names); there may be a password in it.
        topology: ``"module:function"``, a module's text or a cloudpickled function.
        import_path: directories put in front of ``sys.path``.
        generation: the backfill's.
        attempt: the driver's.
        clock_ms: the time that the task's clock shows.
        cut: where each of the task's partitions ends.
        start: where each begins, if not at 0.
        outputs: what is written to topics that are not the application's own.
        waiting: where outputs wait of which only the last are written.
        is_writing_latest: the task has reached the cut, and what waits up to ``cut`` is written.
    """

    task: TaskId
    config: Mapping[str, str | int | float | bool] = field(repr=False)
    topology: str | SourceText | bytes
    import_path: tuple[str, ...] = ()
    generation: str
    attempt: int
    clock_ms: int
    cut: Mapping[TopicPartition, int]
    start: Mapping[TopicPartition, int] = field(default_factory=dict)
    outputs: Outputs
    waiting: TopicPartition | None = None
    is_writing_latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone:
    """A task that has reached the cut.

    Attributes:
        task: which.
        processed: records it has processed, without those of an earlier attempt.
        dropped: those among them that had no key, came too late, or were let go by a handler.
        dead_letters: records sent to dead-letter topics, likewise.
        keys: how many keys its stores hold.
        went_on: part of it was committed by an earlier attempt, of which nothing is counted.
    """

    task: TaskId
    processed: int
    dropped: int
    dead_letters: int
    keys: int
    went_on: bool = False


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
    """Run a task up to the cut.

    Raises:
        TakenOverError: another driver has taken the backfill over.
        FencedError: another copy of this task has begun, and goes on from what is committed.
        HeadwaterError: as a StreamThread would end with.
    """
    if work.is_writing_latest:
        return _write_latest(work)
    with scratch_directory() as directory:
        host = _TaskHost(work, str(directory))
        try:
            return host.run()
        except FencedError:
            # By another driver, which is final, or by a copy that Spark runs elsewhere.
            host.check()
            raise
        finally:
            host.close()


class _TaskHost:
    """One task that runs up to the cut."""

    def __init__(self, work: TaskWork, directory: str) -> None:
        self._work = work
        given = _for_a_task(work.config)
        config = self._config = StreamsConfig.parse(given)
        self._single = SingleTask(
            work.task,
            given=given,
            code=Code(topology=work.topology, import_path=work.import_path),
            state_dir=directory,
            reader=partial(ReaderToCut, cut=work.cut),
            # Made after the collector.
            loop=partial(CountingLoop, dead_letters=lambda: self._collector.dead_letters),
            clock=FixedClock(work.clock_ms),
            default_reset=NO_RESET,
            check=partial(_check, work, config),
            group=progress_group(config.application_id, work.generation),
            collector=self._chosen,
        )
        self._loop = self._single.loop

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
        while any(running.committed.get(p) != cut for p, cut in self._work.cut.items()):
            if self._is_at_cut(running):
                self._loop.commit_now(every_offset=True)
            else:
                self._loop.run_once()
        failpoints.hit("backfill.task_done")
        # All of it is committed by now, and what was aborted on the way is not in it.
        found = self._loop.committed
        return TaskDone(
            task=self._work.task,
            processed=found.processed,
            dropped=found.dropped,
            dead_letters=found.dead_letters,
            # Counted: RocksDB's estimate counts a key as often as it was committed.
            keys=sum(1 for store in running.stores.values() for _ in store.range(None, None)),
            went_on=any(at > self._work.start.get(p, 0) for p, at in running.start.items()),
        )

    def check(self) -> None:
        """Ask again whether the backfill is still the one that this task belongs to.

        Raises:
            TakenOverError: it is not.
        """
        _check(self._work, self._config, self._single.clients)

    def _is_at_cut(self, running: RunningTask) -> bool:
        is_buffered = any(running.task.buffered(partition) for partition in running.start)
        return self._single.clients.consumer.is_at_cut and not is_buffered

    def close(self) -> None:
        """Release everything; what is not committed is given up."""
        self._single.close()


def _write_latest(work: TaskWork) -> TaskDone:
    """Write the last outputs of a task that has reached the cut."""
    assert work.waiting is not None, "its outputs have waited"
    config = StreamsConfig.parse(_for_a_task(work.config))
    write_latest(
        config,
        waiting=work.waiting,
        end=work.cut[work.waiting],
        name=f"{WORKER}-{work.task}",
        transactional_id=transactional_id(config.application_id, work.task),
        group=progress_group(config.application_id, work.generation),
        check=partial(_check, work, config),
    )
    return TaskDone(task=work.task, processed=0, dropped=0, dead_letters=0, keys=0)


def _check(work: TaskWork, config: StreamsConfig, clients: TaskClients[ReaderToCut]) -> None:
    check_not_taken_over(work.task, work.generation, work.attempt, config, clients)


def check_not_taken_over(
    task: TaskId,
    generation: str,
    attempt: int,
    config: StreamsConfig,
    clients: TaskClients[Any],
) -> None:
    """Make sure that the backfill is still the one that a task belongs to.

    To be asked once the task's id was initialised, and again when it was fenced.

    Args:
        task: which.
        generation: of the backfill.
        attempt: of its driver.
        config: the application's.
        clients: the task's.

    Raises:
        TakenOverError: another driver has come.
    """
    gate = ManifestGate(config, clients.connection, clients.admin, client_id=clients.client_id)
    try:
        gate.check_task(task, generation, attempt)
    except FencedError as error:
        raise TakenOverError(str(error)) from error


def _for_a_task(
    given: Mapping[str, str | int | float | bool],
) -> dict[str, str | int | float | bool]:
    # Whoever waits does so by the clock, which stands still; and nothing comes later.
    return for_a_task(given, {"max.task.idle.ms": 0})
