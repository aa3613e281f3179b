"""Child processes of a worker: spawned, never forked, tied to their parent's life.

    parent                                     child
    ChildProcess ◄── pipe of pickled values ──► Link
                 ──► SIGKILL when the parent ends (PR_SET_PDEATHSIG), end of file as the second cord

A child is a fresh interpreter (``exec``), so librdkafka's and RocksDB's threads are never copied,
and the parent's ``__main__`` is not imported again. The first thing a child does is to tie itself
to its parent; the last is to turn whatever ended it into ``Failed``.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import logging
import multiprocessing
import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import threading
import traceback
from concurrent.futures import Future
from functools import cache
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

from headwater.errors import FencedError, HeadwaterError, ProcessingError
from headwater.native.messages import Failed, Locate
from headwater.privatefiles import keep_private

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ids import TaskId

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1
_EXIT_ORPHANED: Final = 70
_EXIT_INTERNAL: Final = 71
_CAUSE_MAX: Final = 65_536
_SHOW_STACKS: Final = signal.SIGUSR1
_SHOWING_S: Final = 0.2
_BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); "
    "from headwater.native.process import enter; enter(*map(int, sys.argv[3:]))"
)


class ChildError(Exception):
    """Ends a child with an error of ours that concerns one task."""

    def __init__(self, error: HeadwaterError, task: TaskId | None) -> None:
        super().__init__(error, task)
        self.error = error
        self.task = task


class ChildProcess:
    """The parent's end of one child.

    The child is started from a thread that lives as long as this process: Linux sends the
    parent-death signal when the *thread* that started a child ends, not the process.

    Args:
        target: ``"module:function"`` called in the child as ``function(settings, link)``; when it
            returns, the child exits with 0.
        settings: any value that can be pickled.
        name: shown in process lists and log lines.
        inherited: descriptors that the child has, too, under the same numbers.
    """

    def __init__(
        self, target: str, settings: object, *, name: str, inherited: tuple[int, ...] = ()
    ) -> None:
        self.name = name
        """Shown in process lists and log lines."""
        self.gone = False
        """The child has closed its end of the pipe: nothing will be received any more."""
        # Two pipes, not a socket pair: a socket whose peer ends with something unread forgets what
        # the peer had said, which may be why it ended.
        commands, self._commands = Pipe(duplex=False)
        self.connection, messages = Pipe(duplex=False)
        """To be handed to ``multiprocessing.connection.wait`` together with other children's."""
        with commands, messages:
            descriptors = (commands.fileno(), messages.fileno())
            self._process = _spawner().spawn(name, descriptors, inherited)
        self.send((target, settings, name))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """``None`` while it runs; negative: ended by that signal. Reaps the process."""
        return self._process.poll()

    def send(self, message: object) -> bool:
        """Send a value; ``False`` if the child is gone."""
        try:
            self._commands.send(message)
        except OSError:
            return False
        return not self.gone

    def receive(self, timeout_s: float = 0.0) -> list[Any]:
        """Return what has arrived, waiting up to ``timeout_s`` for the first value."""
        received: list[Any] = []
        try:
            while not self.gone and self.connection.poll(0 if received else timeout_s):
                received.append(self.connection.recv())
        except (EOFError, OSError):
            self.gone = True
        return received

    def kill(self) -> int:
        """Send SIGKILL and wait until the process is gone; return the exit code."""
        if self._process.poll() is None:
            self._process.kill()
        return self._process.wait()

    def show_stacks(self) -> None:
        """Have the child write its stacks to its standard error, whatever it is doing.

        A native call that holds Python's global lock does not keep it from that.
        """
        if self._process.poll() is None:
            self._process.send_signal(_SHOW_STACKS)
            self.wait(_SHOWING_S)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end; ``None`` if it still runs after ``timeout_s``."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Kill the child if it still runs and release the pipe."""
        self.kill()
        self.gone = True
        self._commands.close()
        self.connection.close()


