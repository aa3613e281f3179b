"""What a Python worker of Spark does with a turn: hands it to the task's host, made if need be."""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater import failpoints, privatefiles
from headwater.errors import EnvironmentProblemError
from headwater.local.filelock import FileLock, FileLockHeldError
from headwater.service.owner import Address
from headwater.spark.causes import cause_of
from headwater.spark.turns.messages import Again

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from multiprocessing.connection import Connection

    from headwater.spark.turns.messages import HostSettings, Turn

_START_S: Final = 60.0
_POLL_S: Final = 0.02
_PROBE_S: Final = 1.0


def take_turns(told: HostSettings, batches: Iterable[Any]) -> Iterator[Any]:
    """Do the turns whose rows Spark hands to this Python worker (``mapInArrow``).

    Each row is a pickled ``Turn`` (or an error of the planner, passed on); each result a pickled
    ``TurnDone`` or error.

    Raises:
        EnvironmentProblemError: the turn failed for a reason that may pass; Spark tries again.
    """
    pa: Any = importlib.import_module("pyarrow")  # heavy, and untyped

    for batch in batches:
        for told_turn in batch.column("turn").to_pylist():
            turn = pickle.loads(told_turn)  # noqa: S301 - from our planner
            result = told_turn if isinstance(turn, Exception) else _done(told, turn)
            yield pa.RecordBatch.from_pydict({"result": pa.array([result], pa.binary())})


def _done(told: HostSettings, turn: Turn) -> bytes:
    try:
        return _ask(told, turn)
    except _SaidError:
        raise
    except Exception as error:
        raise EnvironmentProblemError(f"task {turn.task}: {cause_of(error)}") from error


class _SaidError(EnvironmentProblemError):
    """Names the task already."""


def _ask(told: HostSettings, turn: Turn) -> bytes:
    with _connected(told, turn.slot) as connection:
        connection.send(turn)
        failpoints.hit("spark.turn_asked")
        try:
            answer = connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise EnvironmentProblemError(
                f"its host ended in turn {turn.number}; the task goes on from what is committed"
            ) from error
    found = pickle.loads(answer)  # noqa: S301 - from our own host
    if isinstance(found, Again):
        raise _SaidError(found.message)
    return answer


def _connected(told: HostSettings, slot: int) -> Connection[Any, Any]:
    """Return a connection to the host of this executor's slot.

    Raises:
        EnvironmentProblemError: it does not start.
    """
    # The daemon that forks Python workers lives as long as their executor.
    owner = Address.of(os.getppid())
    record = told.record
    about = pickle.dumps((str(owner), slot, str(told.state_dir), record.generation, record.attempt))
    address = _own_directory() / hashlib.sha256(about).hexdigest()[:16]
    try:
        return Client(str(address), "AF_UNIX")
    except OSError:
        pass
    remove_abandoned(address.parent)
    with _lock_of(address) as lock:
        lock.acquire(timeout_s=2 * _START_S)
        try:
            return Client(str(address), "AF_UNIX")  # somebody else was faster
        except OSError:
            address.unlink(missing_ok=True)
        return _started(told, address, str(owner))


def remove_abandoned(directory: Path) -> None:
    """Remove the sockets of hosts that have ended, with their locks; killed hosts leave them."""
    for address in {file.with_suffix("") for file in directory.iterdir()}:
        # Who starts a host now holds its lock.
        with suppress(OSError, FileLockHeldError), _lock_of(address) as lock:
            lock.acquire(timeout_s=0)
            if not _is_served(address):
                address.unlink(missing_ok=True)
                lock.path.unlink(missing_ok=True)


def _lock_of(address: Path) -> FileLock:
    return FileLock(address.with_suffix(".lock"))


def _is_served(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(address))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # it is busy, for all we know
    return True


def _own_directory() -> Path:
    """Return a directory that nobody else can put a socket into; its path is short, as one must be.

    Raises:
        EnvironmentProblemError: somebody else has made it.
    """
    name = f"headwater-spark-{os.getuid()}"
    return privatefiles.own_directory(Path(tempfile.gettempdir()) / name, is_strict=True)


def _started(told: HostSettings, address: Path, owner: str) -> Connection[Any, Any]:
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.spark.turns.hosting", str(address), owner],
        stdin=subprocess.PIPE,
        # A Python worker's standard output belongs to Spark.
        stdout=sys.stderr.fileno(),
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(pickle.dumps(told))
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return Client(str(address), "AF_UNIX")
        except OSError:
            time.sleep(_POLL_S)
    code = process.poll()
    process.kill()  # or it would serve beside the one of the next attempt
    process.wait()
    raise EnvironmentProblemError(
        f"a task host does not start (exit code {code}); see the executor's standard error"
    )
