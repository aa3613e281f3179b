"""A worker until it begins: it hears SIGTERM at every moment, and tells that it imports.

The process is the first of a PID namespace, as in a container: a signal without a handler is lost
there. Where nobody may make one, SIGTERM is ignored at the start, which loses it in the same way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

import psutil
import pytest
from tests.support.waiting import wait_for

from headwater.errors import ImportTimeoutError
from headwater.model.cluster import StreamWorker, WorkerStatus
from headwater.service.carrier import FileCarrier, replace_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP, NAME = "starting", "starting-w-0"
DEADLINE_S: Final = 10
ENTRY: Final = ("-m", "headwater_entry")
LATE_ENTRY: Final = ("-c", "import sys; from headwater.cli.main import main; sys.exit(main())")
"""The planted fault: what handles SIGTERM comes after the first imports."""

CATCHES_ALL: Final = """
import threading


def build(builder):
    print("IMPORTING", flush=True)
    while True:
        try:
            threading.Event().wait(60)
        except BaseException as error:
            print("caught", error, flush=True)
"""
IN_A_LIBRARY: Final = """
import hashlib


def build(builder):
    print("IMPORTING", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""
HIDES_ITS_NOISE: Final = f"import sys\n\nsys.stderr = None\n{CATCHES_ALL}"
"""What a module puts in the place of standard error need not be a file."""
QUICK: Final = """
def build(builder):
    builder.stream("lines").to("copies")
"""


@cache
def namespace() -> tuple[str, ...]:
    """The command that makes a program the first process of a PID namespace; empty: none may."""
    for flags in ((), ("--user", "--map-root-user")):
        command = ("unshare", *flags, "--pid", "--fork", "--kill-child")
        with suppress(OSError):
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
    return ()


def _ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Starting:
    """``headwater worker`` in a container, as far as signals go."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "log"
        self._cluster = directory / "cluster"
        self._directory = self._cluster / APP / "workers" / NAME
        self._directory.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, topology: str, *, entry: tuple[str, ...] = ENTRY, **fields: Any) -> Self:
        document = {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": APP},
            "spec": {
                "topology": {"inline": topology, **fields},
                "kafka": {"bootstrapServers": "127.0.0.1:1"},
            },
        }
        replace_json(self._cluster / APP / "streamapp.json", document)
        state = str(self._cluster.parent / "state")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(*namespace(), sys.executable, "-X", "importtime", *entry, "worker"),
                    *("--cluster-dir", str(self._cluster), "--app", APP, "--name", NAME),
                    *("--state-dir", state),
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                preexec_fn=None if namespace() else _ignore_sigterm,  # noqa: PLW1509
            )
        return self

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def imported(self) -> int:
        """How many modules of ours are there by now."""
        return sum("| " in line and "headwater" in line for line in self.said.splitlines())

    def terminate(self) -> None:
        """Send SIGTERM to the first process of the namespace."""
        assert self._process is not None
        found = psutil.Process(self._process.pid)
        if namespace():
            [found] = found.children()
        found.terminate()

    def exit_code(self, timeout_s: float = DEADLINE_S) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    @property
    def status(self) -> WorkerStatus:
        path = self._directory / "status.json"
        if not path.exists():
            return WorkerStatus()
        document = json.loads(path.read_text())
        return StreamWorker.from_dict({**document, "spec": {"app": APP}}).status

    def is_free(self) -> bool:
        """Whether the next process of the worker may begin."""
        FileCarrier(self._directory, NAME, lock_timeout_s=0).close()
        return True

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            # unshare kills its child when it ends.
            self._process.kill()
            self._process.wait(30)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Starting]:
    starting = Starting(tmp_path)
    yield starting
    starting.close()
    # Shown only of a test that has failed.
    sys.stdout.write("\n".join(line for line in starting.said.splitlines() if "| " not in line))


@pytest.mark.parametrize("modules", [2, 4, 8, 32, 64, 128])
def test_sigterm_ends_a_worker_however_little_of_it_is_there(
    worker: Starting, modules: int
) -> None:
    worker.start(CATCHES_ALL)
    wait_for(lambda: worker.imported >= modules, what=f"{modules} modules", timeout_s=120)

    worker.terminate()

    assert worker.exit_code() == 128 + signal.SIGTERM
    assert worker.is_free()


@pytest.mark.parametrize("topology", [CATCHES_ALL, IN_A_LIBRARY], ids=["catches all", "in C"])
def test_sigterm_ends_a_worker_whatever_its_topology_does_while_it_is_imported(
    worker: Starting, topology: str
) -> None:
    worker.start(topology)
    wait_for(lambda: "\nIMPORTING" in worker.said, what="the import", timeout_s=120)

    worker.terminate()

    assert worker.exit_code() == 128 + signal.SIGTERM
    assert worker.is_free()


def test_sigterm_ends_a_worker_in_order_once_it_has_begun(worker: Starting) -> None:
    worker.start(QUICK)
    wait_for(lambda: worker.status.endpoint, what="the first report", timeout_s=120)

    worker.terminate()

    assert worker.exit_code() == 0
    assert worker.is_free()


def test_a_handler_that_comes_after_the_imports_is_found_out(worker: Starting) -> None:
    worker.start(QUICK, entry=LATE_ENTRY)
    wait_for(lambda: worker.imported >= 1, what="a module", timeout_s=120)

    worker.terminate()

    # It lives on as if nobody had said a word.
    wait_for(lambda: worker.status.endpoint, what="the first report", timeout_s=120)


def test_a_worker_tells_that_it_imports_and_ends_with_a_cause_when_the_time_is_over(
    worker: Starting,
) -> None:
    worker.start(HIDES_ITS_NOISE, importTimeout="4s")

    wait_for(lambda: worker.status.importing, what="the import to be told", timeout_s=120)
    importing = worker.status

    assert importing.error is None
    assert worker.exit_code(120) == ImportTimeoutError.exit_code
    error = worker.status.error
    assert error is not None
    assert (worker.status.incarnation, worker.status.importing) == (importing.incarnation, False)
    assert error.error == "ImportTimeoutError"
    for words in ("source text of spec.topology", "4 s", "spec.topology.importTimeout"):
        assert words in error.message
    # Where the import was.
    assert "in build" in worker.said
    assert worker.is_free()
