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
from typing import TYPE_CHECKING, Any, Final

import cloudpickle

from headwater import errors
from headwater.errors import (
    ConfigError,
    HeadwaterError,
    ImportPathError,
    InstanceRunningError,
    KafkaUnavailableError,
)
from headwater.ids import SlotId
from headwater.model.lifecycle import ClientState, Engine, ThreadState, client_state_of, move
from headwater.model.metrics.kafka import kafka_metrics
from headwater.native import logs
from headwater.native.application import ApplicationSettings
from headwater.native.loading import built, is_loading
from headwater.native.process import is_child
from headwater.service import signals
from headwater.service.carrier import CarrierUnavailableError
from headwater.service.duties import Duties
from headwater.service.metrics import told
from headwater.service.owner import OwnedCarrier, OwnerRecord, where
from headwater.service.planning import TopicPlan, check_group
from headwater.service.queries.streams import InteractiveQueries
from headwater.service.settings import WorkerSettings, lease_duration_ms, with_state_dir
from headwater.service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from headwater.model.cluster import WorkerError
    from headwater.model.metrics.kafka import KafkaMetric, MetricName
    from headwater.model.topology import Topology
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
_CLOSE_S: Final = 60.0
_HANDOVER_S: Final = 60.0
_HANDOVER_POLL_S: Final = 0.5


class KafkaStreams(InteractiveQueries):
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
        _check_guard()
        source = build if isinstance(build, str) else _pickled(build)
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
            self._fail(_ours(error))
            self._end()
            signals.forget(self)
            raise

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Commit, release everything and end; return whether that was done in time.

        Signals that end the program, Ctrl-C among them, wait until then.

        Args:
            timeout_s: how long to wait; the end goes on in the background afterwards.
        """
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

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the application has ended; return whether it has.

        Raises:
            HeadwaterError: what has ended it, if not ``close``.
        """
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
        slots = tuple(range(config.num_stream_threads))
        ids = [SlotId(WORKER_NAME, slot).transactional_id(config.application_id) for slot in slots]
        self._duties.admin.check_reachable(timeout_s)
        self._owner = OwnerRecord(
            config, client_id=client_id, transactional_ids=ids if config.exactly_once else []
        )
        self._own(self._owner)
        if self._takeover and self._duties.engine().holder is not Engine.NATIVE:
            self._duties.take_engine(Engine.NATIVE, worker_ids=ids)
        check_group(self._duties, config.application_id)
        carrier = self._carrier = OwnedCarrier(self._owner)
        carrier.keep()
        settings = replace(self._settings, logs=logs.of_this_program())
        worker = self._worker = Worker(settings, carrier, raises=True)
        plan = self._plan = TopicPlan(self._duties, worker.topology_report)
        plan.prepare()
        carrier.set_spec(
            epoch=worker.highest_epoch + 1,
            app=self._settings.app,
            incarnation=worker.incarnation,
            slots=slots,
            active=plan.tasks,
        )
        # Daemons, so that a program that fails elsewhere ends; it is committed at exit even then.
        atexit.register(self._close_at_exit)
        threading.Thread(target=self._live, args=(worker,), name="worker", daemon=True).start()

    def _own(self, owner: OwnerRecord) -> None:
        """Become the owner, and make sure that the one before can write nothing more."""
        before = owner.claim(takeover=self._takeover)
        if before is None:
            return
        if self._config.exactly_once:
            self._duties.fence(before.transactional_ids)
            return
        deadline = time.monotonic() + _HANDOVER_S
        while not owner.has_ended(before):
            if time.monotonic() > deadline:
                raise InstanceRunningError(
                    f"the instance that runs ({where(before)}) does not stop; kill it, then start "
                    "this one again"
                )
            owner.beat()
            time.sleep(_HANDOVER_POLL_S)

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
            self._fail(_ours(error))
        self._closing.set()
        watcher.join()
        if worker.error is not None:
            self._fail(exception_of(worker.error))
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
                        self._carrier.grant(active=self._plan.tasks)
            except (KafkaUnavailableError, CarrierUnavailableError) as error:
                if time.monotonic() - answered_at >= patience_s:
                    self._give_up(worker, KafkaUnavailableError(str(error)))
                    return
                log.warning("%s; trying again", error)
            except Exception as error:
                if not isinstance(error, HeadwaterError):
                    log.exception("watching the worker")
                self._give_up(worker, _ours(error))
                return

    def _give_up(self, worker: Worker, error: HeadwaterError) -> None:
        self._fail(error)
        worker.stop()

    def _follow(self, worker: Worker) -> None:
        threads = {str(thread.slot): ThreadState(thread.state) for thread in worker.view.threads}
        state = client_state_of(threads) if threads else ClientState.REBALANCING
        with self._guard:
            live = (ClientState.REBALANCING, ClientState.RUNNING)
            if self._state in live and state is not self._state:
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


def _ours(error: BaseException) -> HeadwaterError:
    """Return an error of ours as it is, and any other with its name."""
    if isinstance(error, HeadwaterError):
        return error
    return HeadwaterError(f"the worker ended: {type(error).__name__}: {error}")


def exception_of(error: WorkerError) -> HeadwaterError:
    """Return what a worker reported as the exception that it was."""
    kind = getattr(errors, error.error, None)
    if isinstance(kind, type) and issubclass(kind, HeadwaterError):
        return kind(error.message)
    return HeadwaterError(f"{error.error}: {error.message}")


def _pickled(build: Callable[..., Any]) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(build)
    except Exception as error:
        raise ImportPathError(
            f"the function {getattr(build, '__qualname__', build)!r} cannot be sent to the "
            f"StreamThread processes: {type(error).__name__}: {error}; let it use no locks, "
            "clients or open files from outside, or name it by its import path"
        ) from error
    return pickled


def _check_guard() -> None:
    """A module that starts an application when it is imported would start it again in children."""
    if is_child() or is_loading():
        raise ConfigError(
            "KafkaStreams was made while its own topology was being imported: the program's module "
            "is imported by the StreamThread processes, too. Put what starts the application under "
            '`if __name__ == "__main__":`'
        )
