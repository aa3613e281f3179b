"""What was seen of one application on a cluster, as values: what observe reads and act needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from headwater.model import resetting
from headwater.model.appstatus import AppStatus
from headwater.model.cluster import generation_of
from headwater.model.lifecycle import Engine
from headwater.model.podcontract import HTTP_PORT
from headwater_operator.decide.limits import LOOK_AGAIN_ON_A_CLUSTER_MS
from headwater_operator.decide.observed import RESET_NOW, DriverView, Intent, Observed, ProcessState
from headwater_operator.manifests.driver import started_from
from headwater_operator.manifests.names import (
    EXECUTOR_COMPONENT,
    WORKER_COMPONENT,
    driver_name,
    pod_selector,
)
from headwater_operator.manifests.storage import bytes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.cluster import Lease
    from headwater.model.streamapp import StreamApp
    from headwater_operator.decide.observed import WorkerView
    from headwater_operator.decide.streamactions.asked import ActionView
    from headwater_operator.manifests.names import Owner
    from headwater_operator.status import Problem

_STUCK: Final = frozenset({"ImagePullFailed", "ContainerFailed"})
"""Reasons of problems that no Secret, volume or node that comes later can mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A pod of a worker, of Spark's driver, or of one of its executors.

    Attributes:
        worker: whose; the name of the pod.
        uid: tells it from another pod of the same name.
        revision: of the specification it was made from.
        state: of the process in it.
        node: where it runs; empty while it is not scheduled.
        is_deleting: its deletion was asked for.
        grace_s: how long it may take to end, once its deletion was asked for.
        has_begun: its container has been started.
        ended: how its container ended; empty while it has not.
        problem: why its container cannot be started, if the pod says so.
        labels: of the place where it runs, by topology key; empty while it is not scheduled.
        address: its own in the cluster's network; empty while it has none.
        is_ready: as Kubernetes counts it.
        has_started: its start-up probe has succeeded.
        awaited: the container before its own that is waited for; empty if none is.
        beside: what is wrong with a container beside its own, which runs all the same.
        others_running: names of the containers that run beside its own.
    """

    worker: str
    uid: str
    revision: str = ""
    state: ProcessState = ProcessState.RUNNING
    node: str = ""
    is_deleting: bool = False
    grace_s: int = 0
    has_begun: bool = False
    ended: str = ""
    problem: Problem | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    is_ready: bool = False
    has_started: bool = False
    awaited: str = ""
    beside: Problem | None = None
    others_running: tuple[str, ...] = ()

    @property
    def endpoint(self) -> str:
        """``host:port`` where its worker serves HTTP; empty while it has no address.

        By the address that the kubelet has reported: what a worker says of itself would let it
        choose whom the operator calls.
        """
        if not self.address:
            return ""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{HTTP_PORT}"

    @property
    def waits_for(self) -> str:
        """Why its process has not begun; empty once it has."""
        if self.has_begun or self.state.is_proof_of_end:
            return ""
        if self.problem is not None:
            return self.problem.message
        if not self.node:
            return "a node"
        return self.awaited or "its container to be created"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What identifies an object that was read.

    Attributes:
        uid: tells it from another one of the same name.
        version: changes with every write.
        is_annotated: whether it has any annotation.
        labels: those it is to have, if some of ours are missing.
    """

    uid: str
    version: str
    is_annotated: bool = True
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A worker's claim.

    Attributes:
        name: its name.
        uid: tells it from another one of the same name.
        version: resource version it was read at.
        is_annotated: it has annotations.
        application_id: whose state lies on the volume.
        is_deleting: its deletion was asked for.
        is_bound: there is a volume.
        is_owned: it goes with the StreamApp.
        restored_by: uid of the StreamAction that has made it from a VolumeSnapshot.
        volume: the name of the volume; empty while there is none.
        storage_class: what the volume is made by; empty if none is named.
        requested: how much it is to hold, in bytes.
        capacity: how much it holds, in bytes; 0 while that is not known.
        labels: all of them.
        annotations: all of them.
    """

    name: str
    uid: str
    version: str = ""
    is_annotated: bool = True
    application_id: str = ""
    is_deleting: bool = False
    is_bound: bool = False
    is_owned: bool = False
    restored_by: str = ""
    volume: str = ""
    storage_class: str = ""
    requested: int = 0
    capacity: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def lacking(
        self, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return those of the wanted labels and annotations that it does not have."""
        return (
            {key: value for key, value in labels.items() if self.labels.get(key) != value},
            {
                key: value
                for key, value in annotations.items()
                if self.annotations.get(key) != value
            },
        )


