"""The main process' part in queries: it starts the query process, and hands callers over to it.

    any thread        take_http, connect ──► the process is started by the first of them
    the main loop     turn: where the tasks are, questions to StreamThreads and their answers

A query process that ends is started again by the next query. Nothing else depends on it.
"""

from __future__ import annotations

import logging
import pickle
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from headwater import privatefiles
from headwater.errors import HeadwaterError, StreamsStoppedError
from headwater.httpserver import HandOver
from headwater.native.messages import Configure, Failed
from headwater.native.process import ChildProcess
from headwater.native.queries.values import (
    CALLER,
    HTTP,
    AskTask,
    Placements,
    QuerySettings,
    TaskAnswered,
)
from headwater.service.decide.observations import ThreadSaid
from headwater.service.decide.placements import placements_of
from headwater.service.statetoken import state_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headwater.config import StreamsConfig
    from headwater.httpserver import Request
    from headwater.ids import TaskId
    from headwater.native.queries.values import Place
    from headwater.service.children import Children
    from headwater.service.decide.observations import Observation
    from headwater.service.decide.values import Table
    from headwater.service.settings import WorkerSettings

log = logging.getLogger(__name__)

QUERIES_TARGET: Final = "headwater.native.queries.process:run"
_CONNECT_S: Final = 10.0
_POLL_S: Final = 0.005
_LOOK_S: Final = 300.0
"""So often the topics' partitions are looked up anew."""
_LOOK_AGAIN_S: Final = 5.0
"""So often it is looked at where other workers' tasks are."""


