"""Reads the overview of one application from the API server, with the rights of whoever looks.

StreamApps and StreamWorkers are needed. Pods, Leases, Events and the workers' numbers make it more
exact: where the right to one of them is missing, the overview says so and does without.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.errors import SpecError
from headwater.model.lifecycle import Engine
from headwater.model.streamapp import parse
from headwater_operator.decide.observed import ProcessState
from headwater_operator.kube.api import EVENTS, LEASES, PODS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.kube.errors import ForbiddenError
from headwater_operator.manifests.names import WORKER_COMPONENT, component_of, of_app
from headwater_operator.observe.leases import read_lease
from headwater_operator.observe.pods import read_pod
from headwater_operator.observe.snapshot import read_status, read_worker
from headwater_operator.overview.application import snapshot_of
from headwater_operator.overview.events import Event, EventKind, tasks_named
from headwater_operator.overview.rates import Rates
from headwater_operator.overview.seen import SeenWorker
from headwater_operator.overview.snapshot import DriverRow, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.model.appstatus import AppStatus
    from headwater_operator.kube.api import KubeApi, Manifest, Resource
    from headwater_operator.observe.numbers import WorkerAnswer
    from headwater_operator.views import PodView

_EVENTS_SHOWN: Final = 50


class Numbers(Protocol):
    """Workers that can be asked: ``HttpNumbers`` in the cluster, ``ProxiedNumbers`` elsewhere."""

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        """Return the answers of those that have soon answered, by worker."""
        ...

    def close(self) -> None:
        """Ask nobody any more."""
        ...

    @property
    def refused(self) -> str:
        """Why nobody may be asked; empty if that is allowed."""
        ...


class ClusterReader:
    """Looks at one StreamApp again and again.

    Args:
        api: the API server, with the rights of whoever looks.
        namespace: of the StreamApp.
        app: its name.
        numbers: how its workers are asked.
    """

    def __init__(self, api: KubeApi, namespace: str, app: str, numbers: Numbers) -> None:
        self._api = api
        self._namespace = namespace
        self._app = app
        self._numbers = numbers
        self._rates = Rates(time.monotonic)
        self._began = time.monotonic()
        self._refused: list[str] = []

    def close(self) -> None:
        """Ask nobody any more."""
        self._numbers.close()

    def collect(self) -> Snapshot:
        """Look at everything once.

        Raises:
            ForbiddenError: StreamApps or StreamWorkers may not be read.
            KubeApiError: the API server does not answer.
        """
        manifest = self._api.get(STREAM_APPS, self._namespace, self._app)
        if manifest is None:
            return Snapshot(
                app=self._app, namespace=self._namespace, reason="not applied, or deleted"
            )
        return self.read(manifest)

    def read(self, manifest: Manifest) -> Snapshot:
        """Look at what belongs to a StreamApp that was just read.

        Raises:
            ForbiddenError: StreamWorkers may not be read.
            KubeApiError: the API server does not answer.
        """
        self._refused = []
        status = read_status(manifest)
        try:
            app = parse(manifest)
        except SpecError as error:
            return Snapshot(app=self._app, namespace=self._namespace, failure=str(error))
        seen = self._with_numbers(self._look_at_workers())
        found = snapshot_of(
            app,
            status,
            seen,
            rate=self._rates.add,
            is_decided=status.observed_generation >= 0,
            driver=_driver_row(status),
            events=self._events([one.worker.name for one in seen]),
            why_silent=self._numbers.refused,
        )
        inexact = "; ".join(filter(None, (found.inexact, *self._refused)))
        return replace(
            found,
            namespace=self._namespace,
            reason=_reason(manifest, status),
            inexact=inexact,
            uptime_s=time.monotonic() - self._began,
        )

    def _look_at_workers(self) -> list[tuple[SeenWorker, str]]:
        """Return the workers, each with ``host:port`` of its pod."""
        labels = of_app(self._app)
        workers = self._api.list(STREAM_WORKERS, self._namespace, labels=labels)
        leases = {
            lease["metadata"]["name"]: lease for lease in self._list(LEASES, labels=labels) or ()
        }
        listed = self._list(PODS, labels=labels)
        pods = {
            pod.worker: pod
            for pod in (
                read_pod(each)
                for each in listed or ()
                if component_of(each) in ("", WORKER_COMPONENT)
            )
        }
        ranked = sorted(workers, key=lambda each: _rank(each["metadata"]["name"]))
        return [
            _seen(
                each, leases.get(each["metadata"]["name"]), pods, are_pods_known=listed is not None
            )
            for each in ranked
        ]

    def _with_numbers(self, seen: Sequence[tuple[SeenWorker, str]]) -> list[SeenWorker]:
        asked = {
            one.worker.name: endpoint
            for one, endpoint in seen
            if one.is_alive and not one.waits_for and endpoint
        }
        answers = self._numbers.ask(asked) if asked else {}
        return [
            one if (answer := answers.get(one.worker.name)) is None else answer.told_by(one)
            for one, _ in seen
        ]

    def _events(self, workers: Sequence[str]) -> tuple[Event, ...]:
        chosen = f"involvedObject.kind=StreamApp,involvedObject.name={self._app}"
        found = self._list(EVENTS, fields=chosen) or ()
        events = sorted(
            (read_event(each, workers) for each in found), key=lambda event: event.at_ms
        )
        return tuple(events[-_EVENTS_SHOWN:])

    def _list(
        self, resource: Resource, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...] | None:
        """List what makes the overview more exact; ``None`` if that is not allowed."""
        try:
            return self._api.list(resource, self._namespace, labels=labels, fields=fields)
        except ForbiddenError:
            self._refused.append(
                f"the right to list {resource.plural} in namespace {self._namespace} is missing"
            )
            return None


def in_short(manifest: Manifest) -> Snapshot:
    """Return the overview of a StreamApp without a look at what belongs to it."""
    metadata, status = manifest["metadata"], read_status(manifest)
    name, namespace = str(metadata["name"]), str(metadata["namespace"])
    try:
        app = parse(manifest)
    except SpecError as error:
        return Snapshot(app=name, namespace=namespace, failure=str(error))
    found = snapshot_of(
        app,
        status,
        (),
        rate=lambda _key, _count: None,
        is_decided=status.observed_generation >= 0,
        driver=_driver_row(status),
    )
    return replace(found, namespace=namespace, reason=_reason(manifest, status))


def read_event(manifest: Manifest, workers: Sequence[str] = ()) -> Event:
    """Read an Event that the operator has posted.

    Args:
        manifest: the Event.
        workers: names with which its message may begin.
    """
    text = str(manifest.get("message") or "")
    name, colon, rest = text.partition(": ")
    worker = name if colon and name in workers else ""
    granted, revoked = tasks_named(text)
    reason = str(manifest.get("reason") or "")
    if manifest.get("type") == "Warning":
        kind = EventKind.FAILURE
    elif granted or revoked:
        kind = EventKind.TASKS
    else:
        kind = EventKind.STARTED if "started" in text else EventKind.STATE
    at = manifest.get("lastTimestamp") or manifest.get("eventTime")
    at = at or manifest["metadata"].get("creationTimestamp")
    return Event(
        at_ms=_milliseconds(at),
        kind=kind,
        text=(rest if worker else text) or reason,
        worker=worker,
        granted=granted,
        revoked=revoked,
    )


def _seen(
    manifest: Manifest, lease: Manifest | None, pods: Mapping[str, PodView], *, are_pods_known: bool
) -> tuple[SeenWorker, str]:
    worker = read_worker(manifest)
    pod = pods.get(worker.name)
    held = None if lease is None else read_lease(lease)
    is_current = bool(worker.status.incarnation) and (
        held is None or held.holder == worker.status.incarnation
    )
    if pod is None:
        # Without the right to see pods, a worker that has an address counts as running.
        is_taken_for_alive = not are_pods_known and bool(worker.status.endpoint)
        return SeenWorker(
            worker=worker,
            process=ProcessState.RUNNING if is_taken_for_alive else ProcessState.NONE,
            was_stopped=not is_taken_for_alive,
            lease_age_s=_age_s(lease) if held is not None else None,
        ), worker.status.endpoint if is_taken_for_alive else ""
    return SeenWorker(
        worker=worker,
        process=pod.state,
        has_reported=is_current,
        is_stopping=pod.is_deleting,
        waits_for=pod.waits_for,
        ended=pod.ended,
        node=pod.node,
        revision=pod.revision,
        is_ready=pod.is_ready,
        lease_age_s=_age_s(lease) if held is not None and is_current else None,
    ), pod.endpoint


def _reason(manifest: Manifest, status: AppStatus) -> str:
    generation = int(manifest["metadata"].get("generation") or 1)
    if status.observed_generation == generation:
        return status.reason
    return f"the operator has yet to look at generation {generation} of the specification"


def _driver_row(status: AppStatus) -> DriverRow | None:
    engine = status.engine
    if engine.name is Engine.NATIVE:
        return None
    return DriverRow(
        state=engine.driver or "STARTING",
        generation=engine.generation,
        last_batch=None if engine.last_batch < 0 else engine.last_batch,
        input_rows_per_s=engine.input_rows_per_second,
        processed_rows_per_s=engine.processed_rows_per_second,
        tasks=status.tasks.total,
    )


def _rank(name: str) -> tuple[str, int, str]:
    """Return what puts ``w-10`` behind ``w-9``."""
    base, _, number = name.rpartition("-")
    return (base, int(number), name) if number.isdigit() else (name, 0, name)


def _age_s(lease: Mapping[str, Any] | None) -> float | None:
    """How old the last renewal is by our own clock, which need not be that of the cluster."""
    renewed = ((lease or {}).get("spec") or {}).get("renewTime")
    return None if not renewed else max(0.0, time.time() - _milliseconds(renewed) / 1000)


def _milliseconds(text: object) -> int:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return 0
