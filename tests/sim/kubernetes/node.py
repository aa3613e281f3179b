"""Machines and their kubelets: they start the processes of pods, end them, and say how they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.model.podcontract import CONTAINER
from headwater.service.decide.observations import StopAsked
from headwater_operator.kube.api import CLAIMS, NODES, PODS, Manifest
from headwater_operator.kube.errors import ConflictError, NotFoundError
from headwater_operator.manifests.names import REVISION_LABEL, claim_name
from tests.sim.kubernetes.world import BAD_IMAGE, NAMESPACE, ZONE, KubeWorld, Ticking
from tests.support.kube_fakes import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sim.kubernetes.worker import PodWorker

_TICK_MS: Final = 250
_KILLED: Final = 137


@dataclass
class Container:
    """The process of a pod."""

    process: PodWorker
    grace_s: int = 90
    told_ms: int | None = None

    def stop(self, now_ms: int, grace_s: int) -> None:
        """Ask it to end; kill it when its grace is over."""
        self.grace_s = min(self.grace_s, grace_s)
        if self.told_ms is None:
            self.told_ms = now_ms
            self.process.inbox.append(StopAsked())
        elif now_ms - self.told_ms >= self.grace_s * 1000:
            self.process.end("is killed by the kubelet")


class Machine:
    """One machine: what runs on it, and how it can be reached."""

    def __init__(self, world: KubeWorld, name: str, zone: str) -> None:
        self.world = world
        self.name = name
        self.zone = zone
        self.cut_off_until = 0
        self.heard_ms = 0
        self.kubelet: Kubelet | None = None
        world.machines[name] = self
        self.boot()

    @property
    def is_up(self) -> bool:
        """Whether it is switched on."""
        return self.kubelet is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing on it can reach the API server."""
        return self.world.now_ms < self.cut_off_until

    @property
    def workers(self) -> list[PodWorker]:
        """The living processes on it."""
        containers = self.kubelet.containers.values() if self.kubelet is not None else ()
        return [each.process for each in containers if each.process.alive]

    def boot(self) -> None:
        """Switch it on: nothing of what ran before runs."""
        self.world.note(f"{self.name} boots")
        self.heard_ms = self.world.now_ms
        self.kubelet = Kubelet(self)

    def lose(self) -> None:
        """Switch it off: everything on it is gone, and nobody is told."""
        self.world.note(f"{self.name} is lost")
        kubelet, workers = self.kubelet, self.workers
        self.kubelet = None
        for worker in workers:
            worker.end("is lost with its machine")
        if kubelet is not None:
            kubelet.end("is lost")

    def freeze(self, for_ms: int) -> None:
        """Stop everything on it."""
        if self.kubelet is not None:
            for worker in self.workers:
                worker.freeze_all(for_ms)
            self.kubelet.freeze(for_ms)


class Kubelet(Ticking):
    """The kubelet of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.containers: dict[str, Container] = {}
        super().__init__(machine.world, f"kubelet-{machine.name}")

    def run(self) -> Iterator[int]:
        while True:
            yield _TICK_MS
            if self.is_out_of_reach():
                continue
            self.machine.heard_ms = self.world.now_ms
            self.register()
            pods = [
                pod
                for pod in self.world.all(PODS)
                if pod["spec"].get("nodeName") == self.machine.name
            ]
            yield from self.forget({pod["metadata"]["uid"] for pod in pods})
            for pod in pods:
                yield self.world.rng.choice((1, 10))
                if self.is_out_of_reach():
                    break
                try:
                    yield from self.see_to(pod)
                except (ConflictError, NotFoundError):
                    continue  # it is another one by now: the next look tells

    def is_out_of_reach(self) -> bool:
        """Whether the API server cannot be asked."""
        return self.machine.is_cut_off or self.world.is_api_down

    def register(self) -> None:
        """Be a node."""
        if not self.world.zone_of(self.machine.name):
            labels = {ZONE: self.machine.zone, "kubernetes.io/hostname": self.machine.name}
            metadata = {"name": self.machine.name, "labels": labels}
            self.world.api.create(NODES, {"metadata": metadata})

    def forget(self, known: set[str]) -> Iterator[int]:
        """End the processes of pods that are there no more: they may take their time."""
        for uid, container in list(self.containers.items()):
            if uid in known:
                continue
            if container.process.alive:
                container.stop(self.world.now_ms, container.grace_s)
                yield 1
            else:
                del self.containers[uid]

    def see_to(self, pod: Manifest) -> Iterator[int]:
        """Bring one pod a step further."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        container = self.containers.get(metadata["uid"])
        phase = status.get("phase", "Pending")
        if phase in ("Succeeded", "Failed") or (container is None and phase == "Running"):
            # The second: this machine was switched off meanwhile.
            if phase == "Running":
                self.write(pod, "Failed", {"terminated": {"exitCode": _KILLED, "reason": "Error"}})
                yield 1
            if "deletionTimestamp" in metadata:
                self.remove(pod)
        elif container is None:
            yield from self.begin(pod)
        elif not container.process.alive:
            code = container.process.table.exit_code
            ended = {"terminated": {"exitCode": code, "reason": "Completed"}}
            self.write(pod, "Succeeded" if code == 0 else "Failed", ended)
            yield 1
        elif "deletionTimestamp" in metadata:
            grace_s = metadata.get("deletionGracePeriodSeconds", 90)
            container.stop(self.world.now_ms, grace_s)
        elif phase != "Running":
            self.write(pod, "Running", {"running": {}})

    def begin(self, pod: Manifest) -> Iterator[int]:
        """Start the container of a pod, when its volume and its image are there."""
        from tests.sim.kubernetes.worker import PodWorker

        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            self.remove(pod)
            return
        image = pod["spec"]["containers"][0]["image"]
        if image == BAD_IMAGE:
            waiting = {"reason": "ErrImagePull", "message": f"{image}: not found"}
            self.write(pod, "Pending", {"waiting": waiting})
            return
        claim = self.world.find(CLAIMS, claim_name(metadata["name"]))
        volume = self.world.volumes.get(claim["metadata"]["uid"]) if claim is not None else None
        if volume is None:
            return
        revision = metadata["labels"][REVISION_LABEL]
        process = PodWorker(self.world, metadata["name"], self.machine, volume, revision)
        self.containers[metadata["uid"]] = Container(process)
        yield self.world.rng.choice((1, 100))
        self.write(pod, "Running", {"running": {}})

    def write(self, pod: Manifest, phase: str, state: Manifest) -> None:
        """Write a pod's status, unless it says so already."""
        container = {"name": CONTAINER, "state": state, "ready": "running" in state}
        status = {"phase": phase, "podIP": ADDRESS, "containerStatuses": [container]}
        if pod.get("status") == status:
            return
        metadata = pod["metadata"]
        named = {"name": metadata["name"], "namespace": NAMESPACE, "uid": metadata["uid"]}
        self.world.api.apply(PODS, {"metadata": named, "status": status}, subresource="status")

    def remove(self, pod: Manifest) -> None:
        """Let go of a pod whose deletion was asked for, and whose process has ended."""
        metadata = pod["metadata"]
        self.world.note(f"{self.name}: {metadata['name']} is gone")
        self.world.api.delete(PODS, NAMESPACE, metadata["name"], uid=metadata["uid"], grace_s=0)
