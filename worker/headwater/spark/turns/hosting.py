"""A task host: a process beside an executor that keeps StreamTasks open between micro-batches.

    Python worker of Spark ──► Unix socket ──► host ──► LiveTask.take(turn) ──► TurnDone

Spark gives a task to any of an executor's Python workers and ends those that idle, so a task cannot
live in one. An executor has a host for each of its cores; it ends when the executor's Python daemon
ends.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import sys
import threading
import time
from multiprocessing.connection import Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import (
    BackfillError,
    ChangelogLostError,
    EngineError,
    FencedError,
    HeadwaterError,
    KafkaAuthError,
    OffsetsExpiredError,
    ProcessingError,
    RecordError,
    TopicError,
    UserError,
)
from headwater.logsettings import DEFAULT_FORMAT, LogSettings
from headwater.native import logs
from headwater.native.blocks import shared_blocks
from headwater.privatefiles import keep_private
from headwater.service.owner import Address
from headwater.spark.causes import cause_of
from headwater.spark.turns.live_task import LiveTask
from headwater.spark.turns.messages import Again, LateTurnError, TakenOverError

if TYPE_CHECKING:
    from headwater.ids import TaskId
    from headwater.spark.turns.messages import HostSettings, Turn, TurnDone, TurnNumber

log = logging.getLogger(__name__)

_WATCH_S: Final = 0.5
_FORGOTTEN: Final = 20
"""A task that was not needed for so many turns is elsewhere."""
_BACKLOG: Final = 64
_WRITE_BUFFER_BYTES: Final = 96 * 1024 * 1024
"""Memory for what all stores have not written to their files yet."""


_FINAL: Final = (
    RecordError,
    UserError,
    TopicError,
    BackfillError,
    EngineError,
    OffsetsExpiredError,
    ChangelogLostError,
    KafkaAuthError,
    TakenOverError,
)
"""Errors that another attempt would meet as well."""


class Host:
    """The tasks of one process.

    Args:
        told: what the driver has said.
    """

    def __init__(self, told: HostSettings) -> None:
        self._told = told
        self._tasks: dict[TaskId, LiveTask] = {}
        self._newest: dict[TaskId, TurnNumber] = {}
        """The newest turn that each task was given here, done or not."""
        self._done: dict[TaskId, TurnDone] = {}
        """The last turn that each task has done here."""
        self._recent: list[TurnNumber] = []
        self._blocks = shared_blocks(
            told.application.parsed(), write_buffer_bytes=_WRITE_BUFFER_BYTES
        )

    def take(self, turn: Turn) -> TurnDone:
        """Do one turn of one task, which is opened for it if need be.

        A turn that was done here and is run again is answered as it was then.

        Raises:
            LateTurnError: a newer one was taken before; nothing was done.
            TakenOverError: another driver runs the application, or the workers do.
            HeadwaterError: why not; the next turn opens the task anew.
        """
        self._check_in_time(turn)
        done = self._done.get(turn.task)
        if done is not None and done.number == turn.number:
            log.info("task %s: turn %s was done before", turn.task, turn.number)
            return done
        self._newest[turn.task] = turn.number
        self._forget(turn.number)
        live = self._opened(turn)
        try:
            done = self._done[turn.task] = live.take(turn)
        except FencedError:
            # By another copy of this task, which Spark sorts out, or by whoever has taken over.
            try:
                live.check_run()
            except FencedError as error:
                raise TakenOverError(str(error)) from None
            finally:
                self._close(turn.task)
            raise
        except BaseException:
            self._close(turn.task)
            raise
        return done

    def _check_in_time(self, turn: Turn) -> None:
        newest, ours = self._newest.get(turn.task), self._told.record
        number = turn.number
        if (number.generation, number.attempt) != (ours.generation, ours.attempt):
            raise LateTurnError(
                f"task {turn.task}: turn {number} is of another driver than generation "
                f"{ours.generation}, attempt {ours.attempt}; nothing was done"
            )
        if newest is not None and number < newest:
            raise LateTurnError(
                f"task {turn.task}: turn {number} comes after turn {newest}, which was taken "
                "before; nothing was done"
            )

    def _opened(self, turn: Turn) -> LiveTask:
        live = self._tasks.get(turn.task)
        if live is not None and live.has_passed(turn):
            log.info("task %s: turn %s ends before what was read", turn.task, turn.number)
            self._close(turn.task)
            live = None
        if live is not None and not turn.inputs <= live.inputs:
            log.info("task %s: there is more to read for it", turn.task)
            self._close(turn.task)
            live = None
        if live is None:
            try:
                live = LiveTask(self._told, turn.task, turn, blocks=self._blocks)
            except FencedError as error:
                raise TakenOverError(str(error)) from error
            self._tasks[turn.task] = live
        # Between turns all of it is committed: what is let go now is forwarded no more.
        live.share_cache(len(self._tasks))
        return live

    def _forget(self, number: TurnNumber) -> None:
        """Close tasks that another host has by now."""
        if number in self._recent:
            return
        self._recent = [*self._recent[1 - _FORGOTTEN :], number]
        for task in list(self._tasks):
            if self._newest[task] < self._recent[0]:
                log.info("task %s is elsewhere", task)
                self._close(task)

    def _close(self, task: TaskId) -> None:
        """Close a task whose state matters no more, nor how that goes."""
        try:
            self._tasks.pop(task).close()
        except Exception:
            log.exception("task %s was closed, but not without an error", task)


def serve(listener: Listener, told: HostSettings) -> None:
    """Answer turns, one after the other, for ever."""
    host = Host(told)
    while True:
        try:
            with listener.accept() as connection:
                while True:
                    connection.send_bytes(pickle.dumps(_answer(host, connection.recv())))
        except (EOFError, OSError) as error:
            log.debug("the Python worker is gone: %r", error)


def _answer(host: Host, turn: Turn) -> TurnDone | HeadwaterError | Again:
    try:
        return host.take(turn)
    except _FINAL as error:
        log.warning("task %s: %s", turn.task, error, exc_info=isinstance(error, ProcessingError))
        return type(error)(str(error))  # without what it holds on to, it can be pickled
    except LateTurnError as error:
        log.warning("%s", error)
        return Again(str(error))
    except Exception as error:
        log.exception("task %s", turn.task)
        return Again(f"task {turn.task}: {cause_of(error)}")


def _end_with(owner: Address, address: Path) -> None:
    while not owner.is_proven_dead():
        time.sleep(_WATCH_S)
    address.unlink(missing_ok=True)
    address.with_suffix(".lock").unlink(missing_ok=True)
    os._exit(0)


def main(address: str, owner: str) -> None:
    """Serve at ``address`` as long as the process ``owner`` is there."""
    keep_private()
    multiprocessing.current_process().name = f"task host {os.getpid()}"
    level = os.environ.get("HEADWATER_LOG_LEVEL", "WARNING")
    logging.basicConfig(level=level, format=DEFAULT_FORMAT, stream=sys.stderr)
    told: Any = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - from the Python worker
    config = told.application.parsed()
    logs.reset(logs.chosen(config, LogSettings(levels={"": level})))
    daemon = Address.parse(owner)
    assert daemon is not None
    threading.Thread(
        target=_end_with, args=(daemon, Path(address)), name="owner", daemon=True
    ).start()
    with Listener(address, "AF_UNIX", backlog=_BACKLOG) as listener:
        serve(listener, told)


if __name__ == "__main__":
    main(*sys.argv[1:])
