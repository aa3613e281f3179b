"""What the control plane does by itself: schedule, make and delete volumes, collect garbage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.kube.api import CLAIMS, NODES, PODS, Manifest
from headwater_operator.kube.errors import ConflictError, NotFoundError
from headwater_operator.manifests.names import claim_name
from tests.sim.kubernetes.growth import grow_volumes
from tests.sim.kubernetes.objects import copied
from tests.sim.kubernetes.world import NAMESPACE, KubeWorld, Ticking, Volume
from tests.sim.world import Disk
from tests.support.kube_fakes import BINDINGS
from tests.support.kube_model import IN_USE

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNHEARD_MS: Final = 40_000
"""A node that has been silent for so long is given no pods."""
_EVICTION_MS: Final = 60_000
"""And after so much more, the deletion of its pods is asked for."""


class Controllers(Ticking):
    """Scheduler, volume binder, the protection of claims, garbage collectors."""

    def __init__(self, world: KubeWorld) -> None:
        super().__init__(world, "controllers")

    def run(self) -> Iterator[int]:
        while True:
            for work in (
                self.schedule,
                self.let_claims_go,
                self.delete_volumes,
                self.world.api.collect_garbage,
                self.evict,
                self.collect_pods,
                *((lambda: grow_volumes(self.world),) if self.world.plan.changes else ()),
            ):
                yield self.world.rng.choice((20, 60, 200))
                if self.world.is_api_down:
                    continue
                try:
                    work()
                except (ConflictError, NotFoundError):
                    continue

    def schedule(self) -> None:
        """Give pods that have none a node, in the zone of their volume if they have one."""
        for pod in self.world.all(PODS):
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            name = pod["metadata"]["name"]
            claim = self.world.find(CLAIMS, claim_name(name))
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                continue
            volume = self.world.volumes.get(claim["metadata"]["uid"])
            nodes = self.nodes_for(volume)
            if not nodes:
                continue
            node = self.world.rng.choice(nodes)
            if volume is None:
                self.make_volume(claim, self.world.zone_of(node))
            target = {"kind": "Node", "name": node}
            metadata = {"name": name, "namespace": NAMESPACE}
            self.world.api.create(BINDINGS, {"metadata": metadata, "target": target})
            self.world.note(f"{name} is given to {node}")

    def nodes_for(self, volume: Volume | None) -> list[str]:
        """Nodes that are heard of, those with fewest pods."""
        known = [node["metadata"]["name"] for node in self.world.all(NODES)]
        taken = [pod["spec"].get("nodeName") for pod in self.world.all(PODS)]
        fit = [
            name
            for name in known
            if not self.is_silent(name, _UNHEARD_MS)
            and (volume is None or volume.zone == self.world.zone_of(name))
        ]
        least = min((taken.count(name) for name in fit), default=0)
        return [name for name in fit if taken.count(name) == least]

    def make_volume(self, claim: Manifest, zone: str) -> None:
        """Make the volume of a claim where its first pod goes."""
        metadata = claim["metadata"]
        source = claim["spec"].get("dataSource")
        disk = copied(self.world.copies[source["name"]]) if source else Disk()
        self.world.volumes[metadata["uid"]] = Volume(zone, disk)
        named = {"name": metadata["name"], "namespace": NAMESPACE, "uid": metadata["uid"]}
        body = {"metadata": named, "status": {"phase": "Bound"}}
        self.world.api.apply(CLAIMS, body, subresource="status")

    def let_claims_go(self) -> None:
        """Let claims that are to be deleted go once no pod uses them."""
        used = {claim_name(pod["metadata"]["name"]) for pod in self.world.all(PODS)}
        for claim in self.world.all(CLAIMS):
            metadata = claim["metadata"]
            if "deletionTimestamp" not in metadata or metadata["name"] in used:
                continue
            kept = [name for name in metadata["finalizers"] if name != IN_USE]
            operations = [
                {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
                {"op": "replace", "path": "/metadata/finalizers", "value": kept},
            ]
            self.world.api.patch(CLAIMS, NAMESPACE, metadata["name"], operations)

    def delete_volumes(self) -> None:
        """Delete the volumes whose claims are gone."""
        known = {claim["metadata"]["uid"] for claim in self.world.all(CLAIMS)}
        for uid in self.world.volumes.keys() - known:
            del self.world.volumes[uid]

    def evict(self) -> None:
        """Ask for the deletion of pods whose node has been silent for long."""
        for pod in self.world.all(PODS):
            node = pod["spec"].get("nodeName") or ""
            is_asked = "deletionTimestamp" in pod["metadata"]
            if node and not is_asked and self.is_silent(node, _UNHEARD_MS + _EVICTION_MS):
                name = pod["metadata"]["name"]
                self.world.note(f"{name} is evicted from {node}")
                self.world.api.delete(PODS, NAMESPACE, name, uid=pod["metadata"]["uid"])

    def collect_pods(self) -> None:
        """Forget the pods of nodes that are no nodes any more."""
        known = {node["metadata"]["name"] for node in self.world.all(NODES)}
        for pod in self.world.all(PODS):
            node = pod["spec"].get("nodeName") or ""
            if node and node not in known:
                metadata = pod["metadata"]
                self.world.note(f"{metadata['name']} is forgotten with {node}")
                self.world.api.delete(
                    PODS, NAMESPACE, metadata["name"], uid=metadata["uid"], grace_s=0
                )

    def is_silent(self, node: str, for_ms: int) -> bool:
        """Whether a node has not been heard of for so long."""
        return self.world.now_ms - self.world.machines[node].heard_ms >= for_ms
