"""Applications that Spark runs: the driver as a program, and a task host without Spark."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from multiprocessing.connection import Client
from typing import TYPE_CHECKING, Any, Self

from headwater.config import StreamsConfig
from headwater.kafka.engine import EngineWriter
from headwater.service.duties import Duties
from headwater.service.owner import Address
from tests.support.backfills import ROOT, TOPOLOGY
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.connection import Connection as Pipe
    from pathlib import Path

    from headwater.spark.turns.messages import HostSettings, Turn
    from tests.support.backfills import WordCount

START_S = 600
"""How long a driver may take to start and catch up on a busy machine."""


class SparkDriver:
    """``headwater spark`` of a StreamApp."""

    def __init__(
        self,
        document: dict[str, object],
        directory: Path,
        *,
        failpoints: str = "",
        options: tuple[str, ...] = (),
        program: str = "headwater.cli.main",
        **environment: str,
    ) -> None:
        self.state_dir = directory / "state"
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "streamapp.yaml"
        file.write_text(json.dumps(document))
        self._log = directory / f"driver-{uuid.uuid4().hex[:6]}.log"
        command = [sys.executable, "-m", program, "spark", "-f", str(file)]
        where = ["--state-dir", str(self.state_dir), "--home", str(directory)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *where, *options],
                cwd=ROOT,
                env={**os.environ, "HEADWATER_FAILPOINTS": failpoints, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def endpoint(self) -> str:
        """Where it serves: ``host:port``."""
        said = json.loads((self.state_dir / "driver.json").read_text())
        assert said["pid"] == self.process.pid
        return str(said["http"])

    def get(self, path: str) -> tuple[int, str]:
        """What the driver serves."""
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stop(self) -> None:
        """End it as a supervisor does."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(START_S) == 0, self.log[-4000:]

    def ended(self) -> tuple[int, str]:
        """Wait for its end by itself: exit code and last line."""
        try:
            code = self.process.wait(START_S)
        finally:
            self.kill()
        lines = self.log.strip().splitlines()
        said = [line for line in lines if line.startswith("error: ")]
        return code, (said or lines)[-1]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)


class WordCountOnSpark(SparkDriver):
    """``headwater spark`` of a word count, whose micro-batches are small."""

    def __init__(
        self,
        word_count: WordCount,
        app: str,
        directory: Path,
        *,
        master: str = "local[2]",
        guarantee: str = "at_least_once",
        topology: str = TOPOLOGY,
        config: Mapping[str, str | int] | None = None,
        **told: Any,
    ) -> None:
        self._word_count = word_count
        self._app = app
        spec = {
            "applicationId": app,
            "topology": {"module": topology},
            "processingGuarantee": guarantee,
            "config": {"statestore.cache.max.bytes": "0", **(config or {})},
            "kafka": {"bootstrapServers": word_count.topics.bootstrap_servers},
            "spark": {
                "master": master,
                "triggerInterval": "100ms",
                "maxOffsetsPerTrigger": 100,
                "config": {"spark.driver.memory": "1g"},
            },
        }
        document: dict[str, object] = {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "word-count"},
            "spec": spec,
        }
        super().__init__(document, directory, **told)

    def wait_counted(self) -> None:
        """Wait until every word is counted in the changelog."""

        def is_counted() -> bool:
            assert self.process.poll() is None, self.log[-4000:]
            return self._word_count.counts(self._app) == self._word_count.sent

        wait_for(is_counted, what="every word", timeout_s=START_S, every_s=0.5)


class TaskHost:
    """A task host that this test talks to in place of Spark's Python workers.

    Args:
        told: what the driver would say.
        directory: for its socket.
        failpoints: armed in it.
        before: Python to run in it before it serves: a planted fault.
    """

    def __init__(
        self, told: HostSettings, directory: Path, *, failpoints: str = "", before: str = "pass"
    ) -> None:
        address = directory / f"host-{uuid.uuid4().hex[:6]}"
        program = (
            f"import sys; {before}\n"
            "from headwater.spark.turns.hosting import main\nmain(*sys.argv[1:])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(address), str(Address.of(os.getpid()))],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "HEADWATER_FAILPOINTS": failpoints},
        )
        assert self.process.stdin is not None
        with self.process.stdin as pipe:
            pipe.write(pickle.dumps(told))
        wait_for(address.exists, what="the task host", timeout_s=START_S)
        found = wait_for(
            lambda: _connected(address), what="the task host's answer", timeout_s=START_S
        )
        assert found is not None
        self._pipe = found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(60)
        self._pipe.close()

    def send(self, turn: Turn) -> None:
        self._pipe.send(turn)

    def answer(self, timeout_s: float = START_S) -> Any:
        assert self._pipe.poll(timeout_s), "the host does not answer"
        return pickle.loads(self._pipe.recv_bytes())

    def take(self, turn: Turn) -> Any:
        self.send(turn)
        return self.answer()

    def resume(self) -> None:
        """Let a stopped one go on."""
        self.process.send_signal(signal.SIGCONT)


def _connected(address: Path) -> Pipe[Any, Any] | None:
    try:
        return Client(str(address), "AF_UNIX")
    except OSError:
        return None


def engine_writer(word_count: WordCount, app: str) -> EngineWriter:
    """Who takes the application over; making one fences the one before."""
    config = StreamsConfig.parse(word_count.config(app))
    return EngineWriter(Duties(config, client_id="engine").access)


def fence(word_count: WordCount, app: str, ids: list[str]) -> None:
    """Initialise ids, as whoever takes over does after the record is written."""
    Duties(StreamsConfig.parse(word_count.config(app)), client_id="engine").fence(ids)