class QueryDesk:
    """Starts the query process when it is needed, and tells it what it must know.

    Args:
        settings: the worker's.
        config: the same, parsed.
        partitions: looks up how many partitions each sub-topology has; may wait for a broker.
        wake: has the main loop turn.
        peers: endpoints of the workers that have other tasks, as far as that is known.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        config: StreamsConfig,
        partitions: Callable[[], Mapping[int, int]],
        wake: Callable[[], None],
        peers: Callable[[], Mapping[TaskId, str]],
    ) -> None:
        self._settings = settings
        self._config = config
        self._look_up = partitions
        self._wake = wake
        self._peers = peers
        self._guard = threading.RLock()
        self._child: ChildProcess | None = None
        self._channel: socket.socket | None = None
        self._replaced: list[ChildProcess] = []
        """Processes that have ended, and were replaced before the main loop turned."""
        self._told: Placements | None = None
        self._places: dict[TaskId, Place] = {}
        self._partitions: Mapping[int, int] = {}
        self._endpoints: Mapping[TaskId, str] = {}
        self._partitions_due = 0.0
        self._is_looking = False
        self._look_due = 0.0
        self._is_closed = False
        self.token = ""
        """Callers by HTTP show it, unless it is empty."""

    # ---- from any thread -----------------------------------------------------------------------

    def over_http(self, directory: Path) -> HandOver:
        """Return how callers by HTTP get here, with the token that they have to show.

        Args:
            directory: of the application's state.
        """
        name = self._settings.name
        self.token = state_token(directory, name)
        return HandOver(
            "/state", self.take_http, self.token, str(privatefiles.token_file(directory, name))
        )

    def take_http(self, caller: socket.socket, method: str, request: Request) -> bool:
        """Hand a caller by HTTP over; ``False`` if too many wait already.

        Args:
            caller: its socket, which the caller of this closes.
            method: ``GET`` or ``HEAD``.
            request: what it asks for.
        """
        said = pickle.dumps((method, request), pickle.HIGHEST_PROTOCOL)
        return self._hand_over(HTTP + said, caller.fileno())

    def connect(self) -> Connection[Any, Any]:
        """Return a connection that takes pickled requests.

        Raises:
            StreamsStoppedError: the worker has ended.
        """
        mine, its = socket.socketpair()
        deadline = time.monotonic() + _CONNECT_S
        with its:
            while not self._hand_over(CALLER, its.fileno()):
                if time.monotonic() > deadline:
                    mine.close()
                    raise StreamsStoppedError("the worker's query process takes nobody in")
                time.sleep(_POLL_S)
        return Connection(mine.detach())

    def _hand_over(self, said: bytes, descriptor: int) -> bool:
        for _ in range(2):
            channel = self._started()
            try:
                socket.send_fds(channel, [said], [descriptor])
            except BlockingIOError:
                return False
            except OSError:
                self._forget(channel)  # it has ended: another one is started
            else:
                return True
        return False

    def _started(self) -> socket.socket:
        with self._guard:
            if self._is_closed:
                raise StreamsStoppedError("the worker has ended: nothing can be read any more")
            if self._channel is None:
                kind = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM
                channel, its = socket.socketpair(socket.AF_UNIX, kind)
                with its:
                    settings = QuerySettings(
                        child=self._settings.for_child(self._config, 0, 1), channel=its.fileno()
                    )
                    child = ChildProcess(
                        QUERIES_TARGET,
                        settings,
                        name=f"{self._settings.name}-Queries",
                        inherited=(its.fileno(),),
                    )
                channel.settimeout(0)
                if self._child is not None:
                    self._replaced.append(self._child)
                self._child, self._channel, self._told = child, channel, None
                log.info("started %s as process %d", child.name, child.pid)
                self._wake()
            return self._channel

    def _forget(self, channel: socket.socket) -> None:
        with self._guard:
            if self._channel is channel:
                channel.close()
                self._channel = None

    def configure(self, settings: WorkerSettings, message: Configure) -> None:
        """Take over settings for the query process, whether it runs or is yet to start."""
        with self._guard:
            self._settings = settings
            if self._child is not None:
                self._child.send(message)

    # ---- from the main loop --------------------------------------------------------------------

    @property
    def places(self) -> dict[TaskId, Place]:
        """Where the tasks were when the main loop turned last."""
        return self._places

    @property
    def pid(self) -> int | None:
        """Process id of the query process, if it runs."""
        child = self._child
        return None if child is None else child.pid

    def connections(self) -> list[Connection[Any, Any]]:
        """Return what becomes readable when the query process says something or ends."""
        child = self._child
        return [] if child is None else [child.connection]

    def took(self, observation: Observation) -> bool:
        """Pass an answer of a StreamThread on; ``False`` if something else was observed."""
        match observation:
            case ThreadSaid(message=TaskAnswered() as answered):
                if self._child is not None:
                    self._child.send(answered)
                return True
            case _:
                return False

    def turn(self, table: Table, children: Children) -> None:
        """Tell the query process what has changed, and put its questions to StreamThreads."""
        self._places = placements_of(table)
        child = self._child
        self._reap_replaced()
        if child is None:
            return
        for message in child.receive():
            if isinstance(message, AskTask):
                children.tell_thread(message.slot, message)
            elif isinstance(message, Failed):
                log.error("%s: %s: %s", child.name, message.error, message.message)
        if child.gone:
            self._reap(child)
            return
        self._look_up_partitions()
        placements = Placements(
            tasks=self._places,
            is_stopping=table.stopping_since_ms is not None,
            partitions=self._partitions,
            peers=self._endpoints,
        )
        with self._guard:
            if child is not self._child or placements == self._told:
                return  # the next turn tells the process that has taken its place
            self._told = placements
        child.send(placements)

    def _reap_replaced(self) -> None:
        while self._replaced:
            child = self._replaced.pop()
            child.close()
            log.warning("%s (process %d) ended with %s", child.name, child.pid, child.exit_code)

    def _reap(self, child: ChildProcess) -> None:
        with self._guard:
            if self._child is child:
                self._child = None
                if self._channel is not None:
                    self._channel.close()
                    self._channel = None
        child.close()
        log.warning("%s (process %d) ended with %s", child.name, child.pid, child.exit_code)

    def _look_up_partitions(self) -> None:
        if self._is_looking or time.monotonic() < self._look_due:
            return
        self._is_looking = True
        threading.Thread(target=self._look, name="partitions", daemon=True).start()

    def _look(self) -> None:
        try:
            self._endpoints = self._peers()
            if time.monotonic() >= self._partitions_due:
                self._partitions = self._look_up()
                self._partitions_due = time.monotonic() + _LOOK_S
        except HeadwaterError as error:
            log.info("the partitions of topics are not known to queries yet: %s", error)
        finally:
            self._look_due = time.monotonic() + _LOOK_AGAIN_S
            self._is_looking = False
        self._wake()

    def close(self) -> None:
        """End the query process."""
        with self._guard:
            self._is_closed = True
            child, channel = self._child, self._channel
            self._child = self._channel = None
        if channel is not None:
            channel.close()
        if child is not None:
            child.close()
        self._reap_replaced()
