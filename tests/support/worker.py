"""A worker process under test, and a control loop's side of its files, moved by hand."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import urllib.request
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headwater.model.cluster import StreamWorker, WorkerSpec, WorkerStatus
from headwater.model.lifecycle import TaskState
from headwater.service.carrier import replace_json
from tests.support.creating import create_known
from tests.support.membership import member
from tests.support.reading import by_partition
from tests.support.topologies import TOPIC_VARIABLE
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from headwater.ids import TaskId
    from headwater.model.topics import ChangelogTopic

APP = "counting"
LONG = struct.Struct(">q")


class Counting:
    """The topics of ``tests.support.topologies:counts`` for one application, and their content."""

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        *,
        partitions: int = 2,
        changelog: bool = True,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.application_id = application_id
        self.topic = application_id
        self.partitions = partitions
        self.changelog = f"{application_id}-counts-changelog"
        self.create(self.topic, partitions)
        self.create(f"{self.topic}-counts", partitions)
        if changelog:
            self.create(self.changelog, partitions, **{"cleanup.policy": "compact"})
        self.sent: Counter[str] = Counter()
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})

    def create(self, topic: str, partitions: int, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        new = NewTopic(topic, partitions, 1, config=config)
        create_known(admin, new)

    def widen(self, partitions: int) -> None:
        """Give the input topic so many partitions in all, and wait until a new client sees them."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(30)
        wait_for(
            lambda: len(admin.list_topics(self.topic).topics[self.topic].partitions) == partitions,
            what=f"{partitions} partitions",
        )
        self.partitions = partitions
        self._producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5})

    def send(self, records: int, *, keys: int = 10, partition: int | None = None) -> None:
        """Send records; key ``k`` goes to partition ``k mod partitions``."""
        for number in range(records):
            key = f"key-{number % keys}"
            where = number % keys % self.partitions if partition is None else partition
            self._producer.produce(self.topic, b"x", key.encode(), partition=where)
            self._producer.poll(0)
            self.sent[key] += 1
        self._producer.flush(30)

    def counted(self) -> Counter[str]:
        """The last committed count of every key."""
        return Counter(
            {
                key.decode(): LONG.unpack(value)[0]
                for key, value in self.read(f"{self.topic}-counts")
                if value is not None
            }
        )

    def read(self, topic: str) -> list[tuple[bytes, bytes | None]]:
        """Everything committed in a topic of ours, partition by partition."""
        return [
            (message.key() or b"", message.value())
            for message in by_partition(self.bootstrap_servers, topic)
        ]

    def joined(self) -> AbstractContextManager[Consumer]:
        """Be a member of the application's consumer group, as a Java application is."""
        return member(self.bootstrap_servers, self.application_id, self.topic, "a-java-application")

    def all_counted(self) -> bool:
        return self.counted() == self.sent

    def committed(self) -> dict[int, int]:
        """The group's committed offset by partition of the input."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap_servers, "group.id": self.application_id}
        )
        wanted = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        found = {item.partition: item.offset for item in consumer.committed(wanted, timeout=30)}
        consumer.close()
        return found


def family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants; any of them may end, as an idle StateUpdater does."""
    main = psutil.Process(pid)
    return [main, *main.children(recursive=True)]


def child_of(pid: int, kind: str) -> psutil.Process | None:
    """The process of a StreamThread or StateUpdater (``"StreamThread-0"``), if it lives."""
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # an idle StateUpdater ends
            if any(kind in part for part in child.cmdline()):
                return child
    return None


