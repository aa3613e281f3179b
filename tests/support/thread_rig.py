"""One StreamThread process under test, with the worker's main process played by the test."""

from __future__ import annotations

import os
import signal
import struct
from typing import TYPE_CHECKING, Any, Self, TypeVar

import cloudpickle
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.kafka.committed import metadata_of
from headwater.model.metrics import THREAD_PROCESS
from headwater.native.application import ApplicationSettings
from headwater.native.messages import (
    FULL_COMMIT_INTERVAL_S,
    AddTasks,
    ChildSettings,
    Failed,
    GlobalProgress,
    Go,
    Initialized,
    Released,
    RevokeTasks,
    Stats,
    Stop,
    Stopped,
    TaskRunning,
)
from headwater.native.process import ChildProcess
from tests.support.creating import create_known
from tests.support.reading import by_partition
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from headwater import StreamsBuilder
    from headwater.ids import TaskId

M = TypeVar("M")
LONG = struct.Struct(">q")


class Topics:
    """Topics of one test, and what is in them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": "murmur2_random",
                "log_level": 0,
                "on_delivery": self._heard,
            }
        )
        self._lost: list[str] = []

    def _heard(self, error: object, _message: object) -> None:
        if error is not None:
            self._lost.append(str(error))

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        new = NewTopic(topic, partitions, 1, config=settings)
        create_known(self.admin, new)
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic; the broker shows it for a moment after it has said that it is done."""
        self.admin.delete_topics([topic])[topic].result(30)
        wait_for(
            lambda: topic not in self.admin.list_topics(timeout=30).topics,
            what=f"the end of {topic}",
        )

    def send(
        self,
        topic: str,
        records: Iterable[tuple[str, str]],
        partition: int = -1,
        *,
        timestamp_ms: int = 0,
    ) -> None:
        """Write records; a timestamp of 0 is that of now."""
        for number, (key, value) in enumerate(records):
            self._producer.produce(topic, value, key, partition, timestamp=timestamp_ms)
            if number % 1000 == 0:
                self._producer.poll(0)
        assert self._producer.flush(60) == 0
        assert not self._lost, self._lost

    def read(self, topic: str, *, isolation: str = "read_committed") -> list[tuple[str, bytes]]:
        """Everything visible now, partition by partition."""
        return [
            ((message.key() or b"").decode(), message.value() or b"")
            for message in by_partition(self.bootstrap_servers, topic, isolation=isolation)
        ]

    def ends(
        self, partitions: Iterable[Any], *, isolation: str = "read_committed"
    ) -> dict[Any, int]:
        """Where what is committed ends."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "reader",
                "isolation.level": isolation,
            }
        )
        found = {
            one: consumer.get_watermark_offsets(TopicPartition(one.topic, one.partition), 60)[1]
            for one in partitions
        }
        consumer.close()
        return found

    def wait_settled(self, prefix: str) -> None:
        """Wait until no transaction is open in the topics whose names begin so.

        The broker answers a commit before its markers are there, by which it becomes visible.
        """
        topics = self.admin.list_topics(timeout=60).topics
        partitions = [
            TopicPartition(name, number)
            for name, topic in topics.items()
            if name.startswith(prefix)
            for number in topic.partitions
        ]

        def is_settled() -> bool:
            visible = self.ends(partitions)
            return visible == self.ends(partitions, isolation="read_uncommitted")

        wait_for(is_settled, what=f"the transactions in {prefix} to end")

    def counts(self, topic: str, *, isolation: str = "read_committed") -> dict[str, int]:
        """The last value of every key, as a long."""
        return {key: LONG.unpack(value)[0] for key, value in self.read(topic, isolation=isolation)}

    def committed(self, group: str, topic: str, partitions: int = 1) -> dict[int, int]:
        found = self.committed_with_metadata(group, topic, partitions)
        return {number: offset for number, (offset, _) in found.items()}

    def committed_with_metadata(
        self, group: str, topic: str, partitions: int = 1
    ) -> dict[int, tuple[int, str]]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": group})
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        found = {
            one.partition: (one.offset, metadata_of(one)) for one in consumer.committed(wanted, 60)
        }
        consumer.close()
        return found


class ThreadRig:
    """A StreamThread of the application ``application_id``; every start is a new process."""

    def __init__(
        self,
        topics: Topics,
        application_id: str,
        build: Callable[[StreamsBuilder], None],
        state_dir: Path,
        full_commit_interval_s: float = FULL_COMMIT_INTERVAL_S,
        **config: Any,
    ) -> None:
        self.application_id = application_id
        self._topics = topics
        self.config: dict[str, Any] = {
            "application.id": application_id,
            "bootstrap.servers": topics.bootstrap_servers,
            "commit.interval.ms": 100,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.state_dir = state_dir
        self.full_commit_interval_s = full_commit_interval_s
        self.messages: list[Any] = []
        self._topology = cloudpickle.dumps(build)
        self._child: ChildProcess | None = None
        self.global_thread: ChildProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in (self._child, self.global_thread):
            if child is not None:
                child.close()

    @property
    def child(self) -> ChildProcess:
        assert self._child is not None
        return self._child

    def start(self, *tasks: TaskId, slot: int = 0, failpoints: str = "") -> Self:
        """Start the process and, if tasks are named, bring them to running."""
        self.start_initialising(slot=slot, failpoints=failpoints)
        self.wait_for(Initialized)
        if tasks:
            self.child.send(Go(epoch=1))
            self.child.send(AddTasks(tasks=tasks, epoch=1))
            for task in tasks:
                self.wait_for(TaskRunning, task=task)
        return self

    def start_initialising(self, *, slot: int = 0, failpoints: str = "") -> None:
        self.messages.clear()
        if self._child is not None:
            self._child.close()
        self._child = self._process("headwater.native.thread:run", slot, failpoints)

    def _process(self, target: str, slot: int, failpoints: str = "") -> ChildProcess:
        os.environ["HEADWATER_FAILPOINTS"] = failpoints
        try:
            return ChildProcess(
                target,
                ChildSettings(
                    application_id=self.application_id,
                    worker="w-0",
                    slot=slot,
                    application=ApplicationSettings(config=self.config, topology=self._topology),
                    state_dir=str(self.state_dir),
                    cache_bytes=int(self.config.get("statestore.cache.max.bytes", 0)),
                    full_commit_interval_s=self.full_commit_interval_s,
                ),
                name=f"{self.application_id}-{slot}",
            )
        finally:
            del os.environ["HEADWATER_FAILPOINTS"]

    def start_global_thread(self, number: int = 0, *, failpoints: str = "") -> GlobalProgress:
        """Start a GlobalStreamThread and wait until it has filled its stores."""
        if self.global_thread is not None:
            self.global_thread.close()
        target = "headwater.native.global_thread:run"
        child = self.global_thread = self._process(target, number, failpoints)

        def filled() -> GlobalProgress | None:
            for message in child.receive(0.02):
                assert isinstance(message, GlobalProgress), message
                if message.filled:
                    return message
            assert not child.gone, f"ended with {child.exit_code}"
            return None

        return wait_for(filled, what="global stores that are filled", every_s=0.01)

    def global_failure(self, number: int = 0) -> Failed:
        """Start a GlobalStreamThread that cannot go on, or wait for the end of the one there is."""
        if self.global_thread is None:
            self.global_thread = self._process("headwater.native.global_thread:run", number)
        child = self.global_thread

        def ended() -> Failed | None:
            return next((m for m in child.receive(0.02) if isinstance(m, Failed)), None)

        return wait_for(ended, what="the end of the GlobalStreamThread", every_s=0.01)

    def pump(self) -> list[Any]:
        self.messages.extend(self.child.receive(0.02))
        return self.messages

    def wait_for(self, kind: type[M], *, timeout_s: float = 120, **fields: object) -> M:
        """Wait for the next message of a kind; an unexpected ``Failed`` fails the test."""

        def found() -> M | None:
            for message in self.pump():
                if isinstance(message, kind) and _has(message, fields):
                    self.messages.remove(message)
                    return message
                assert kind is Failed or not isinstance(message, Failed), message
            assert not self.child.gone, f"ended with {self.child.exit_code}"
            return None

        return wait_for(found, what=f"{kind.__name__} {fields}", timeout_s=timeout_s, every_s=0.01)

    def wait_stats(
        self, what: str, condition: Callable[[Stats], object], timeout_s: float = 120
    ) -> Stats:
        """Wait for a report that fulfils ``condition``."""

        def found() -> Stats | None:
            stats = self.wait_for(Stats, timeout_s=timeout_s)
            return stats if condition(stats) else None

        return wait_for(found, what=what, timeout_s=timeout_s, every_s=0)

    def wait_processed(self, records: int, timeout_s: float = 120) -> Stats:
        return self.wait_stats(
            f"{records} records",
            lambda stats: stats.numbers.total(THREAD_PROCESS) >= records,
            timeout_s,
        )

    def revoke(self, *tasks: TaskId) -> dict[TaskId, Mapping[str, int]]:
        self.child.send(RevokeTasks(tasks=tasks, epoch=2))
        return {task: self.wait_for(Released, task=task).offsets for task in tasks}

    def stop(self) -> None:
        """Stop in order: everything is committed, and can be seen."""
        self.child.send(Stop())
        self.wait_for(Stopped)
        assert self.child.wait(60) == 0
        self._topics.wait_settled(self.application_id)

    def kill(self) -> None:
        self.child.kill()

    def freeze(self) -> None:
        os.kill(self.child.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.child.pid, signal.SIGCONT)

    def wait_end(self, timeout_s: float = 120) -> int:
        code = wait_for(
            lambda: (self.pump(), self.child.exit_code)[1] is not None,
            what="the end of the process",
            timeout_s=timeout_s,
        )
        assert code
        exit_code = self.child.exit_code
        assert exit_code is not None
        return exit_code


def _has(message: object, fields: Mapping[str, object]) -> bool:
    return all(getattr(message, name) == value for name, value in fields.items())
