"""The child processes of a worker: starts, tells and kills them; what they do becomes values."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING, Any, Final

from headwater.native.messages import Configure, Failed
from headwater.native.process import ChildProcess
from headwater.service.decide.observations import (
    GlobalThreadSaid,
    ThreadEnded,
    ThreadSaid,
    UpdaterEnded,
    UpdaterSaid,
)
from headwater.service.global_child import GlobalChild

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from headwater.config import StreamsConfig
    from headwater.model.livesettings import LiveSettings
    from headwater.native.messages import ToThread, ToUpdater
    from headwater.service.decide.observations import Observation
    from headwater.service.settings import WorkerSettings

log = logging.getLogger(__name__)

THREAD_TARGET: Final = "headwater.native.thread:run"
UPDATER_TARGET: Final = "headwater.native.updater:run"
_REAP_S: Final = 5.0
_FAULTS: Final = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL})
"""What ends a process that has met a fault in native code."""


class Children:
    """StreamThreads by slot and StateUpdaters by number.

    Args:
        settings: what every child is told.
        config: the same, parsed.
    """

    def __init__(self, settings: WorkerSettings, config: StreamsConfig) -> None:
        self._settings = settings
        self._config = config
        self._threads: dict[int, ChildProcess] = {}
        self._updaters: dict[int, ChildProcess] = {}
        self.global_thread = GlobalChild(self._start, self._reap)

    def configure(self, live: LiveSettings) -> tuple[WorkerSettings, StreamsConfig, Configure]:
        """Tell every child of live settings, and start others with them.

        Returns:
            What a child is told from now on, the same parsed, and the message.

        Raises:
            ConfigError: a value is not allowed; nothing has changed.
        """
        settings = self._settings.with_live(live)
        config = settings.parsed()
        self._settings, self._config = settings, config
        message = Configure(
            levels=config.logging_level or {},
            metrics_level=config.metrics.level,
            rocksdb=config.rocksdb,
        )
        for child in self._all():
            child.send(message)
        return settings, config, message

    def start_thread(self, slot: int, threads: int) -> None:
        """Start the process of a slot, one of so many StreamThreads."""
        name = f"StreamThread-{slot}"
        self._threads[slot] = self._start(THREAD_TARGET, name, slot, threads)

    def start_updater(self, number: int) -> None:
        """Start a StateUpdater; it has no record cache."""
        name = f"StateUpdater-{number}"
        self._updaters[number] = self._start(UPDATER_TARGET, name, number, threads=1)

    def _start(self, target: str, name: str, number: int, threads: int = 1) -> ChildProcess:
        child = ChildProcess(
            target,
            self._settings.for_child(self._config, number, threads),
            name=f"{self._settings.name}-{name}",
        )
        log.info("started %s as process %d", child.name, child.pid)
        return child

    def tell_thread(self, slot: int, message: ToThread) -> None:
        """Send a message; one that cannot be delivered shows as the end of the process."""
        if (child := self._threads.get(slot)) is not None:
            child.send(message)

    def tell_updater(self, number: int, message: ToUpdater) -> None:
        """Send a message; one that cannot be delivered shows as the end of the process."""
        if (child := self._updaters.get(number)) is not None:
            child.send(message)

    def kill_thread(self, slot: int, *, shows_stacks: bool = False) -> list[Observation]:
        """Kill a slot's process, wait for its end, return what it said last and that it ended.

        Args:
            slot: its number.
            shows_stacks: let it write its stacks to its standard error first.
        """
        child = self._threads.pop(slot, None)
        if child is None:
            return []
        if shows_stacks:
            child.show_stacks()
        code = child.kill()
        said = self._last_words(child)
        return [
            *(ThreadSaid(slot=slot, message=message) for message in said),
            ThreadEnded(slot=slot, exit_code=code),
        ]

    def kill_updater(self, number: int) -> list[Observation]:
        """As ``kill_thread``, for a StateUpdater."""
        child = self._updaters.pop(number, None)
        if child is None:
            return []
        code = child.kill()
        said = self._last_words(child)
        return [
            *(UpdaterSaid(updater=number, message=message) for message in said),
            UpdaterEnded(updater=number, exit_code=code),
        ]

    def observe(self) -> Iterator[Observation]:
        """Yield what the children have said since the last call, and which have ended."""
        for slot, child in list(self._threads.items()):
            for message in child.receive():
                yield ThreadSaid(slot=slot, message=message)
            if child.gone:
                del self._threads[slot]
                yield ThreadEnded(slot=slot, exit_code=self._reap(child))
        for number, child in list(self._updaters.items()):
            for message in child.receive():
                yield UpdaterSaid(updater=number, message=message)
            if child.gone:
                del self._updaters[number]
                yield UpdaterEnded(updater=number, exit_code=self._reap(child))
        yield from self.global_thread.observe()

    def connections(self) -> list[Connection]:
        """Return what becomes readable when a child says something or ends."""
        return [child.connection for child in self._all()]

    def _all(self) -> list[ChildProcess]:
        alone = self.global_thread.child
        every = [*self._threads.values(), *self._updaters.values()]
        return every if alone is None else [*every, alone]

    def pid_of_thread(self, slot: int) -> int | None:
        """Return the process id of a slot's process, if it has one."""
        child = self._threads.get(slot)
        return None if child is None else child.pid

    def pid_of_updater(self, number: int) -> int | None:
        """Return the process id of a StateUpdater, if it runs."""
        child = self._updaters.get(number)
        return None if child is None else child.pid

    def close(self) -> None:
        """Kill whatever still runs."""
        for child in self._all():
            child.close()
        self.global_thread.child = None
        self._threads.clear()
        self._updaters.clear()

    def _last_words(self, child: ChildProcess) -> list[Any]:
        said = list(child.receive())
        child.close()
        return said

    def _reap(self, child: ChildProcess) -> int:
        """Wait for a child that has closed its pipe; it is on its way out, or stuck there."""
        code = child.wait(_REAP_S)
        if code is None:
            code = child.kill()
        child.close()
        log.log(
            logging.INFO if code == 0 else logging.WARNING,
            "%s (process %d) ended with %d",
            child.name,
            child.pid,
            code,
        )
        if -code in _FAULTS:
            log.warning(
                "%s met a fault in native code (%s). If its records took the path in C and this "
                "happens again, set headwater.native=false (docs/native-path.md)",
                child.name,
                signal.Signals(-code).name,
            )
        return code


def log_failure(worker: str, observation: Observation, *, is_raised: bool) -> None:
    """Write down that a child has failed, if that is what was observed.

    Args:
        worker: its name.
        observation: anything.
        is_raised: whether the program is told by an exception: then it is not said twice.
    """
    match observation:
        case ThreadSaid(slot=number, message=Failed() as failure):
            child = f"StreamThread-{number}"
        case UpdaterSaid(updater=number, message=Failed() as failure):
            child = f"StateUpdater-{number}"
        case GlobalThreadSaid(message=Failed() as failure):
            child = "GlobalStreamThread"
        case _:
            return
    where = "" if failure.task is None else f", task {failure.task}"
    level = logging.INFO if is_raised else logging.ERROR
    log.log(level, "%s-%s%s: %s: %s", worker, child, where, failure.error, failure.message)
    if failure.traceback:
        log.error("%s", failure.traceback.rstrip())
