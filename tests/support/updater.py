"""A StateUpdater under test, and a changelog topic that it reads."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.ids import TaskId
from headwater.native.application import ApplicationSettings, Options
from headwater.native.messages import (
    ChildSettings,
    Failed,
    Follow,
    Following,
    Restore,
    Restored,
)
from headwater.native.process import ChildProcess
from headwater.state.backends.rocks import RocksBackend
from headwater.state.directory import StateDirectory
from tests.support.creating import create_known
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder

LONG = struct.Struct(">q")
T0, T1 = TaskId(0, 0), TaskId(0, 1)


class Changelog:
    """A changelog topic with one writer."""

    def __init__(self, bootstrap_servers: str, application_id: str, *, partitions: int = 2) -> None:
        self.topic = f"{application_id}-counts-changelog"
        self._servers = bootstrap_servers
        self._application_id = application_id
        self._partitions = partitions
        self.create()

    def create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers})
        topic = NewTopic(self.topic, self._partitions, 1, config={"cleanup.policy": "compact"})
        create_known(admin, topic)

    def delete(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers})
        admin.delete_topics([self.topic])[self.topic].result(30)
        wait_for(lambda: self.topic not in admin.list_topics(timeout=60).topics, what="deletion")

    def recreate(self) -> None:
        self.delete()
        self.create()

    def commit(self, offset: int = 5) -> None:
        """Commit an offset of the input, as an application that has read it."""
        admin = AdminClient({"bootstrap.servers": self._servers})
        create_known(admin, NewTopic(self._application_id, self._partitions, 1))
        read = TopicPartition(self._application_id, 0, offset)
        request = [ConsumerGroupTopicPartitions(self._application_id, [read])]
        admin.alter_consumer_group_offsets(request)[self._application_id].result(30)

    def write(self, values: dict[str, int], *, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self._servers})
        self._produce(producer, values, partition)

    def write_transaction(
        self, values: dict[str, int], *, partition: int = 0, end: str = "commit"
    ) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": f"{self._application_id}-writer",
                "transaction.timeout.ms": 300_000,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        self._produce(producer, values, partition)
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)
        return producer

    def _produce(self, producer: Producer, values: dict[str, int], partition: int) -> None:
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        for key, value in values.items():
            producer.produce(
                self.topic,
                LONG.pack(value),
                key.encode(),
                partition=partition,
                timestamp=7,
                on_delivery=delivered,
            )
            producer.poll(0)
        assert not producer.flush(60), "no answer from the broker"
        assert not refused


class Updater:
    """A StateUpdater process and what it has said."""

    def __init__(self, settings: ChildSettings, **environment: str) -> None:
        self._child = ChildProcess("headwater.native.updater:run", settings, name="updater")
        self.said: list[Any] = []

    def send(self, *messages: Any) -> None:
        for message in messages:
            self._child.send(message)

    def wait_for(self, *kinds: type) -> Any:
        def found() -> Any:
            self.said += self._child.receive(0.05)
            return next((message for message in self.said if isinstance(message, kinds)), None)

        message = wait_for(found, what=" or ".join(kind.__name__ for kind in kinds))
        self.said.remove(message)
        return message

    def restores(self, *tasks: TaskId) -> dict[TaskId, Restored]:
        self.send(*(Restore(task=task, epoch=1) for task in tasks))
        found = [self.wait_for(Restored, Failed) for _ in tasks]
        assert not [message for message in found if isinstance(message, Failed)], found
        return {message.task: message for message in found}

    def follows(self, *tasks: TaskId) -> None:
        """Have tasks followed, and wait until each is at the end of its changelog."""
        self.send(*(Follow(task=task, epoch=1) for task in tasks))
        self.is_at_the_end(*tasks)

    def is_at_the_end(self, *tasks: TaskId, applied: int = 0) -> Following:
        """Wait until followed tasks are at the end; return what says so."""

        def told() -> Following | None:
            self.said += self._child.receive(0.05)
            assert not [message for message in self.said if isinstance(message, Failed)], self.said
            found = [message for message in self.said if isinstance(message, Following)]
            # By identity: it is told every now and then, changed or not.
            older = set(map(id, found[:-1]))
            self.said = [message for message in self.said if id(message) not in older]
            last = found[-1] if found else None
            if last is None or last.applied < applied:
                return None
            return last if all(last.lags.get(task) == 0 for task in tasks) else None

        return wait_for(told, what=f"{' '.join(map(str, tasks))} at the end")

    def exit_code(self) -> int | None:
        return self._child.wait(120)

    def close(self) -> None:
        self._child.close()


def settings_of(
    bootstrap_servers: str,
    application_id: str,
    state_dir: Path,
    topology: Callable[[StreamsBuilder], None] | None = None,
) -> ChildSettings:
    """What a StateUpdater of ``counts_of`` is told."""
    return ChildSettings(
        application_id=application_id,
        worker="w-0",
        slot=0,
        application=ApplicationSettings(
            config={
                "application.id": application_id,
                "bootstrap.servers": bootstrap_servers,
                "processing.guarantee": "exactly_once_v2",
            },
            topology=cloudpickle.dumps(topology or counts_of(application_id)),
        ),
        state_dir=str(state_dir),
        cache_bytes=0,
    )


def with_config(settings: ChildSettings, options: Options) -> ChildSettings:
    """The same with more options."""
    application = settings.application
    config = {**application.config, **options}
    return replace(settings, application=replace(application, config=config))


def stored(settings: ChildSettings, task: TaskId = T0) -> dict[str, int]:
    """What a task's store holds."""
    directory = StateDirectory(Path(settings.state_dir), settings.application_id)
    backend = RocksBackend(directory.store(task, "counts").database)
    held = {key.decode(): LONG.unpack(value[8:])[0] for key, value in backend.range(None, None)}
    backend.close()
    return held