class Link:
    """The child's end: a reader thread fills an inbox, and exits when the parent is gone."""

    def __init__(
        self, commands: Connection[Any, Any], messages: Connection[Any, Any], name: str
    ) -> None:
        self.name = name
        self._commands = commands
        self._messages = messages
        self.locate: Callable[[], object] | None = None
        """Answers ``Locate``, in the reader thread: the process's own may hang."""
        self._sending = threading.Lock()
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._writable = select.poll()
        self._writable.register(messages.fileno(), select.POLLOUT)
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                command = self._commands.recv()
                if isinstance(command, Locate):
                    self._answer()
                else:
                    self._inbox.put(command)
        except (EOFError, OSError):
            # Nobody supervises us any more: what is uncommitted must stay so, hence no clean-up.
            os._exit(_EXIT_ORPHANED)

    def _answer(self) -> None:
        if self.locate is None:
            return
        try:
            found = self.locate()
        except Exception:
            log.exception("%s cannot be located", self.name)
        else:
            self.send(found)

    def pending(self) -> bool:
        """Whether a command waits; cheap enough for every turn of a loop."""
        return not self._inbox.empty()

    def commands(self) -> list[Any]:
        """Return all commands that have arrived, without waiting."""
        found = []
        while True:
            try:
                found.append(self._inbox.get_nowait())
            except queue.Empty:
                return found

    def wait(self, timeout_s: float) -> Any | None:
        """Return the next command, or ``None`` after ``timeout_s``."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def send(self, message: object) -> None:
        """Send a value to the parent; ends this process if the parent is gone."""
        try:
            with self._sending:
                self._messages.send(message)
        except OSError:
            os._exit(_EXIT_ORPHANED)

    def offer(self, message: object) -> bool:
        """Send a value that may be lost: ``False`` (not sent) while the parent does not read."""
        events = self._writable.poll(0)
        if not events or not events[0][1] & select.POLLOUT:
            return False
        self.send(message)
        return True


def failed(error: BaseException, *, task: TaskId | None = None, following: bool = False) -> Failed:
    """Describe ``error`` as a message; a traceback only where it helps whoever must fix it.

    Our own errors say all in their message, except that user code which raised inside a processor
    is shown with the frames of that code.
    """
    shown: BaseException | None = error
    if isinstance(error, ProcessingError):
        shown = error.__cause__
    elif isinstance(error, HeadwaterError):
        shown = None
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return Failed(
        error=type(error).__name__,
        message=(str(error) or type(error).__name__) + notes,
        fenced=isinstance(error, FencedError),
        traceback="".join(traceback.format_exception(shown)) if shown is not None else "",
        cause=b"" if shown is None else _pickled(shown),
        task=task,
        following=following,
    )


def _pickled(error: BaseException) -> bytes:
    """Pickle an exception for the main process, its class by value if it has no module there."""
    try:
        pickled: bytes = cloudpickle.dumps(error)
    except Exception:  # noqa: BLE001 - it may hold anything
        return b""
    return pickled if len(pickled) <= _CAUSE_MAX else b""


_entered: list[int] = []


def is_child() -> bool:
    """Whether this process is a child of a worker."""
    return bool(_entered)


def enter(commands: int, messages: int, parent: int) -> None:
    """Run the child; called by the command line that ``ChildProcess`` builds. Does not return."""
    _entered.append(parent)
    _die_with(parent)
    keep_private()
    # Ctrl-C, and what ends a service, reach all its processes; the parent then stops us in order.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(_SHOW_STACKS)
    inbound: Connection[Any, Any] = Connection(commands, writable=False)
    outbound: Connection[Any, Any] = Connection(messages, readable=False)
    try:
        target, settings, name = pickle.loads(inbound.recv_bytes())  # noqa: S301 - from our parent
    except EOFError:
        os._exit(_EXIT_ORPHANED)
    multiprocessing.current_process().name = name
    link = Link(inbound, outbound, name)
    code = 0
    try:
        _load(target)(settings, link)
    except HeadwaterError as error:
        code = error.exit_code
        link.send(failed(error))
    except ChildError as error:
        code = error.error.exit_code
        link.send(failed(error.error, task=error.task))
    except BaseException as error:  # noqa: BLE001 - the parent must hear of everything that ends a child
        code = _EXIT_INTERNAL
        link.send(failed(error))
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: interpreter shutdown could wait for threads of the client libraries.
    os._exit(code)


def _load(target: str) -> Callable[[Any, Link], None]:
    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


def _spawn(
    name: str, descriptors: tuple[int, int], inherited: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    paths = [path or str(Path.cwd()) for path in sys.path]
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            _BOOT,
            name,
            json.dumps(paths),
            *map(str, (*descriptors, os.getpid())),
        ],
        pass_fds=(*descriptors, *inherited),
        stdin=subprocess.DEVNULL,
    )


class _Spawner:
    """A thread that starts processes, and ends with this process: not a moment before.

    An executor's threads end when the interpreter begins to shut down. Children would then be
    killed while ``atexit`` still lets them commit.
    """

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="spawner", daemon=True).start()

    def spawn(
        self, name: str, descriptors: tuple[int, int], inherited: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        started: Future[subprocess.Popen[bytes]] = Future()
        self._wanted.put((name, descriptors, inherited, started))
        return started.result()

    def _run(self) -> None:
        while True:
            name, descriptors, inherited, started = self._wanted.get()
            try:
                started.set_result(_spawn(name, descriptors, inherited))
            except OSError as error:
                started.set_exception(error)


@cache
def _spawner() -> _Spawner:
    return _Spawner()


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exit if that has happened already."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            log.warning("cannot ask for a parent-death signal: %s", os.strerror(ctypes.get_errno()))
    if os.getppid() != parent:
        os._exit(_EXIT_ORPHANED)
