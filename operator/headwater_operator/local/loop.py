"""The control loop's process on one machine: observe, decide, act, for every application.

    python -m headwater_operator.local.loop ROOT GENERATION

    standard input     a byte wakes it up; its end (the supervisor is gone) ends it
    standard output    a byte tells the supervisor that pods have changed, or just that we turn

It may be killed at any moment. The next one has a greater generation, reads everything afresh and
finds the workers running.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater import failpoints
from headwater.errors import HeadwaterError
from headwater.model.lifecycle import ClientState
from headwater.model.streamapp import Retention
from headwater.version import VERSION
from headwater_operator.actions import (
    StartDriver,
    StartWorker,
    StopDriver,
    StopWorker,
    describe_action,
)
from headwater_operator.decide import Intent, Memory, decide
from headwater_operator.decide.autoscaling.owner import news_of
from headwater_operator.local import files
from headwater_operator.local.act import Actor, OutdatedDecisionError
from headwater_operator.local.control import change
from headwater_operator.local.driver import observe_driver
from headwater_operator.local.events import write_event
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.observe import observe, read_record, read_report, stamp
from headwater_operator.local.records import AppReport, SupervisorRecord
from headwater_operator.observe.driver_told import DriverTold
from headwater_operator.observe.lags import with_lags
from headwater_operator.observe.loads import with_loads
from headwater_operator.observe.numbers import HttpNumbers
from headwater_operator.overview.events import Event, EventKind

if TYPE_CHECKING:
    from headwater.model.appstatus import AppStatus
    from headwater_operator.local.layout import AppDir
    from headwater_operator.local.records import AppRecord
    from headwater_operator.observe.numbers import NumbersSource

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.1
_LEAST_PAUSE_S: Final = 0.02
_RETRY_MS: Final = 1_000
_SIGN_OF_LIFE_S: Final = 2.0


class ControlLoop:
    """One run of the control loop.

    Args:
        cluster: where everything lies.
        generation: of this run.
        numbers: workers that can be asked for exact lags.
    """

    def __init__(
        self, cluster: ClusterDir, generation: int, numbers: NumbersSource | None = None
    ) -> None:
        self._cluster = cluster
        self._generation = generation
        self._numbers = numbers if numbers is not None else HttpNumbers()
        self._memories: dict[str, Memory] = {}
        self._drivers: dict[str, DriverTold] = {}
        self._due_ms: dict[str, int] = {}
        self._stamps: dict[str, tuple[object, ...]] = {}
        self._complaints: dict[str, str] = {}
        self._warned: dict[str, set[str]] = {}
        self._introduced: set[str] = set()

    def turn(self) -> None:
        """Decide for every application that has changed or whose time has come."""
        for directory in self._cluster.apps():
            seen = (self._kafka_address(), *stamp(directory))
            is_due = _monotonic_ms() >= self._due_ms.get(directory.name, 0)
            if not is_due and seen == self._stamps.get(directory.name):
                continue
            self._stamps[directory.name] = seen
            try:
                again_after_ms = self._reconcile(directory)
            except (HeadwaterError, OSError) as error:
                self._complain(directory.name, str(error))
                again_after_ms = _RETRY_MS
            self._due_ms[directory.name] = _monotonic_ms() + again_after_ms

    def _reconcile(self, directory: AppDir) -> int:
        record = read_record(directory)
        if record is None:
            return _RETRY_MS
        if directory.name not in self._introduced:
            self._introduced.add(directory.name)
            self._say(directory, EventKind.LEADER, f"control loop, generation {self._generation}")
        if not self._hand_to_workers(directory, record):
            # Nothing has been decided of what is wanted now: what stands there is of before.
            former = read_report(directory)
            waiting = replace(former.status, reason="waiting for the private Kafka")
            self._report(directory, replace(record, applied=former.applied), waiting)
            return _RETRY_MS
        if _was_given_up(directory, record):
            # It is tried once more: what went wrong before is not held against it.
            self._memories.pop(directory.name, None)
        observed = observe(directory, record, generation=self._generation)
        # Who watches on a terminal sees every number as it is.
        told = self._drivers.setdefault(directory.name, DriverTold(shown_for_ms=0))
        observed = replace(observed, driver=observe_driver(directory, told, _monotonic_ms()))
        # A process that listens has told so in its own file.
        endpoints = {each.worker.name: each.worker.status.endpoint for each in observed.workers}
        observed = with_lags(observed, endpoints, self._numbers)
        memory, now_ms = self._memories.get(directory.name, Memory()), _monotonic_ms()
        observed = with_loads(observed, endpoints, self._numbers, memory.scaling, now_ms)
        decision = decide(observed, memory, now_ms)
        self._memories[directory.name] = decision.memory
        self._report(directory, record, decision.status)
        self._warn(directory, decision.warnings)
        failpoints.hit("loop.reported")
        actor = Actor(self._cluster, record)
        for action in decision.actions:
            log.info("%s: %s", directory.name, describe_action(action))
            try:
                event = actor.carry_out(action)
            except OutdatedDecisionError:
                log.warning("%s: somebody else has written; deciding afresh", directory.name)
                return 0
            if event is not None:
                write_event(directory.events, event)
            if isinstance(action, StartWorker | StopWorker | StartDriver | StopDriver):
                _wake_supervisor()
            failpoints.hit("loop.acted")
        is_over = decision.status.state is ClientState.NOT_RUNNING and not observed.workers
        if is_over and not decision.actions:
            self._finish(directory, record)
        return 0 if decision.actions else decision.again_after_ms

    def next_look_s(self) -> float:
        """How long to sleep at most."""
        now = _monotonic_ms()
        due = min((due - now for due in self._due_ms.values()), default=_RETRY_MS)
        return max(_LEAST_PAUSE_S, min(_LOOK_S, due / 1000))

    def _kafka_address(self) -> str:
        data = files.read(self._cluster.supervisor)
        return "" if data is None else SupervisorRecord.from_dict(data).kafka.bootstrap_servers

    def _hand_to_workers(self, directory: AppDir, record: AppRecord) -> bool:
        """Write the StreamApp as the workers need it; ``False`` while there is no broker."""
        kafka = record.app.spec.kafka
        address = kafka.bootstrap_servers or self._kafka_address()
        if not address:
            return False
        spec = replace(record.app.spec, kafka=replace(kafka, bootstrap_servers=address))
        resource = replace(record.app, spec=spec).to_dict()
        if files.read(directory.streamapp) != resource:
            files.replace(directory.streamapp, resource)
        return True

    def _report(self, directory: AppDir, record: AppRecord, status: AppStatus) -> None:
        before, status = read_report(directory), replace(status, version=VERSION)
        report = AppReport(status=status, applied=record.applied, generation=self._generation)
        if report == before:
            return
        if (scaled := news_of(before.status, status)) is not None:
            self._say(directory, EventKind.STATE, scaled)
        if status.state is not before.status.state:
            self._say(directory, EventKind.STATE, f"{status.state}: {status.reason}")
        if status.failure is not None and status.failure != before.status.failure:
            failure = status.failure
            self._say(
                directory, EventKind.FAILURE, f"{failure.error}: {failure.message}", failure.worker
            )
        files.replace(directory.status, report.to_dict())

    def _warn(self, directory: AppDir, warnings: tuple[str, ...]) -> None:
        """Say what is not as the StreamApp says, once for as long as it is so."""
        for text in sorted(set(warnings) - self._warned.get(directory.name, set())):
            log.warning("%s: %s", directory.name, text)
            self._say(directory, EventKind.FAILURE, text)
        self._warned[directory.name] = set(warnings)

    def _finish(self, directory: AppDir, record: AppRecord) -> None:
        """When all of a reset or a deletion is done, say so in what is wanted."""
        if record.intent is Intent.DELETE:
            shutil.rmtree(directory.driver.path, ignore_errors=True)
            if record.app.spec.state.retention.when_deleted is Retention.DELETE:
                shutil.rmtree(directory.driver_state, ignore_errors=True)
            for path in (directory.status, directory.streamapp, directory.events, directory.app):
                files.remove(path)
            for memory in (
                self._memories,
                self._drivers,
                self._due_ms,
                self._stamps,
                self._complaints,
                self._warned,
            ):
                memory.pop(directory.name, None)
            self._introduced.discard(directory.name)
        elif record.intent is Intent.RESET:
            # The workers' went with them: what Spark has kept is of the topics that were deleted.
            shutil.rmtree(directory.driver_state, ignore_errors=True)
            self._say(directory, EventKind.STATE, "the reset is done")
            change(self._cluster, directory.name, lambda now: now.after_reset(record.applied))

    def _say(self, directory: AppDir, kind: EventKind, text: str, worker: str = "") -> None:
        event = Event(at_ms=int(time.time() * 1000), kind=kind, text=text, worker=worker)
        write_event(directory.events, event)

    def _complain(self, app: str, message: str) -> None:
        if self._complaints.get(app) != message:
            self._complaints[app] = message
            log.error("%s: %s", app, message)
            self._say(self._cluster.app(app), EventKind.FAILURE, message)


def _was_given_up(directory: AppDir, record: AppRecord) -> bool:
    report = read_report(directory)
    failure = report.status.failure
    return failure is not None and failure.is_final and report.applied < record.applied


def _wake_supervisor() -> None:
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(sys.stdout.fileno(), b"\n")


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000)


def main() -> int:
    """Run the control loop until standard input ends."""
    root, generation = sys.argv[1:]
    cluster = ClusterDir(Path(root))
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr
    )
    log.info("control loop, generation %s", generation)
    os.set_blocking(sys.stdout.fileno(), False)
    loop = ControlLoop(cluster, int(generation))
    said_at = 0.0
    while True:
        loop.turn()
        if time.monotonic() - said_at > _SIGN_OF_LIFE_S:
            said_at = time.monotonic()
            _wake_supervisor()
        readable, _, _ = select.select([sys.stdin], [], [], loop.next_look_s())
        if readable and not os.read(sys.stdin.fileno(), 4096):
            return 0


if __name__ == "__main__":
    sys.exit(main())
