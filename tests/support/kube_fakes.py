"""Small players for tests of the operator: a node that runs pods, workers that follow their spec.

They speak to an API server through the operator's port, so they play on the model and on a real
one. A worker's process is its pod: the incarnation is the pod's uid.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.model.cluster import (
    Role,
    StoredTask,
    StreamWorker,
    TaskStatus,
    WorkerError,
    WorkerSpec,
    WorkerStatus,
)
from headwater.model.codec import encode_object
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    Duty,
    DutyFailed,
    DutyResult,
    EngineTaken,
    Fence,
    GroupDescribed,
    GroupMember,
    IdsFenced,
    Reset,
    ResetDone,
    TakeEngine,
    TopicsCreated,
    TopicsDescribed,
)
from headwater.model.lifecycle import Engine, TaskState
from headwater.model.rollon import compared
from headwater.model.topics import (
    ChangelogTopic,
    RepartitionTopic,
    SubtopologyReport,
    TopologyReport,
)
from headwater_operator.kube.api import (
    EVENTS,
    LEASES,
    PODS,
    STREAM_APPS,
    STREAM_WORKERS,
    KubeApi,
    Manifest,
    Resource,
)
from headwater_operator.kube.errors import NotFoundError
from headwater_operator.manifests.names import REVISION_LABEL, of_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.ids import TaskId

BINDINGS = Resource("v1", "Binding", "bindings")
IMAGE = "example/worker:1"
ADDRESS = "10.0.0.1"
"""Of every pod."""

_TIMES = itertools.count(1)


def _next_time() -> str:
    """A time of day that no renewal had before."""
    second = next(_TIMES)
    clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"2026-01-01T{clock}.{second // 86400:06}Z"


def topology(app: str, hash_: str = "one") -> TopologyReport:
    """Word count: lines are split, words are counted."""
    return TopologyReport(
        hash=hash_,
        subtopologies=(
            SubtopologyReport(
                id=0, source_topics=("lines",), sink_topics=(f"{app}-words-repartition",)
            ),
            SubtopologyReport(
                id=1,
                repartition_sources=(RepartitionTopic(name=f"{app}-words-repartition"),),
                changelogs=(ChangelogTopic(name=f"{app}-counts-changelog", store="counts"),),
                stores=("counts",),
            ),
        ),
    )


@dataclass
class Kafka:
    """What workers find when they do their duties."""

    topics: dict[str, int] = field(default_factory=lambda: {"lines": 2})
    members: tuple[GroupMember, ...] = ()
    fenced: list[str] = field(default_factory=list)
    engine: Engine = Engine.NATIVE
    generation: int = 0
    resets: int = 0
    reset_to: list[str] = field(default_factory=list)
    """Where the application was to begin after each reset."""
    requests: list[str] = field(default_factory=list)
    """What each reset was called."""
    has_offsets: bool = False
    """Whether there is something that could be shifted."""

    def answer(self, duty: Duty) -> DutyResult:
        match duty:
            case DescribeTopics():
                found = {topic: self.topics[topic] for topic in duty.topics if topic in self.topics}
                return TopicsDescribed(id=duty.id, partitions=found)
            case CreateTopics():
                for topic in duty.topics:
                    self.topics.setdefault(topic.name, topic.partitions)
                named = {topic.name: self.topics[topic.name] for topic in duty.topics}
                return TopicsCreated(id=duty.id, partitions=named)
            case Fence():
                self.fenced += duty.transactional_ids
                return IdsFenced(id=duty.id)
            case DescribeGroup():
                return GroupDescribed(
                    id=duty.id,
                    members=self.members,
                    engine=self.engine,
                    engine_generation=self.generation,
                )
            case Reset():
                return self._reset(duty)
            case TakeEngine():
                return self._taken(duty)

    def _reset(self, duty: Reset) -> DutyResult:
        if duty.to.startswith("shift") and not self.has_offsets:
            return DutyFailed(id=duty.id, error="ResetError", message="nothing committed")
        self.resets += 1
        self.reset_to.append(duty.to)
        self.requests.append(duty.request)
        return ResetDone(id=duty.id)

    def _taken(self, duty: TakeEngine) -> DutyResult:
        if duty.replaces != self.generation:
            said = f"generation {self.generation} has come since"
            return DutyFailed(id=duty.id, error="FencedError", message=said)
        self.engine, self.generation = duty.engine, duty.replaces + 1
        self.fenced += duty.transactional_ids
        return EngineTaken(id=duty.id, engine=self.engine, engine_generation=self.generation)


class FakeNode:
    """A node that starts every pod it is bound to, and ends those that are deleted.

    Attributes:
        images: those that can be pulled; every one if empty.
        lost: does nothing, and its pods are not heard of.
        starts: start-up probes succeed.
        why: instead of the usual words for an image that cannot be pulled.
        missing: a Secret that cannot be mounted, as it is not there. A pod that has waited for it
            once is in its back-off, and does not begin when it is there.
        deaf: pods that were told to end go only when their grace is a second at most.
    """

    def __init__(self, api: KubeApi, namespace: str, name: str = "node-1") -> None:
        self._api = api
        self._namespace = namespace
        self.name = name
        self.images: set[str] = set()
        self.lost = False
        self.starts = True
        self.deaf = False
        self.why = ""
        self.missing = ""
        self._backing_off: set[str] = set()

    def step(self) -> None:
        if self.lost:
            return
        for pod in self._api.list(PODS, self._namespace):
            self._see_to(pod)

    def end(self, pod: str, exit_code: int = 137, message: str = "") -> None:
        """Have the process in a pod end."""
        terminated = {"exitCode": exit_code, "reason": "Error", "message": message}
        found = self._api.get(PODS, self._namespace, pod)
        assert found is not None
        phase = "Succeeded" if exit_code == 0 else "Failed"
        self._write(found, phase, {"terminated": terminated})

    def _see_to(self, pod: Manifest) -> None:
        metadata, status = pod["metadata"], pod.get("status") or {}
        phase = status.get("phase", "Pending")
        if "deletionTimestamp" in metadata:
            if self.deaf and metadata["deletionGracePeriodSeconds"] > 1:
                return
            self._api.delete(
                PODS, self._namespace, metadata["name"], uid=metadata["uid"], grace_s=0
            )
            return
        if phase != "Pending":
            return
        if self.why and pod["spec"]["containers"][0]["image"] not in self.images:
            waiting = {"reason": "ImagePullBackOff", "message": self.why}
            self._write(pod, "Pending", {"waiting": waiting})
            return
        if not pod["spec"].get("nodeName"):
            target = {"kind": "Node", "name": self.name}
            named = {"name": metadata["name"], "namespace": self._namespace}
            self._api.create(BINDINGS, {"metadata": named, "target": target})
        image = pod["spec"]["containers"][0]["image"]
        if self.images and image not in self.images:
            said = f'failed to pull and unpack image "{image}": not found'
            self._write(pod, "Pending", {"waiting": {"reason": "ErrImagePull", "message": said}})
            return
        if self.missing or metadata["uid"] in self._backing_off:
            self._back_off(pod)
            return
        self._write(pod, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})

    def _back_off(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        if metadata["uid"] in self._backing_off:
            return
        self._backing_off.add(metadata["uid"])
        about = {key: metadata[key] for key in ("name", "namespace", "uid")}
        said = f'MountVolume.SetUp failed for volume "kafka" : secret "{self.missing}" not found'
        self._api.create(
            EVENTS,
            {
                "metadata": {
                    "name": f"{metadata['name']}.{metadata['uid'][:16]}",
                    "namespace": self._namespace,
                },
                "involvedObject": {"kind": "Pod", "apiVersion": "v1", **about},
                "type": "Warning",
                "reason": "FailedMount",
                "message": said,
                "lastTimestamp": "2026-01-01T00:00:00Z",
            },
        )

    def _write(self, pod: Manifest, phase: str, state: Manifest) -> None:
        container = {
            "name": pod["spec"]["containers"][0]["name"],
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": "running" in state,
            "started": "running" in state and self.starts,
            "restartCount": 0,
            "state": state,
        }
        ready = {
            "type": "Ready",
            "status": "True" if "running" in state else "False",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        self._api.apply(
            PODS,
            {
                "metadata": {
                    "name": pod["metadata"]["name"],
                    "namespace": self._namespace,
                    "uid": pod["metadata"]["uid"],
                },
                "status": {
                    "phase": phase,
                    "podIP": ADDRESS,
                    "conditions": [ready],
                    "containerStatuses": [container],
                },
            },
            subresource="status",
        )


@dataclass
class FakeWorker:
    """One worker: acknowledges epochs, holds what it is granted, does its duties, renews its Lease.

    Attributes:
        frozen: does nothing, like a stopped process.
        holds_on: does not release what is taken from it.
        error: reported instead of anything else; its process ends.
        lease_s: how long its Lease lasts.
        renew_every_s: how often it is renewed; 0: in every step.
        clock: returns the time of a renewal.
        stopped: the pod in which it was told to end and has let go of everything.
        lag: of its copies, as its status tells; ``None``: they have caught up.
        contents: of what ``spec.upgrade.rollOn`` names, by name; empty for what is not there.
        sees: whether its kubelet has brought files up to date.
    """

    api: KubeApi
    namespace: str
    name: str
    kafka: Kafka
    report: TopologyReport
    incarnation: str = ""
    frozen: bool = False
    holds_on: bool = False
    error: WorkerError | None = None
    lease_s: int = 30
    renew_every_s: float = 0.0
    clock: Callable[[], str] = _next_time
    stopped: str = ""
    lag: int | None = None
    contents: Mapping[str, bytes] = field(default_factory=dict)
    sees: bool = True
    began: tuple[str, dict[str, bytes]] = ("", {})
    """The revision of its process, and the contents that it was started from."""
    status: WorkerStatus = field(default_factory=WorkerStatus)
    stored: dict[TaskId, int] = field(default_factory=dict)
    answered: dict[str, DutyResult] = field(default_factory=dict)
    _renewed: float = -1e9
    _written: WorkerStatus | None = None

    def step(self) -> None:
        if self.frozen:
            return
        pod = self.api.get(PODS, self.namespace, self.name)
        if pod is None or (pod.get("status") or {}).get("phase") != "Running":
            self.incarnation = ""
            return
        if pod["metadata"]["uid"] != self.incarnation:
            self.incarnation = pod["metadata"]["uid"]
            self.began = pod["metadata"]["labels"][REVISION_LABEL], dict(self.contents)
            self.status = WorkerStatus(incarnation=self.incarnation, topology=self.report)
            self._written = None
        manifest = self.api.get(STREAM_WORKERS, self.namespace, self.name)
        if manifest is None:
            return
        is_stopping = "deletionTimestamp" in pod["metadata"]
        self._follow(StreamWorker.from_dict({**manifest, "status": {}}).spec, is_stopping)
        if is_stopping and not self.holds_on:
            self.stopped = self.incarnation
        if time.monotonic() - self._renewed >= self.renew_every_s:
            self._renew()
            self._renewed = time.monotonic()

    def _follow(self, spec: WorkerSpec, is_stopping: bool) -> None:
        before = self.status
        granted = spec.active if spec.incarnation == self.incarnation and not is_stopping else ()
        active = frozenset(task.task for task in before.tasks if task.role is Role.ACTIVE)
        held = active if self.holds_on else frozenset(granted)
        copies = {} if is_stopping else spec.copies_for(self.incarnation)
        self.answered = {duty.id: self._done(duty) for duty in spec.duties}
        self.status = replace(
            before,
            acknowledged_epoch=max(before.acknowledged_epoch, spec.epoch),
            tasks=tuple(
                TaskStatus(task=task, state=TaskState.RUNNING)
                for task in sorted(held | set(granted))
            )
            + tuple(
                TaskStatus(
                    task=task,
                    state=TaskState.RUNNING,
                    role=role,
                    lag=self.lag or 0,
                    caught_up=self.lag is None,
                )
                for task, role in sorted(copies.items())
                if task not in held
            ),
            paused=spec.paused,
            duty_results=tuple(self.answered.values()),
            stored=self._stored(held),
            roll_on=compared(*self.began, self.contents if self.sees else self.began[1]),
            error=self.error,
        )
        if self.status != self._written:
            self._write()
            self._written = self.status

    def _stored(self, held: frozenset[TaskId]) -> tuple[StoredTask, ...]:
        """What lies on the volume: every task with state that was ever here."""
        stateful = {part.id for part in self.report.subtopologies if part.changelogs}
        for task in held:
            if task.subtopology in stateful:
                self.stored.setdefault(task, 1)
        return tuple(
            StoredTask(task=task, offset_bucket=bucket)
            for task, bucket in sorted(self.stored.items())
        )

    def _done(self, duty: Duty) -> DutyResult:
        return self.answered.get(duty.id) or self.kafka.answer(duty)

    def _write(self) -> None:
        named = {"name": self.name, "namespace": self.namespace}
        body = {"metadata": named, "status": encode_object(self.status)}
        self.api.apply(STREAM_WORKERS, body, subresource="status")

    def _renew(self) -> None:
        lease = self.api.get(LEASES, self.namespace, self.name)
        if lease is None:
            return
        spec = {
            "holderIdentity": self.incarnation,
            "leaseDurationSeconds": self.lease_s,
            "renewTime": self.clock(),
        }
        self.api.replace(LEASES, {**lease, "spec": spec})


class FakeWorkers:
    """All workers of a namespace, made as their StreamWorkers appear."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self.kafka: dict[str, Kafka] = {}
        self.reports: dict[str, TopologyReport] = {}
        self.workers: dict[str, FakeWorker] = {}
        self.renew_every_s = 0.0
        self.lease_s = FakeWorker.lease_s
        self.clock: Callable[[], str] = _next_time
        self.contents: dict[str, bytes] = {}
        self.speechless = False
        """None has come so far that it could say anything."""

    def __getitem__(self, name: str) -> FakeWorker:
        return self.workers[name]

    def of(self, app: str) -> Kafka:
        """The Kafka of an application."""
        return self.kafka.setdefault(app, Kafka())

    def step(self) -> None:
        if self.speechless:
            return
        for manifest in self._api.list(STREAM_WORKERS, self._namespace):
            name, app = manifest["metadata"]["name"], manifest["spec"]["app"]
            if name not in self.workers:
                report = self.reports.get(app) or topology(app)
                self.workers[name] = FakeWorker(
                    self._api,
                    self._namespace,
                    name,
                    self.of(app),
                    report,
                    lease_s=self.lease_s,
                    renew_every_s=self.renew_every_s,
                    clock=self.clock,
                    contents=self.contents,
                )
        for worker in list(self.workers.values()):
            try:
                worker.step()
            except NotFoundError:
                worker.incarnation = ""


def status_of(api: KubeApi, namespace: str, app: str) -> Manifest:
    """The status of a StreamApp; empty if there is none."""
    found = api.get(STREAM_APPS, namespace, app)
    return {} if found is None else found.get("status") or {}


def condition_in(status: Manifest, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty if it is not there."""
    for each in status.get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["reason"], each["message"]
    return "", "", ""


def held_by(api: KubeApi, namespace: str, app: str) -> dict[str, list[str]]:
    """Which tasks each StreamWorker's spec grants."""
    found = api.list(STREAM_WORKERS, namespace, labels=of_app(app))
    return {
        each["metadata"]["name"]: [str(task) for task in each["spec"].get("active", ())]
        for each in found
    }


def names(found: Iterable[Manifest]) -> list[str]:
    """Names of objects, sorted."""
    return sorted(each["metadata"]["name"] for each in found)
