"""A local cluster under test: ``headwater up`` as a person starts it, and what it shows."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

import psutil
import yaml
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.privatefiles import read_secret, token_file
from headwater_operator.local import control
from headwater_operator.local.files import tail
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.observe import read_process, read_report, read_worker
from tests.support.counting import PREFIX_VARIABLE
from tests.support.creating import create_known
from tests.support.reading import held
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

    from headwater.model.appstatus import AppStatus
    from headwater_operator.local.pods import PodProcess
    from headwater_operator.local.records import SupervisorRecord

APP = "counting"
CUT_OFF_S = 30.0
"""A producer that has delivered nothing for so long although it has something never will."""


def streamapp(
    bootstrap_servers: str | None, application_id: str, **spec: object
) -> dict[str, object]:
    """A StreamApp that runs ``tests.support.counting``."""
    kafka = {"bootstrapServers": bootstrap_servers} if bootstrap_servers else {}
    return {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": APP},
        "spec": {
            "applicationId": application_id,
            "topology": {"module": "tests.support.counting:build"},
            "processingGuarantee": "exactly_once_v2",
            "kafka": kafka,
            **spec,
        },
    }


class LocalCluster:
    """One ``headwater up`` and the directory it works in."""

    def __init__(self, root: Path, prefix: str) -> None:
        self.cluster = ClusterDir(root / "home")
        self._file = root / "streamapp.yaml"
        self._output = root / "output"
        self._prefix = prefix
        self._process: subprocess.Popen[bytes] | None = None
        self._decided_before = 0

    def up(self, document: dict[str, object], *options: str, **environment: str) -> None:
        """Start ``headwater up --plain`` with this StreamApp."""
        self._decided_before = self.decided_by
        self._file.write_text(yaml.safe_dump(document))
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "headwater.cli.main", "up", "--plain"),
                    *("-f", str(self._file), "--home", str(self.cluster.root), *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, PREFIX_VARIABLE: self._prefix, **environment},
            )

    def join(self, document: dict[str, object]) -> subprocess.CompletedProcess[str]:
        """Run a second ``headwater up --plain`` beside the first until it ends by itself."""
        file = self._file.with_name("joining.yaml")
        file.write_text(yaml.safe_dump(document))
        return self._run("up", "--plain", "-f", str(file))

    def detached(self) -> None:
        """Run ``headwater up --detach`` with the same StreamApp, until it runs."""
        self.command("up", "--detach", "-f", str(self._file))

    def command(self, *arguments: str) -> str:
        """Run another command on this cluster; return what it printed."""
        done = self._run(*arguments)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "headwater.cli.main",
                *arguments,
                "--home",
                str(self.cluster.root),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, PREFIX_VARIABLE: self._prefix},
        )

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)

    def is_up(self) -> bool:
        """Whether ``up`` has not ended."""
        return self._process is not None and self._process.poll() is None

    def wait(self, timeout_s: float = 240.0) -> int:
        """Return what ``up`` ends with."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    @property
    def output(self) -> str:
        """What ``up`` has printed."""
        return self._output.read_text()

    def worker_logs(self, lines: int = 40) -> str:
        """The ends of what the workers have printed, for a failing test to show."""
        return "\n".join(
            f"== {worker.name}\n{tail(worker.log, lines)}"
            for worker in self.cluster.app(APP).workers()
        )

    @property
    def supervisor(self) -> SupervisorRecord:
        """The supervisor that runs now."""
        record = control.running_supervisor(self.cluster)
        assert record is not None, self.output
        return record

    @property
    def status(self) -> AppStatus:
        """What the control loop says."""
        return read_report(self.cluster.app(APP)).status

    @property
    def decided_by(self) -> int:
        """The generation of the control loop that has reported last."""
        return read_report(self.cluster.app(APP)).generation

    def headers(self, worker: str) -> dict[str, str]:
        """What a caller of ``/state`` of a worker sends along."""
        state = self.cluster.app(APP).state(worker) / self._prefix
        token = read_secret(token_file(state, worker))
        return {"Authorization": f"Bearer {token}"}

    def processes(self) -> dict[str, PodProcess]:
        """The last process of every worker."""
        found = {}
        for directory in self.cluster.app(APP).workers():
            process = read_process(directory)[1]
            if process is not None:
                found[directory.name] = process
        return found

    def tasks(self) -> dict[str, list[str]]:
        """The tasks that every worker has been granted."""
        workers = filter(None, map(read_worker, self.cluster.app(APP).workers()))
        return {worker.name: [str(task) for task in worker.spec.active] for worker in workers}

    def wait_running(
        self,
        *,
        replicas: int,
        timeout_s: float = 240.0,
        until: Callable[[], bool] = lambda: True,
    ) -> None:
        """Wait until all tasks run on exactly so many workers, and ``until`` holds.

        What is reported may be of before something that was just done; ``until`` tells.
        """

        def runs() -> bool:
            holders = [name for name, tasks in self.tasks().items() if tasks]
            status = self.status
            # What an earlier control loop has reported stays until the next one reports.
            is_new = self.decided_by > self._decided_before
            return (
                is_new
                and status.state == "RUNNING"
                and len(holders) == status.replicas == replicas
                and until()
            )

        try:
            wait_for(runs, what=f"{replicas} running workers", timeout_s=timeout_s, every_s=0.2)
        except AssertionError as error:
            raise AssertionError(
                f"{error}\n{self.status}\n{self.tasks()}\n{self.output}"
            ) from error

    def descendants(self) -> list[psutil.Process]:
        """Every process that belongs to the cluster, the supervisor included."""
        supervisor = psutil.Process(self.supervisor.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        record = control.running_supervisor(self.cluster)
        if record is not None:
            record.identity.wait(10)


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended; one that only waits to be reaped has."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def name_of(process: psutil.Process) -> str:
    """The name of a process, empty if it has ended, as an idle StateUpdater does."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def create_topics(bootstrap_servers: str, prefix: str, *, partitions: int) -> None:
    """Create the two topics of ``tests.support.counting``."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [NewTopic(f"{prefix}-{end}", partitions) for end in ("in", "out")]
    create_known(admin, *topics)


class Load(threading.Thread):
    """Feeds records of a few keys until told to stop.

    What counts as sent is what the topic holds in the end: a broker's restart leaves open what
    became of the last requests, and may cut the producer off, which is replaced then.
    """

    def __init__(self, bootstrap_servers: str, prefix: str, *, records_per_s: int = 5_000) -> None:
        super().__init__(daemon=True)
        self._servers = bootstrap_servers
        self.cut_off_s = CUT_OFF_S
        self._topic = f"{prefix}-in"
        self._per_tick = records_per_s // 50
        self._ended = threading.Event()
        self._producer = self._made()
        self.sent: Counter[str] = Counter()
        """How many records of each key the topic holds, as of the last ``flush``."""

    def _made(self) -> Producer:
        self._delivered_at = time.monotonic()
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "linger.ms": 10,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # Java's
                "on_delivery": self._on_delivery,
            }
        )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        del message
        if error is None:
            self._delivered_at = time.monotonic()

    def run(self) -> None:
        number = 0
        while not self._ended.wait(0.02):
            self.feed(f"key-{(number + step) % 997}" for step in range(self._per_tick))
            number += self._per_tick

    def _is_delivered(self) -> bool:
        self._replace_if_cut_off()
        return self._producer.flush(0.1) == 0

    def _replace_if_cut_off(self) -> None:
        if not len(self._producer):
            self._delivered_at = time.monotonic()
        elif time.monotonic() - self._delivered_at > self.cut_off_s:
            self._producer.purge()
            self._producer.flush(5)  # its reports, or the client lives as long as the process
            self._producer = self._made()

    def feed(self, keys: Iterable[str]) -> None:
        """Send one record per key."""
        if not len(self._producer):
            self._delivered_at = time.monotonic()  # nothing was waited for until now
        for key in keys:
            with contextlib.suppress(BufferError):  # full while no broker is there
                self._producer.produce(self._topic, key=key, value=b"v")
        self._producer.poll(0)
        self._replace_if_cut_off()

    def flush(self) -> None:
        """Wait until everything is delivered; then ``sent`` is known."""
        wait_for(self._is_delivered, what="all of the load to be delivered", timeout_s=120)
        self.sent = Counter(
            (message.key() or b"").decode()
            for message in held(self._servers, self._topic, isolation="read_uncommitted")
        )

    def end(self) -> None:
        """Feed no more, and wait for nothing."""
        self._ended.set()

    def stop(self) -> None:
        """Stop, and flush."""
        self._ended.set()
        self.join()
        self.flush()


def read_counts(bootstrap_servers: str, prefix: str) -> dict[str, int]:
    """The last committed count of every key."""
    return {
        (message.key() or b"").decode(): struct.unpack(">q", message.value() or b"")[0]
        for message in held(bootstrap_servers, f"{prefix}-out")
    }
