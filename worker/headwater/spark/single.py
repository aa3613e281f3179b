"""One StreamTask in a process of Spark's: what a StreamThread is to its tasks, without commands.

A backfill drives it up to the cut (``work.py``), a continuous query turn by turn
(``turns/live_task.py``).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headwater.config import field_of
from headwater.kafka.consumer import PartitionConsumer
from headwater.model.engine import spark_transactional_id
from headwater.native.clients import TaskClients
from headwater.native.commit import Committer
from headwater.native.global_reader import GlobalReader
from headwater.native.loading import built
from headwater.native.loop import ProcessingLoop
from headwater.native.losses import guard_of
from headwater.native.opening import TaskOpener
from headwater.native.policy import LoopPolicy
from headwater.native.stores import StoreOpener
from headwater.spark.counting import CommitCounts
from headwater.state import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headwater.ids import TaskId
    from headwater.kafka.producer import StreamsProducer
    from headwater.model.offset_reset import OffsetReset
    from headwater.model.topology import Topology
    from headwater.native.application import ApplicationSettings, Options
    from headwater.native.opening import RunningTask
    from headwater.ports import Clock, RecordCollector
    from headwater.state import BlockCache

WORKER: Final = "spark"
_COMMIT_INTERVAL_MS: Final = 2_000
"""A fifth of the time after which the broker ends a transaction by itself."""

Reader = TypeVar("Reader", bound=PartitionConsumer)
Policy = TypeVar("Policy", bound=LoopPolicy)


def for_a_task(application: ApplicationSettings, decided: Options) -> ApplicationSettings:
    """Return the application with what Spark's engine decides itself in its configuration."""
    ours: dict[str, str | int | float | bool] = {
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": _COMMIT_INTERVAL_MS,
        "num.stream.threads": 1,
        **decided,
    }
    given, decides = application.config.items(), set(map(field_of, ours))
    kept = {name: value for name, value in given if field_of(name) not in decides}
    return replace(application, config=kept | ours)


def _on() -> None:
    """Nobody waits for a sign of life while global stores are filled."""


class SingleTask(Generic[Reader, Policy]):
    """A task with its clients, its stores and the loop that drives it. Close it, come what may.

    Args:
        task: which.
        application: its configuration and topology, from ``for_a_task``.
        state_dir: holds its stores.
        reader: makes the consumer.
        policy: makes what says how far the task goes.
        clock: the wall clock.
        default_reset: ``auto.offset.reset`` for sources without their own.
        check: called once the transactional id is initialised; raises if nothing is to be written.
        group: where offsets are committed; the application's own if not given.
        collector: makes what the task sends to; the producer itself if not given.
        dead_letters: how many were sent so far, if that is of interest.
        blocks: of RocksDB, shared with other tasks of this process; its own if not given.
        topics: what patterns are matched with; all topics there are if not given.

    Raises:
        HeadwaterError: nothing stays open.

    Attributes:
        clients: its own.
        opener: has opened the task.
        policy: how far the task goes.
        loop: drives the task.
        counts: what is committed.
        globals: the task's own copy of all global stores.
    """

    def __init__(
        self,
        task: TaskId,
        *,
        application: ApplicationSettings,
        state_dir: str,
        reader: Callable[..., Reader],
        policy: Callable[[Reader], Policy],
        clock: Clock,
        default_reset: OffsetReset,
        check: Callable[[TaskClients[Reader]], None],
        group: str | None = None,
        collector: Callable[[StreamsProducer, Topology], RecordCollector] | None = None,
        dead_letters: Callable[[], int] | None = None,
        blocks: BlockCache | None = None,
        topics: Collection[str] | None = None,
    ) -> None:
        self.task = task
        config = self.config = application.parsed()
        topology = built(application)
        with ExitStack() as opened:
            clients = self.clients = TaskClients(
                config,
                name=f"{WORKER}-{task}",
                transactional_id=spark_transactional_id(config.application_id, task),
                group=group,
                reader=partial(reader, hands_on=True),
            )
            opened.callback(clients.close)
            producer = clients.producer
            sending = producer if collector is None else collector(producer, topology)
            guard = guard_of(config, topology, clients)
            self.globals = GlobalReader(
                topology.global_subtopologies,
                clients.access,
                clients.global_consumer,
                clock,
                _on,
            )
            opened.callback(self.globals.close)
            self._stores = StoreOpener(
                directory=StateDirectory(Path(state_dir), config.application_id),
                holder=f"task {task} on Spark",
                cache_bytes=config.statestore_cache_max_bytes,
                clients=clients,
                collector=sending,
                guard=guard,
                blocks=blocks,
            )
            self.opener = TaskOpener(
                topology=topology,
                clients=clients,
                collector=sending,
                stores=self._stores,
                clock=clock,
                default_reset=default_reset,
                guard=guard,
                check=lambda: check(clients),
                group=group,
                global_stores=self.globals.stores,
                topics=topics,
            )
            opened.callback(self.opener.close)
            committer = Committer(clients, clock)
            opened.callback(committer.close)
            self.policy = policy(clients.consumer)
            self.counts = CommitCounts(dead_letters)
            self.loop = self._looped(committer, clock)
            self._opened = opened.pop_all()

    def _looped(self, committer: Committer, clock: Clock) -> ProcessingLoop:
        return ProcessingLoop(
            config=self.config,
            clock=clock,
            clients=self.clients,
            committer=committer,
            opener=self.opener,
            policy=self.policy,
            listener=self.counts,
        )

    def open(self, on_initialized: Callable[[], None]) -> RunningTask:
        """Initialise the transactional id, fill global stores, then open the task and its stores.

        Args:
            on_initialized: called in between.

        Raises:
            FencedError: somebody has taken over.
            HeadwaterError: as a StreamThread would end with; to be closed.
        """
        timeout_s = self.config.request_timeout_ms / 1000
        self.clients.producer.init_transactions(timeout_s)
        on_initialized()
        self.globals.bootstrap()
        (running,) = self.opener.open([self.task])
        self._opened.callback(running.task.close)
        self.loop.add([running])
        return running

    def share_cache(self, tasks: int) -> None:
        """Keep to a fair share of the record cache; between commits, when nothing in it is new.

        Args:
            tasks: how many share it.
        """
        self._stores.resize_cache(max(1, self.config.statestore_cache_max_bytes // tasks))

    def close(self) -> None:
        """Release everything, even if some of it fails; what is not committed is given up."""
        self._opened.close()
