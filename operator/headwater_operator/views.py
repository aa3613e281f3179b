"""What was seen of one application on a cluster, as values: what observe reads and act needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.model.appstatus import AppStatus
from headwater.model.cluster import generation_of
from headwater_operator.decide.limits import LOOK_AGAIN_ON_A_CLUSTER_MS
from headwater_operator.decide.observed import Intent, Observed, ProcessState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.cluster import Lease
    from headwater.model.streamapp import StreamApp
    from headwater_operator.decide.observed import WorkerView
    from headwater_operator.manifests.names import Owner
    from headwater_operator.status import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A worker's pod.

    Attributes:
        worker: whose.
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

    @property
    def waits_for(self) -> str:
        """Why its process has not begun; empty once it has."""
        if self.has_begun or self.state.is_proof_of_end:
            return ""
        if self.problem is not None:
            return self.problem.message
        return "its container to be created" if self.node else "a node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What identifies an object that was read.

    Attributes:
        uid: tells it from another one of the same name.
        version: changes with every write.
    """

    uid: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A worker's claim.

    Attributes:
        name: its name.
        uid: tells it from another one of the same name.
        application_id: whose state lies on the volume.
        is_deleting: its deletion was asked for.
        is_bound: there is a volume.
        is_owned: it goes with the StreamApp.
        volume: the name of the volume; empty while there is none.
    """

    name: str
    uid: str
    application_id: str = ""
    is_deleting: bool = False
    is_bound: bool = False
    is_owned: bool = False
    volume: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppView:
    """One application as it was read.

    Attributes:
        owner: the StreamApp as the owner of everything else.
        stored: identifies the StreamApp.
        generation: of its specification.
        created: when it was created.
        has_finalizer: whether ours is on it.
        finalizers: all of them.
        is_deleting: its deletion was asked for.
        is_paused: the operator is to look on.
        app: with everything filled in; of the last specification that could be used, if the present
            one cannot. ``None`` if there is none.
        spec_problem: why the present specification cannot be used.
        revision: of ``app``.
        status: as last written.
        workers: StreamWorkers with Lease and process.
        stored_workers: identifies each.
        pods: by worker.
        claims: by worker.
        leases: workers that have a Lease object, held or not.
    """

    owner: Owner
    stored: Stored
    generation: int = 1
    created: str = ""
    has_finalizer: bool = False
    finalizers: tuple[str, ...] = ()
    is_deleting: bool = False
    is_paused: bool = False
    app: StreamApp | None = None
    spec_problem: Problem | None = None
    revision: str = ""
    status: AppStatus = field(default_factory=AppStatus)
    workers: tuple[WorkerView, ...] = ()
    stored_workers: Mapping[str, Stored] = field(default_factory=dict)
    pods: Mapping[str, PodView] = field(default_factory=dict)
    claims: Mapping[str, ClaimView] = field(default_factory=dict)
    leases: frozenset[str] = frozenset()

    def observed(self, generation: int, *, hour: int) -> Observed:
        """Return what the decision is made from.

        Args:
            generation: of this operator's leadership.
            hour: the time of day, in hours since 1970.
        """
        assert self.app is not None
        status = self.status
        if status.observed_generation != self.generation:
            # The specification has changed: what was final is tried once more.
            status = replace(status, failure=None)
        return Observed(
            app=self.app,
            generation=generation,
            intent=Intent.DELETE if self.is_deleting else Intent.RUN,
            workers=self.workers,
            status=status,
            revision=self.revision,
            hour=hour,
            look_again_ms=LOOK_AGAIN_ON_A_CLUSTER_MS,
        )

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
