"""``KafkaStreams``: one worker in a plain Python program, which assigns every task to itself.

The same worker runs here as under a control loop; only its carrier differs. The spec is a value in
this process, and "read the own StreamWorker again" means: look into the owner topic whether this
instance still owns the application. The user's program is the main process; StreamThreads and
StateUpdaters are processes of their own, as ever.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ConfigError, HeadwaterError, KafkaUnavailableError
from headwater.model.lifecycle import ClientState, Engine, ThreadState, client_state_of, move
from headwater.model.metrics.kafka import kafka_metrics
from headwater.native import logs
from headwater.native.application import ApplicationSettings
from headwater.native.loading import built
from headwater.service import signals
from headwater.service.carrier import CarrierUnavailableError
from headwater.service.duties import Duties
from headwater.service.embedding import check_guard, ours, pickled
from headwater.service.localstate import LocalState
from headwater.service.metrics import told
from headwater.service.owner import OwnedCarrier, OwnerRecord, own
from headwater.service.planning import TopicPlan, check_group
from headwater.service.queries.streams import InteractiveQueries
from headwater.service.settings import WorkerSettings, lease_duration_ms, with_state_dir
from headwater.service.timeouts import patience_s
from headwater.service.uncaught import UncaughtHandler, error_named
from headwater.service.wanted import Wanted, thread_metadata
from headwater.service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from headwater.model.durations import Duration
    from headwater.model.metrics.kafka import KafkaMetric, MetricName
    from headwater.model.threads import ThreadMetadata
    from headwater.model.topology import Topology
    from headwater.model.uncaught import StreamsUncaughtExceptionHandler
    from headwater.ports import StateListener

log = logging.getLogger(__name__)

WORKER_NAME: Final = "embedded"
_GATE_S: Final = 30.0
_LOOK_LEAST_S: Final = 1.0
"""Topics are not looked up more often: a broker that has just started learns of them meanwhile."""
_WATCH_S: Final = 0.1
_BEAT_MAX_S: Final = 3.0
_BEATS: Final = 10
"""How many signs of life are given at least before a missing one is taken for our end."""
_CLOSE: Final = timedelta(minutes=1)
_LIVE: Final = (ClientState.REBALANCING, ClientState.RUNNING)


class KafkaStreams(LocalState, InteractiveQueries):
    """An application that runs inside this program (Kafka Streams' class of this name).

    Started in the main thread of a program without handlers of its own, it lets SIGTERM and SIGHUP
    raise ``SystemExit``, and is closed in order then.

        def build(builder: StreamsBuilder) -> None: ...

        if __name__ == "__main__":
            config = {"application.id": "orders", "bootstrap.servers": "..."}
            with KafkaStreams(build, config) as streams:
                streams.wait()

    Args:
        build: the function that draws the topology, or its import path ``"module:function"``.
        config: options by Kafka's dotted names or in snake_case.
        takeover: replace an instance that runs. Under exactly-once it is fenced; under
            at-least-once it is asked to stop, and waited for. What runs on Spark is fenced.
        http_port: serve ``/healthz``, ``/readyz``, ``/metrics``, ``/tasks`` and ``/state`` there.

    Raises:
        ConfigError: an option is unknown or wrong.
        ImportPathError: ``build`` leads to no topology, or cannot be sent to other processes.
        TopologyError: the topology breaks a rule.
    """

    def __init__(
        self,
        build: Callable[..., Any] | str,
        config: Mapping[str, Any],
        *,
        takeover: bool = False,
        http_port: int | None = None,
    ) -> None:
        check_guard()
        source = build if isinstance(build, str) else pickled(build)
        self._settings = WorkerSettings(
            app=str(config.get("application.id", config.get("application_id", ""))),
            name=WORKER_NAME,
            application=ApplicationSettings(config=with_state_dir(config), topology=source),
            http_port=http_port,
        )
        self._config = self._settings.parsed()
        self._beat_s = min(_BEAT_MAX_S, lease_duration_ms(self._config) / 1000 / _BEATS)
        self._topology = built(self._settings.application)
        self._takeover = takeover
        self._guard = threading.RLock()
        self._state = ClientState.CREATED
        self._listener: StateListener | None = None
        self._uncaught = UncaughtHandler.of(self._config)
        self._wanted = Wanted(WORKER_NAME, self._config)
        self._error: HeadwaterError | None = None
        self._is_told = self._is_awaited = False
        self._worker: Worker | None = None
        self._owner: OwnerRecord | None = None
        self._closing = threading.Event()
        self._ended = threading.Event()

    @property
    def state(self) -> ClientState:
        """What the application is doing (``KafkaStreams.State``)."""
        return self._state

    @property
    def error(self) -> HeadwaterError | None:
        """Why the state is ERROR."""
        return self._error

    @property
    def topology(self) -> Topology:
        """What runs."""
        return self._topology

    @property
    def endpoint(self) -> str:
        """``host:port`` of the HTTP service; empty without one."""
        return "" if self._worker is None else self._worker.endpoint

    def metrics(self) -> dict[MetricName, KafkaMetric]:
        """Return what was measured, by Kafka Streams' names; empty before ``start``.

        StreamThreads report each second, stores and nodes every five.
        """
        return {} if self._worker is None else kafka_metrics(told(self._worker.view))

    def set_state_listener(self, listener: StateListener) -> None:
        """Hear of every change of state, as ``listener(new, old)``, from a thread of ours.

        Raises:
            ConfigError: the application was started already.
        """
        if self._state is not ClientState.CREATED:
            raise ConfigError("set_state_listener: set the listener before start()")
        self._listener = listener

    def set_uncaught_exception_handler(
        self, handler: StreamsUncaughtExceptionHandler | Any
    ) -> None:
        """Let ``handler(exception)`` say what becomes of it when a StreamThread ends with an error.

        It is called from a thread of ours, which supervises: let it return at once. The exception's
        ``__cause__`` is what user code raised. Without a handler the application ends.

        Args:
            handler: a function, or an object with a method ``handle``
                (``StreamsUncaughtExceptionHandler``).

        Raises:
            ConfigError: the application was started already, or it is no function.
        """
        if self._state is not ClientState.CREATED:
            raise ConfigError("set_uncaught_exception_handler: set the handler before start()")
        self._uncaught = UncaughtHandler(handler)

    def start(self) -> None:
        """Become the owner, create the internal topics, start the worker; do not wait for RUNNING.

        Raises:
            ConfigError: it was started before, or the HTTP port cannot be used.
            InstanceRunningError: another instance of this application id lives.
            GroupInUseError: the consumer group has a member, a Java application for example.
            MissingTopicError: a source topic does not exist.
            ChangelogLostError: a changelog does not exist although its records were read.
            PartitionMismatchError: topics do not have the partitions that the topology needs.
            KafkaUnavailableError: no broker answers.
            KafkaAuthError: the broker refuses us.
            StateError: the state directory cannot be used.
        """
        if self._state is not ClientState.CREATED:
            raise ConfigError("start: an application is started once; make another KafkaStreams")
        self._move(ClientState.REBALANCING)
        signals.watch(self)
        try:
            self._begin()
        except BaseException as error:
            # Ctrl-C as well: a claim that is not taken back keeps the next start out.
            self._is_awaited = True
            if self._worker is not None:
                self._worker.close()
            self._fail(ours(error))
            self._end()
            signals.forget(self)
            raise

    # -- threads ---------------------------------------------------------------------------------

    def add_stream_thread(self) -> str | None:
        """Start one more StreamThread, which takes over its share of the tasks (KIP-663).

        Stores are closed and opened again; only those in memory are read from their changelogs. The
        record cache is divided anew.

        Returns:
            the thread's name; ``None`` if the application is neither RUNNING nor REBALANCING.

        Raises:
            KafkaUnavailableError: no broker has taken note of it; nothing has changed.
        """
        return self._wanted.add_thread() if self._is_live("add") else None

    def remove_stream_thread(self, timeout: Duration | None = None) -> str | None:
        """End the StreamThread that was added last, and wait for its end (KIP-663).

        It commits, and the others go on with its tasks. Without any thread, which is allowed as in
        Java, nothing is processed until one is added.

        Args:
            timeout: a ``timedelta`` or whole milliseconds; ``None`` for as long as it takes.

        Returns:
            the thread's name; ``None`` if there is none, or if the application is neither RUNNING
            nor REBALANCING.

        Raises:
            TimeoutError: the thread has not ended yet; it will.
            ConfigError: ``timeout`` is no duration, or negative; nothing has changed.
        """
        timeout_s = patience_s("remove_stream_thread: timeout", timeout)
        if not self._is_live("remove"):
            return None
        assert self._worker is not None
        return self._wanted.remove_thread(self._worker, self._ended, timeout_s)

    def metadata_for_local_threads(self) -> frozenset[ThreadMetadata]:
        """Return the StreamThreads with their states and tasks.

        Raises:
            ConfigError: the application does not run.
        """
        if self._worker is None or self._state not in _LIVE:
            raise ConfigError(
                f"metadata_for_local_threads: the application is {self._state}; start it, and ask "
                "while it is RUNNING or REBALANCING"
            )
        return thread_metadata(self._worker.view, self._config)

    def _is_live(self, action: str) -> bool:
        if self._state in _LIVE:
            return True
        log.warning("cannot %s a StreamThread while the application is %s", action, self._state)
        return False

    # -- pause -----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Process nothing until ``resume`` (KIP-834); may be called before ``start``.

        What was processed is committed. The state stays as it is. Unlike Java, restores go on.
        """
        self._wanted.set_paused(paused=True)

    def resume(self) -> None:
        """Process again."""
        self._wanted.set_paused(paused=False)

    def is_paused(self) -> bool:
        """Whether ``pause`` was called, and ``resume`` not since."""
        return self._wanted.is_paused

    # -- end -------------------------------------------------------------------------------------

    def close(self, timeout: Duration = _CLOSE) -> bool:
        """Commit, release everything and end; return whether that was done in time.

        Signals that end the program, Ctrl-C among them, wait until then.

        Args:
            timeout: a ``timedelta`` or whole milliseconds; the end goes on in the background then.

        Raises:
            ConfigError: ``timeout`` is no duration, or negative; nothing has changed.
        """
        timeout_s = patience_s("close: timeout", timeout)
        with signals.held_back():
            with self._guard:
                if self._state is ClientState.CREATED:
                    self._move(ClientState.PENDING_SHUTDOWN)
                    self._move(ClientState.NOT_RUNNING)
                    return True
                if self._state in (ClientState.REBALANCING, ClientState.RUNNING):
                    self._move(ClientState.PENDING_SHUTDOWN)  # which calls the user's listener
            self._closing.set()
            if self._worker is not None:
                self._worker.stop()
            has_ended = self._ended.wait(timeout_s)
        if has_ended:
            signals.forget(self)
        return has_ended

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until the application has ended, ``timeout`` at most; return whether it has.

        Raises:
            HeadwaterError: what has ended it, if not ``close``.
            ConfigError: ``timeout`` is no duration, or negative.
        """
        timeout_s = patience_s("wait: timeout", timeout)
        self._is_awaited = True
        has_ended = self._ended.wait(timeout_s)
        if has_ended:
            signals.forget(self)
        if has_ended and self._error is not None:
            self._is_told = True
            raise self._error
        return has_ended

    def _close_at_exit(self) -> None:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):  # the program ends anyway
            self.close()

    def __enter__(self) -> Self:
        self._is_awaited = True
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close.

        Raises:
            HeadwaterError: what has ended the application, if the block ended well and nobody was
                told by ``wait``.
        """
        self.close()
        if error is None and self._error is not None and not self._is_told:
            raise self._error

    # -- start -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        config = self._config
        client_id = f"{config.client_id or config.application_id}-{WORKER_NAME}"
        timeout_s = config.request_timeout_ms / 1000
        self._duties = Duties(config, client_id=client_id, timeout_s=timeout_s)
        wanted = self._wanted
        self._duties.admin.check_reachable(timeout_s)
        self._owner = OwnerRecord(
            config, client_id=client_id, transactional_ids=wanted.transactional_ids
        )
        own(self._owner, self._duties, config, takeover=self._takeover)
        if self._takeover and self._duties.engine().holder is not Engine.NATIVE:
            self._duties.take_engine(Engine.NATIVE, worker_ids=wanted.every_id)
        check_group(self._duties, config.application_id)
        carrier = self._carrier = OwnedCarrier(self._owner)
        carrier.keep()
        tells = self._restores is not None
        settings = replace(self._settings, logs=logs.of_this_program(), tells_restores=tells)
        worker = self._worker = Worker(
            settings, carrier, raises=True, uncaught=self._uncaught, restores=self._restores
        )
        plan = self._plan = TopicPlan(self._duties, worker.topology_report)
        plan.prepare()
        wanted.begin(
            carrier,
            self._owner,
            epoch=worker.highest_epoch + 1,
            app=self._settings.app,
            incarnation=worker.incarnation,
            tasks=plan.tasks,
        )
        # Daemons, so that a program that fails elsewhere ends; it is committed at exit even then.
        atexit.register(self._close_at_exit)
        threading.Thread(target=self._live, args=(worker,), name="worker", daemon=True).start()

    # -- life ------------------------------------------------------------------------------------

    def _live(self, worker: Worker) -> None:
        """Run the worker, with a second thread that watches; end when it has ended."""
        watcher = threading.Thread(target=self._watch, args=(worker,), name="watcher", daemon=True)
        watcher.start()
        try:
            worker.run()
        except Exception as error:
            if not isinstance(error, HeadwaterError):
                log.exception("the worker ended")
            self._fail(ours(error))
        self._closing.set()
        watcher.join()
        if worker.error is not None:
            self._fail(error_named(worker.error.error, worker.error.message))
        self._end()

    def _watch(self, worker: Worker) -> None:
        """Follow the worker, give signs of life; look for foreign members and new partitions."""
        gate_due = time.monotonic() + _GATE_S
        look_s = max(_LOOK_LEAST_S, min(_GATE_S, self._config.metadata_max_age_ms / 1000))
        look_due = time.monotonic() + look_s
        beat_due = time.monotonic() + self._beat_s
        answered_at = time.monotonic()
        patience_s = self._config.task_timeout_ms / 1000
        while not self._closing.wait(_WATCH_S):
            self._follow(worker)
            try:
                self._carrier.require(self._config.application_id)
                if time.monotonic() >= beat_due:
                    beat_due = time.monotonic() + self._beat_s
                    self._carrier.keep()
                    answered_at = time.monotonic()
                status = self._carrier.status
                if status.fenced_slots:  # if we are the owner still, their tasks start again
                    self._carrier.grant_again(status.acknowledged_epoch)
                if time.monotonic() >= gate_due:
                    gate_due = time.monotonic() + _GATE_S
                    check_group(self._duties, self._config.application_id)
                if time.monotonic() >= look_due:
                    look_due = time.monotonic() + look_s
                    if self._plan.look_again():
                        self._wanted.set_tasks(self._plan.tasks)
            except (KafkaUnavailableError, CarrierUnavailableError) as error:
                if time.monotonic() - answered_at >= patience_s:
                    self._give_up(worker, KafkaUnavailableError(str(error)))
                    return
                log.warning("%s; trying again", error)
            except Exception as error:
                if not isinstance(error, HeadwaterError):
                    log.exception("watching the worker")
                self._give_up(worker, ours(error))
                return

    def _give_up(self, worker: Worker, error: HeadwaterError) -> None:
        self._fail(error)
        worker.stop()

    def _follow(self, worker: Worker) -> None:
        if self._wanted.threads == 0:
            return  # As in Java, the state of before the last one was removed stays.
        threads = {str(thread.slot): ThreadState(thread.state) for thread in worker.view.threads}
        state = client_state_of(threads) if threads else ClientState.REBALANCING
        with self._guard:
            if self._state in _LIVE and state is not self._state:
                self._move(state)

    def _fail(self, error: HeadwaterError) -> None:
        with self._guard:
            self._error = self._error or error
            if self._state in (ClientState.REBALANCING, ClientState.RUNNING):
                self._move(ClientState.PENDING_ERROR)

    def _end(self) -> None:
        """Everything is closed: leave, and come to the final state."""
        self._close_queries()
        if self._owner is not None:
            with contextlib.suppress(HeadwaterError):
                self._owner.leave()
            with contextlib.suppress(HeadwaterError):
                self._owner.close()
        atexit.unregister(self._close_at_exit)
        if self._error is not None and not self._is_awaited:
            log.error("the application has ended: %s: %s", type(self._error).__name__, self._error)
        with self._guard:
            if self._state is ClientState.PENDING_ERROR:
                self._move(ClientState.ERROR)
            elif self._state is not ClientState.ERROR:
                if self._state in (ClientState.REBALANCING, ClientState.RUNNING):
                    self._move(ClientState.PENDING_SHUTDOWN)
                self._move(ClientState.NOT_RUNNING)
        self._ended.set()

    def _move(self, state: ClientState) -> None:
        with self._guard:
            before, self._state = self._state, move(self._state, state, subject="the application")
        log.info("state %s -> %s", before, state)
        if self._listener is not None:
            try:
                self._listener(state, before)
            except Exception:
                log.exception("the state listener raised")