class WorkerProcess:
    """``headwater worker`` with its files; the methods named after verbs are the control loop's."""

    def __init__(
        self,
        counting: Counting,
        directory: Path,
        *,
        name: str = "counting-w-0",
        guarantee: str = "exactly_once_v2",
        threads: int = 2,
        topology: str = "tests.support.topologies:counts",
        config: dict[str, object] | None = None,
        **environment: str,
    ) -> None:
        self.name = name
        self.threads = threads
        self.cluster_dir = directory / "cluster"
        self.directory = self.cluster_dir / APP / "workers" / name
        self.directory.mkdir(parents=True, exist_ok=True)
        self.state_dir = directory / "state" / name
        self.log = directory / f"{name}.log"
        self._environment = {
            **os.environ,
            TOPIC_VARIABLE: counting.topic,
            "HEADWATER_LOG_LEVEL": "INFO",
            **environment,
        }
        self.streamapp: dict[str, Any] = {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": APP},
            "spec": {
                "applicationId": counting.application_id,
                "topology": {"module": topology},
                "threadsPerWorker": threads,
                "processingGuarantee": guarantee,
                "kafka": {"bootstrapServers": counting.bootstrap_servers},
                "config": {"commit.interval.ms": 100, **(config or {})},
            },
        }
        self.process: subprocess.Popen[bytes] | None = None

    # -- the process -----------------------------------------------------------------------------

    def start(self, **environment: str) -> Self:
        replace_json(self.cluster_dir / APP / "streamapp.json", self.streamapp)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "headwater.cli.main", "worker"),
                    *("--cluster-dir", str(self.cluster_dir), "--app", APP, "--name", self.name),
                    *("--state-dir", str(self.state_dir)),
                ],
                env={**self._environment, **environment},
                stdout=log,
                stderr=log,
            )
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def exit_code(self, timeout_s: float = 180) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.exit_code()

    def child(self, kind: str) -> psutil.Process:
        """The process of a StreamThread or StateUpdater: ``"StreamThread-0"``."""
        return wait_for(lambda: child_of(self.pid, kind), what=kind)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        # Shown only of a test that has failed.
        if self.log.exists():
            sys.stdout.write(self.log.read_text(errors="replace")[-20_000:])

    # -- its files -------------------------------------------------------------------------------

    @property
    def status(self) -> WorkerStatus:
        path = self.directory / "status.json"
        if not path.exists():
            return WorkerStatus()
        document = json.loads(path.read_text())
        return StreamWorker.from_dict({**document, "spec": {"app": APP}}).status

    @property
    def spec(self) -> WorkerSpec:
        path = self.directory / "spec.json"
        if not path.exists():
            return WorkerSpec(app=APP)
        return StreamWorker.from_dict(json.loads(path.read_text())).spec

    def write(self, **changes: Any) -> WorkerSpec:
        """Write the spec with changes under the next epoch."""
        before = self.spec
        spec = replace(before, **{"epoch": before.epoch + 1, **changes})
        replace_json(
            self.directory / "spec.json", StreamWorker(name=self.name, spec=spec).to_dict()
        )
        return spec

    def incarnation(self, *, other_than: str = "") -> str:
        """Wait for a process to report; return its incarnation."""

        def found() -> str:
            reported = self.status.incarnation
            return "" if reported == other_than else reported

        return wait_for(found, what="the worker's first report")

    def grant(self, *tasks: TaskId, **changes: Any) -> WorkerSpec:
        """Grant tasks to the process that reports now."""
        return self.write(
            active=tasks,
            incarnation=self.status.incarnation,
            slots=tuple(range(self.threads)),
            **changes,
        )

    def is_running(self, *tasks: TaskId) -> bool:
        status = self.status
        running = {held.task for held in status.tasks if held.state is TaskState.RUNNING}
        return running == status.held == set(tasks) and status.acknowledged_epoch == self.spec.epoch

    def runs(self, *tasks: TaskId, timeout_s: float = 300) -> None:
        """Wait until exactly these tasks are processed, under the newest epoch."""
        wait_for(
            lambda: self.is_running(*tasks),
            what=f"{self.name} to run {' '.join(map(str, tasks))}",
            timeout_s=timeout_s,
        )

    def started_with(self, *tasks: TaskId, **environment: str) -> Self:
        """Start, grant, wait until the tasks run."""
        before = self.status.incarnation
        self.start(**environment)
        self.incarnation(other_than=before)
        self.grant(*tasks)
        self.runs(*tasks)
        return self

    def get(self, path: str) -> tuple[int, str]:
        """Ask the worker's HTTP service; return status code and text."""
        try:
            with urllib.request.urlopen(
                f"http://{self.status.endpoint}{path}", timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def changelogs(self) -> tuple[ChangelogTopic, ...]:
        topology = self.status.topology
        assert topology is not None
        return topology.subtopologies[0].changelogs
