"""While a worker imports its topology: what it tells of itself, and what ends it.

The import runs in the main thread, where modules expect to be imported. A second thread tells the
control loop when it takes its time, and ends the process when the time is over. It hears SIGTERM,
too, while the main thread is in a library's code and no handler of Python's can run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.errors import HeadwaterError, ImportTimeoutError
from headwater.model.cluster import WorkerError, WorkerStatus
from headwater.model.lifecycle import ClientState
from headwater.service.carrier import CarrierUnavailableError
from headwater.service.stored import stored_tasks
from headwater.state.directory import StateDirectory
from headwater_entry import end_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.cluster import StoredTask
    from headwater.service.carrier import Carrier
    from headwater.service.settings import WorkerSettings

_QUIET_S: Final = 1.0
"""An import that takes no longer is never told: most do not."""
_OVER: Final = b"\0"
_STANDARD_ERROR: Final = 2
"""The file descriptor: what a module puts in the place of ``sys.stderr`` need not have one."""


@contextlib.contextmanager
def watched_import(settings: WorkerSettings, carrier: Carrier, incarnation: str) -> Iterator[None]:
    """Watch what the body imports; it runs in the main thread of a worker's own process.

    Args:
        settings: what the worker was told.
        carrier: its way to its StreamWorker; the body must not use it.
        incarnation: of the worker.
    """
    watch = _Watch(settings, carrier, incarnation)
    before = signal.set_wakeup_fd(watch.write_end, warn_on_full_buffer=False)
    watch.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        watch.stop()


class _Watch:
    """The second thread."""

    def __init__(self, settings: WorkerSettings, carrier: Carrier, incarnation: str) -> None:
        self._settings = settings
        self._carrier = carrier
        self._incarnation = incarnation
        self._read_end, self.write_end = os.pipe()
        """The numbers of signals are written there, as Python's C code hears of them."""
        os.set_blocking(self.write_end, False)
        # Held by whoever has decided how it ends: the import is over, or the time is.
        self._verdict = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="import-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._verdict:
            os.write(self.write_end, _OVER)
            self._thread.join()
        os.close(self.write_end)
        os.close(self._read_end)

    def _run(self) -> None:
        began = time.monotonic()
        if self._is_over_by(began + _QUIET_S):
            return
        with contextlib.suppress(CarrierUnavailableError):
            self._carrier.write_status(
                WorkerStatus(
                    incarnation=self._incarnation,
                    stored=self._stored(),
                    state=ClientState.CREATED,
                    importing=True,
                )
            )
        if self._is_over_by(began + self._settings.import_timeout_ms / 1000):
            return
        if self._verdict.acquire(blocking=False):
            self._give_up()

    def _is_over_by(self, deadline: float) -> bool:
        """Wait for the end of the import; false if it has not come by then. SIGTERM ends us."""
        while (left_s := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._read_end], [], [], left_s)
            heard = os.read(self._read_end, 4096) if ready else b""
            if signal.SIGTERM in heard and signal.getsignal(signal.SIGTERM) is end_at_once:
                end_at_once(signal.SIGTERM)
            if _OVER[0] in heard:
                return True
        return False

    def _stored(self) -> tuple[StoredTask, ...]:
        """What the last process has left: a status without it would send tasks elsewhere."""
        try:
            config = self._settings.application.parsed()
            directory = StateDirectory(Path(config.state_dir), config.application_id)
            found = stored_tasks(config.application_id, directory.stored())
        except (HeadwaterError, OSError):
            return ()  # the worker itself will meet it, and say so
        return tuple(found[task] for task in sorted(found))

    def _give_up(self) -> NoReturn:
        """End the process: the main thread cannot be made to leave what it imports."""
        try:
            self._tell_why()
        finally:
            # Whatever became of telling: a module may have replaced standard error, or worse.
            os._exit(ImportTimeoutError.exit_code)

    def _tell_why(self) -> None:
        faulthandler.dump_traceback(_STANDARD_ERROR)
        source = self._settings.application.topology
        name = repr(source) if isinstance(source, str) else "the source text of spec.topology"
        message = (
            f"importing the topology {name} took longer than "
            f"{self._settings.import_timeout_ms / 1000:g} s; the stacks on standard error show "
            "where it was. Do less while modules are imported, or raise "
            "spec.topology.importTimeout"
        )
        os.write(_STANDARD_ERROR, f"error: {message}\n".encode())
        error = WorkerError(error=ImportTimeoutError.__name__, message=message)
        with contextlib.suppress(CarrierUnavailableError):
            self._carrier.write_status(WorkerStatus(incarnation=self._incarnation, error=error))
        self._carrier.close()
