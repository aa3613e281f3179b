"""The operator's rounds on the model API server, with players and a clock turned by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headwater.failpoints import FailpointError
from headwater_operator.handlers.hearing import Hearing
from headwater_operator.handlers.leases import LeaseBook
from headwater_operator.handlers.metrics import Metrics
from headwater_operator.handlers.reconcile import NEVER, Reconciler
from headwater_operator.handlers.sweep import SWEEP_MS, WATCHED, Sweep
from headwater_operator.kube.api import (
    BUDGETS,
    EVENTS,
    STREAM_ACTIONS,
    STREAM_APPS,
    Manifest,
    Resource,
)
from headwater_operator.kube.election import Election
from headwater_operator.kube.errors import KubeApiError
from headwater_operator.manifests.names import app_of
from headwater_operator.manifests.settings import Installation
from headwater_operator.observe.streamactions import app_of_action
from tests.support.kube_drivers import FakeDrivers
from tests.support.kube_fakes import (
    IMAGE,
    FakeNode,
    FakeWorkers,
    condition_in,
    held_by,
    names,
    status_of,
)
from tests.support.kube_model import KubeModel
from tests.support.numbers import FakeNumbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater_operator.handlers.leases import Key

NAMESPACE = "default"
OPERATORS = "headwater-system"
"""Where the operators live, and their Lease."""
STEP_MS = 250


def streamapp(name: str = "wc", **spec: object) -> Manifest:
    """A StreamApp with two workers, exactly-once, unless said otherwise."""
    return {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "topology": {"module": "a:b"},
            "image": IMAGE,
            "replicas": 2,
            "processingGuarantee": "exactly_once_v2",
            "kafka": {"bootstrapServers": "broker:9092"},
            **spec,
        },
    }


class OperatorRig:
    """One operator process without its threads: its parts, stepped by hand."""

    def __init__(
        self,
        api: KubeModel,
        now_ms: Callable[[], int],
        place: str = "",
        namespaces: tuple[str | None, ...] = (None,),
    ) -> None:
        self.api = api
        self._now_ms = now_ms
        self.metrics = Metrics()
        self.election = Election(api, OPERATORS, now_ms=now_ms, place=place)
        self.leases = LeaseBook(api, namespaces, now_ms)
        self.numbers = FakeNumbers()
        self.reconciler = Reconciler(
            api,
            self.election,
            self.leases,
            Installation(callers=()),
            self.metrics,
            lambda _: self.numbers,
            now_ms,
            self._wall,
        )
        self.hearing = Hearing(now_ms, SWEEP_MS)
        self.hearing.begin()
        self.deaf_to: set[str] = set()
        self._told: list[tuple[str, Manifest]] = []
        self.sweep = Sweep(api, namespaces, self.reconciler, self._wake, self.hearing, now_ms)
        self.due: dict[Key, int] = {}
        self.failures: list[KubeApiError] = []
        self._sweep_ms = 0
        self._poll_ms = 0

    def _wall(self) -> str:
        """The time of day: with the rig's clock, from when the API server began."""
        passed = timedelta(milliseconds=self._now_ms())
        return (datetime(2026, 1, 1, tzinfo=UTC) + passed).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _wake(self, key: Key) -> None:
        self.due[key] = self._now_ms()

    def hear(self, plural: str, manifest: Manifest) -> None:
        """Be told of a change, as by a watch."""
        if plural in self.deaf_to or plural not in {kind.plural for kind in WATCHED}:
            return
        # A watch is behind whoever writes: by now the write may have returned.
        self._told.append((plural, manifest))

    def _listen(self, plural: str, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        version = metadata["resourceVersion"]
        is_ours = self.reconciler.gate.is_ours(version)
        namespace = metadata.get("namespace", "")
        self.hearing.hear(plural, metadata["uid"], version, namespace, is_ours=is_ours)
        if is_ours:
            return
        is_app, is_action = plural == STREAM_APPS.plural, plural == STREAM_ACTIONS.plural
        name = metadata["name"] if is_app else app_of(manifest)
        name = app_of_action(manifest) if is_action else name
        if name:
            key = (metadata["namespace"], name)
            self.reconciler.changed(key, has_actions=is_action)
            self._wake(key)

    def step(self) -> None:
        """Renew, poll, sweep if it is time, and see once to every StreamApp that is due."""
        now_ms = self._now_ms()
        told, self._told = self._told, []
        for plural, manifest in told:
            self._listen(plural, manifest)
        try:
            self.election.step()
            self.election.require()
            if now_ms >= self._poll_ms:
                self.leases.poll()
                self._poll_ms = now_ms + 2_000
            if now_ms >= self._sweep_ms:
                self.sweep.run()
                self._sweep_ms = now_ms + SWEEP_MS
            for key in [key for key, at_ms in self.due.items() if at_ms <= now_ms]:
                again_ms = self.reconciler.step(key)
                del self.due[key]
                if again_ms != NEVER:
                    self.due[key] = now_ms + again_ms
        except KubeApiError as error:
            self.failures.append(error)


@dataclass
class KubeRig:
    """A cluster in memory: API server, one node, workers, and an operator."""

    api: KubeModel = field(default_factory=lambda: KubeModel((NAMESPACE, OPERATORS)))
    now_ms: int = 1_000_000
    kills: int = 0
    turns: int = 0
    is_operator_at_work: bool = False
    watched: tuple[str | None, ...] = (None,)

    def __post_init__(self) -> None:
        self.node = FakeNode(self.api, NAMESPACE)
        self.workers = FakeWorkers(self.api, NAMESPACE)
        self.drivers = FakeDrivers(self.api, NAMESPACE)
        self.operator = self.new_operator()
        self.api.on_change = self._hear

    def new_operator(self, place: str = "pod") -> OperatorRig:
        """Another operator process; in the same place, so it need not wait for the Lease."""
        return OperatorRig(self.api, lambda: self.now_ms, place, self.watched)

    def _hear(self, plural: str, manifest: Manifest) -> None:
        self.operator.hear(plural, manifest)

    def turn(self, count: int = 1) -> None:
        """Let everybody do something, and some time pass."""
        for _ in range(count):
            self.turns += 1
            self.is_operator_at_work = True
            try:
                self.operator.step()
            except FailpointError:
                # Killed: the next one knows nothing of what this one knew.
                self.kills += 1
                self.operator = self.new_operator()
            self.is_operator_at_work = False
            self.node.step()
            self.workers.step()
            self.operator.numbers.drivers = dict(self.drivers.step())
            self.api.collect_garbage()
            self.now_ms += STEP_MS

    def until(self, condition: Callable[[], object], turns: int = 400) -> None:
        """Turn until something is so."""
        for _ in range(turns):
            if condition():
                return
            self.turn()
            for app in self.names(STREAM_APPS):
                counts = self.status(app).get("tasks") or {}
                assert all(count >= 0 for count in counts.values()), counts
        raise AssertionError(f"not so after {turns} turns; status: {self.status()}")

    # -- what is there ---------------------------------------------------------------------------

    def apply(self, manifest: Manifest) -> None:
        """Be the user."""
        found = self.api.get(STREAM_APPS, NAMESPACE, manifest["metadata"]["name"])
        if found is None:
            self.api.create(STREAM_APPS, manifest)
        else:
            self.api.replace(STREAM_APPS, {**found, "spec": manifest["spec"]})

    def scale(self, replicas: int, app: str = "wc") -> None:
        operation = {"op": "replace", "path": "/spec/replicas", "value": replicas}
        self.api.patch(STREAM_APPS, NAMESPACE, app, [operation])

    def status(self, app: str = "wc") -> Manifest:
        return status_of(self.api, NAMESPACE, app)

    def condition(self, kind: str, app: str = "wc") -> tuple[str, str, str]:
        return condition_in(self.status(app), kind)

    def is_ready(self, app: str = "wc") -> bool:
        return self.condition("Ready", app)[0] == "True"

    def held(self, app: str = "wc") -> dict[str, list[str]]:
        return held_by(self.api, NAMESPACE, app)

    def tasks(self, app: str = "wc") -> list[str]:
        """All tasks that are granted; one twice if two workers have it."""
        return sorted(task for tasks in self.held(app).values() for task in tasks)

    def act(self, name: str, kind: str, app: str = "wc", **spec: object) -> None:
        """Create a StreamAction."""
        manifest: Manifest = {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"app": app, "type": kind, **spec},
        }
        self.api.create(STREAM_ACTIONS, manifest)

    def action(self, name: str) -> Manifest:
        """Return the status of a StreamAction."""
        found = self.api.get(STREAM_ACTIONS, NAMESPACE, name)
        assert found is not None, name
        return dict(found.get("status") or {})

    def phase(self, name: str) -> str:
        """Return how far a StreamAction has come."""
        return str(self.action(name).get("phase", ""))

    def delete(self, app: str = "wc") -> None:
        self.api.delete(STREAM_APPS, NAMESPACE, app)

    def set(self, path: str, value: object, app: str = "wc") -> None:
        operation = {"op": "add", "path": path, "value": value}
        self.api.patch(STREAM_APPS, NAMESPACE, app, [operation])

    def names(self, resource: Resource) -> list[str]:
        return names(self.api.list(resource, NAMESPACE))

    def uid(self, resource: Resource, name: str) -> str:
        found = self.api.get(resource, NAMESPACE, name)
        return "" if found is None else str(found["metadata"]["uid"])

    def events(self) -> list[tuple[str, str]]:
        found = self.api.list(EVENTS, NAMESPACE)
        return [(each["reason"], each["message"]) for each in found]


def count_budget(rig: KubeRig, reason: str) -> None:
    """Be the disruption controller."""
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": reason}
    found = rig.api.get(BUDGETS, NAMESPACE, "wc")
    assert found is not None
    counted = {"observedGeneration": found["metadata"].get("generation"), "expectedPods": 2}
    body = {
        "metadata": {"name": "wc", "namespace": NAMESPACE},
        "status": {"conditions": [condition], **counted},
    }
    rig.api.apply(BUDGETS, body, subresource="status")
