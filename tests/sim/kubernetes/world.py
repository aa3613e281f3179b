"""A cluster: the model API server, machines, volumes, and who is told of changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from headwater.model.appstatus import AppStatus
from headwater.model.cluster import API_VERSION
from headwater_operator.kube.api import (
    CLAIMS,
    NODES,
    PODS,
    STREAM_ACTIONS,
    STREAM_APPS,
    STREAM_WORKERS,
    Manifest,
    Resource,
)
from headwater_operator.manifests.names import app_of
from headwater_operator.observe.snapshot import read_status
from headwater_operator.observe.streamactions import app_of_action
from tests.sim.kubernetes.secret import ROLL_ON, Secret
from tests.sim.world import Disk, Process, ViolationError, World
from tests.support.kube_model import KubeModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.model.duties import DutyResult, Reset
    from tests.sim.kubernetes.actions import ActionLaws
    from tests.sim.kubernetes.blocking import Blocking
    from tests.sim.kubernetes.faults import Plan
    from tests.sim.kubernetes.node import Machine
    from tests.sim.kubernetes.operators import Operator
    from tests.sim.kubernetes.worker import PodWorker

NAMESPACE: Final = "default"
OPERATORS: Final = "headwater-system"
APP: Final = "app"
ZONE: Final = "topology.kubernetes.io/zone"
GOOD_IMAGE, BAD_IMAGE = "example/worker:1", "example/missing:1"
WINDOW: Final = {"start": "00:00", "end": "00:01"}
"""Open for the first minute, and closed while the last faults happen and all comes to rest."""
_TOLD: Final = {
    STREAM_APPS.plural,
    STREAM_WORKERS.plural,
    STREAM_ACTIONS.plural,
    PODS.plural,
    CLAIMS.plural,
}


AUTOSCALING: Final[dict[str, Any]] = {
    "mode": "Auto",
    "minReplicas": 1,
    "maxReplicas": 3,
    "targetLag": 100,
    "behavior": {
        "scaleUp": {"stabilizationWindow": "2s"},
        "scaleDown": {"stabilizationWindow": "4s"},
    },
}


@dataclass
class Volume:
    """What lies behind a claim, in one zone."""

    zone: str
    disk: Disk = field(default_factory=Disk)
    used_by: PodWorker | None = None

    def attach(self, worker: PodWorker) -> Disk:
        """Be mounted by the process of a pod; no two living ones may have it."""
        if self.used_by is not None and self.used_by.alive:
            raise ViolationError(
                f"a pod of {worker.worker} is given the volume that {self.used_by.name} has "
                "mounted: it is attached to two living pods"
            )
        self.used_by = worker
        return self.disk


class KubeWorld(World):
    """Everything there is, and the clock.

    Args:
        seed: decides everything.
        plan: how this run differs from others, and which mistake is planted in it.
    """

    def __init__(self, seed: str, plan: Plan) -> None:
        super().__init__(seed, exactly_once=plan.exactly_once, standbys=plan.standbys)
        self.plan = plan
        self.api = KubeModel(
            (NAMESPACE, OPERATORS), protects_claims=True, rng=self.rng, copies=False
        )
        self.api.on_change = self._changed
        self.running: Blocking | None = None
        self.volumes: dict[str, Volume] = {}
        self.copies: dict[str, Disk] = {}
        """What VolumeSnapshots hold, by name."""
        self.machines: dict[str, Machine] = {}
        self.operators: list[Operator] = []
        self.operators_made = 0
        self.was_deleted = False
        """The StreamApp has been deleted once."""
        self.action_laws: ActionLaws | None = None
        self.api_down_until = 0
        self.namespace_since_ms = 0
        """When the namespace has changed hands last."""
        self.observers: list[Callable[[str, Manifest], None]] = []
        """Told of every change before anybody else."""
        self.secret = Secret(self)

    # -- the user --------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """The StreamApp as the user first applies it."""
        document: dict[str, Any] = dict(self.app.to_dict())
        keep = {True: "Retain", False: "Delete"}
        spec = {
            **document["spec"],
            "image": GOOD_IMAGE,
            "kafka": {"bootstrapServers": "broker:9092"},
            "scaleDown": {"drainTimeout": "20s"},
            "upgrade": {
                "readyTimeout": "60s",
                "onFailure": "RollBack" if self.plan.rolls_back else "Halt",
            },
            "state": {
                "retention": {
                    "whenScaled": keep[self.plan.keeps_scaled],
                    "whenDeleted": keep[self.plan.keeps_deleted],
                }
            },
        }
        if self.plan.watches:
            spec["upgrade"] = {**spec["upgrade"], "rollOn": ROLL_ON}
        if self.plan.autoscales:
            spec["autoscaling"] = {**AUTOSCALING, "minReplicas": 1 + self.plan.standbys}
        if self.plan.has_windows:
            spec["assignment"] = {**spec["assignment"], "moveWindows": [WINDOW]}
        metadata = {"name": APP, "namespace": NAMESPACE}
        return {"apiVersion": API_VERSION, "kind": "StreamApp", "metadata": metadata, "spec": spec}

    def set(self, path: str, value: object) -> None:
        """Change one field of the StreamApp, if there is one."""
        if self.find(STREAM_APPS, APP) is None:
            return
        self.note(f"user: {path} = {value}")
        operation = {"op": "add", "path": path, "value": value}
        self.api.patch(STREAM_APPS, NAMESPACE, APP, [operation])

    def scale(self, replicas: int) -> None:
        self.set("/spec/replicas", replicas)

    def set_threads(self, threads: int) -> None:
        super().set_threads(threads)
        self.set("/spec/threadsPerWorker", threads)

    def set_paused(self, *, paused: bool) -> None:
        super().set_paused(paused=paused)
        self.set("/spec/paused", value=paused)

    def reset(self, by: str, duty: Reset) -> DutyResult:
        from tests.sim.kubernetes.objects import carry_out_reset

        return carry_out_reset(self, by, duty)

    # -- what is stored --------------------------------------------------------------------------

    def find(self, resource: Resource, name: str) -> Manifest | None:
        """One object of the namespace; to be looked at only."""
        for each in self.all(resource):
            if each["metadata"]["name"] == name:
                return each
        return None

    def all(self, resource: Resource) -> Sequence[Manifest]:
        """All objects of a kind, to be looked at only; nodes live in no namespace."""
        return self.api.peek(resource, NAMESPACE if resource.is_namespaced else None)

    def read_app_status(self) -> AppStatus:
        """The StreamApp's status; an empty one if there is no StreamApp."""
        found = self.find(STREAM_APPS, APP)
        return AppStatus() if found is None else read_status(found)

    def zone_of(self, node: str) -> str:
        """The zone of a node; empty if it is not registered."""
        found = {each["metadata"]["name"]: each for each in self.all(NODES)}
        return str(found[node]["metadata"]["labels"][ZONE]) if node in found else ""

    @property
    def is_api_down(self) -> bool:
        """Whether the API server answers nobody."""
        return self.now_ms < self.api_down_until

    # -- what others hear ------------------------------------------------------------------------

    def _changed(self, plural: str, manifest: Manifest) -> None:
        for observer in self.observers:
            observer(plural, manifest)
        if plural not in _TOLD or manifest["metadata"].get("namespace") != NAMESPACE:
            return
        name = manifest["metadata"]["name"]
        is_action = plural == STREAM_ACTIONS.plural
        of = app_of_action(manifest) if is_action else app_of(manifest)
        key = (NAMESPACE, name if plural == STREAM_APPS.plural else of)
        for operator in self.operators:
            operator.watch.tell(key, is_action=is_action)
        if plural == STREAM_WORKERS.plural:
            worker = self.mains.get(name)
            if worker is not None and worker.alive:
                worker.tell()  # type: ignore[attr-defined]  # here all are workers in pods

    def wall_clock(self) -> datetime:
        """The time of day."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.now_ms)

    def close(self) -> None:
        """End every process, so that no thread is left behind."""
        for process in list(self.processes):
            process._steps.close()
        self.processes.clear()


class Ticking(Process):
    """A process of the cluster."""

    world: KubeWorld