def mark_of(metadata: Mapping[str, Any]) -> str:
    """Return what tells that somebody has changed a StreamApp: not its status, which we write."""
    read = ("uid", "generation", "annotations", "finalizers", "deletionTimestamp")
    return json.dumps([metadata.get(name) for name in read], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppView:
    """One application as it was read.

    Attributes:
        owner: the StreamApp as the owner of everything else.
        stored: identifies the StreamApp.
        generation: of its specification.
        mark: changes with everything of its metadata that is read (``mark_of``).
        created: when it was created.
        has_finalizer: whether ours is on it.
        finalizers: all of them.
        is_deleting: its deletion was asked for.
        is_paused: the operator is to look on.
        is_resetting: a reset was asked for, and is not done.
        reset_to: where the application begins then (``headwater.model.resetting``).
        scaled_by: which other autoscaler has written ``spec.replicas`` last; empty if none has.
        shifts: how many resets have shifted offsets: the same wish may come again.
        reset_action: the StreamAction that asks for the reset, if no annotation does.
        stop_action: the StreamAction because of which all workers are to end.
        unclear_reset: why the annotation that asks for a reset is not followed.
        app: with everything filled in; of the last specification that could be used, if the present
            one cannot. ``None`` if there is none.
        spec_problem: why the present specification cannot be used.
        revision: of ``app``.
        rolled_back: why ``app`` is not what is wanted, but what was ready before.
        status: as last written.
        workers: StreamWorkers with Lease and process.
        stored_workers: identifies each.
        pods: by worker.
        driver_pod: of Spark's driver.
        driver: what is known of the driver without asking it.
        executors: pods that the driver has made.
        claims: by worker.
        leases: workers that have a Lease object, held or not.
        actions: StreamActions about it, in the order of their creation.
    """

    owner: Owner
    stored: Stored
    generation: int = 1
    mark: str = ""
    created: str = ""
    has_finalizer: bool = False
    finalizers: tuple[str, ...] = ()
    is_deleting: bool = False
    is_paused: bool = False
    is_resetting: bool = False
    reset_to: str = RESET_NOW
    scaled_by: str = ""
    shifts: int = 0
    reset_action: ActionView | None = None
    stop_action: ActionView | None = None
    unclear_reset: Problem | None = None
    app: StreamApp | None = None
    spec_problem: Problem | None = None
    revision: str = ""
    rolled_back: Problem | None = None
    status: AppStatus = field(default_factory=AppStatus)
    workers: tuple[WorkerView, ...] = ()
    stored_workers: Mapping[str, Stored] = field(default_factory=dict)
    pods: Mapping[str, PodView] = field(default_factory=dict)
    driver_pod: PodView | None = None
    driver: DriverView = field(default_factory=DriverView)
    executors: tuple[PodView, ...] = ()
    claims: Mapping[str, ClaimView] = field(default_factory=dict)
    leases: frozenset[str] = frozenset()
    actions: tuple[ActionView, ...] = ()

    def observed(self, generation: int, *, minute: int, clock: str = "") -> Observed:
        """Return what the decision is made from.

        Args:
            generation: of this operator's leadership.
            minute: the time of day, in minutes since 1970.
            clock: the time of day, as Kubernetes writes it.
        """
        assert self.app is not None
        status = self.status
        if self.is_resetting or status.observed_generation != self.generation:
            # The specification has changed: what was final is tried once more.
            status = replace(status, failure=None)
        return Observed(
            app=self.app,
            generation=generation,
            intent=self.intent,
            # Another value of the annotation is another request.
            request=self._request,
            reset_to=self.reset_to,
            workers=self.workers,
            driver=self.driver,
            status=status,
            revision=self.revision,
            failed_revision=self.status.revision.failed if self.rolled_back is not None else "",
            started_from=self.driver_digest,
            hour=minute // 60,
            minute=minute,
            scaled_by=self.scaled_by,
            look_again_ms=LOOK_AGAIN_ON_A_CLUSTER_MS,
            actions=self.actions,
            clock=clock,
            driver_log=(
                f"its log went with its pod, `kubectl logs {driver_name(self.app.name)} "
                f"--namespace {self.owner.namespace}` shows what the next one does"
            ),
        )

    @property
    def _request(self) -> int:
        """What tells one reset from another; 0 if none is asked for."""
        asking = self.reset_action or (None if self.is_resetting else self.stop_action)
        if asking is not None:
            return 1 + crc32(asking.uid.encode())
        return 1 + self.shifts + crc32(self.reset_to.encode()) if self.is_resetting else 0

    def with_wishes(self, clock: str) -> AppView:
        """Return this with the reset or stop that a StreamAction asks for.

        A reset that an annotation asks for goes first.
        """
        stops = [view for view in self.actions if view.asks_for_stop(clock)]
        if stops:
            return replace(self, stop_action=stops[0])
        asked = [view for view in self.actions if view.asks_for_reset(clock)]
        if self.is_resetting or not asked:
            return self
        part = asked[0].spec.reset
        to = part.to if part is not None else RESET_NOW
        return replace(
            self,
            is_resetting=True,
            reset_action=asked[0],
            reset_to=str(resetting.parse(to)),
        )

    @property
    def intent(self) -> Intent:
        """What is wanted of the application."""
        if self.is_deleting:
            return Intent.DELETE
        if self.is_resetting:
            return Intent.RESET
        return Intent.RUN if self.stop_action is None else Intent.STOP

    @property
    def is_spark(self) -> bool:
        """Whether Spark is to run the application."""
        return self.app is not None and self.app.spec.engine is Engine.SPARK

    @property
    def driver_digest(self) -> str:
        """What a driver would be started from now."""
        return started_from(self.app) if self.app is not None and self.is_spark else ""

    @property
    def updated(self) -> int:
        """How many workers and executors are as the specification wants them."""
        workers = [
            pod
            for pod in self.pods.values()
            if pod.revision == self.revision and not pod.state.is_proof_of_end
        ]
        driver = self.driver
        if not self.is_spark or driver.started_from != self.driver_digest:
            return len(workers)
        there = driver.executors_there
        return len(workers) + (driver.executors if there is None else there)

    @property
    def outdated(self) -> tuple[str, ...]:
        """The pods with a process of another revision than the wanted one."""
        workers = [
            name
            for name, pod in sorted(self.pods.items())
            if pod.revision not in ("", self.revision) and not pod.state.is_proof_of_end
        ]
        driver = self.driver
        is_old = driver.started_from not in ("", self.driver_digest)
        if self.is_spark and is_old and not driver.process.is_proof_of_end:
            return (*workers, driver_name(self.owner.name))
        return tuple(workers)

    @property
    def is_stuck(self) -> bool:
        """Whether a pod of the wanted revision waits for what only a new one can bring."""
        return any(
            pod.problem is not None and pod.problem.reason in _STUCK
            for name, pod in self.every_pod.items()
            if name not in self.outdated
        )

    @property
    def too_small(self) -> tuple[ClaimView, ...]:
        """The claims of workers that ask for less than the specification does."""
        if self.app is None:
            return ()
        wanted = bytes_of(self.app.spec.state.size)
        claims = (self.claims.get(worker) for worker in sorted(self.stored_workers))
        return tuple(
            claim
            for claim in claims
            if claim is not None
            and claim.is_bound
            and not claim.is_deleting
            and claim.requested < wanted
        )

    @property
    def growing(self) -> str:
        """The claims with a pod whose volume holds less than they ask for; empty if there is none.

        A volume that no pod mounts may grow only when one mounts it again, which may never be.
        """
        return " ".join(
            claim.name
            for worker, claim in sorted(self.claims.items())
            if worker in self.pods and 0 < claim.capacity < claim.requested
        )

    @property
    def selector(self) -> str:
        """Selects the pods that ``replicas`` counts, for autoscalers."""
        component = EXECUTOR_COMPONENT if self.is_spark else WORKER_COMPONENT
        return pod_selector(self.owner.name, component)

    @property
    def own_pods(self) -> Mapping[str, PodView]:
        """The pods that the operator has made, by name."""
        driver = self.driver_pod
        return {**self.pods, **({} if driver is None else {driver.worker: driver})}

    @property
    def every_pod(self) -> Mapping[str, PodView]:
        """All pods of the application, by name."""
        return {**self.own_pods, **{pod.worker: pod for pod in self.executors}}

    @property
    def highest_generation(self) -> int:
        """The highest generation of a leadership in any epoch that is in use."""
        return generation_of(
            max(
                self.status.assignment_epoch,
                *(view.worker.spec.epoch for view in self.workers),
                *(view.worker.status.acknowledged_epoch for view in self.workers),
                0,
            )
        )

    def with_leases(self, leases: Mapping[str, Lease | None]) -> AppView:
        """Return the same with Leases that were read later."""
        workers = tuple(
            replace(view, lease=leases.get(view.worker.name, view.lease)) for view in self.workers
        )
        return replace(self, workers=workers)
