"""StreamApps in all kinds of situations, with the status that the operator's own code writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import yaml

from headwater.model.appstatus import AppStatus, Failure, TaskCounts
from headwater.model.cluster import make_epoch
from headwater.model.lifecycle import ClientState
from headwater_operator.rollout import Roll
from headwater_operator.status import Facts, Problem, full_status
from tests.support.documents import MINIMAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kube.definitions import Resources

NOW = "2030-01-01T00:00:00Z"
SELECTOR = "headwater.dev/app={name},app.kubernetes.io/component=worker"
EPOCH = make_epoch(1, 5)
RUNNING = AppStatus(
    state=ClientState.RUNNING,
    reason="all 8 tasks run",
    assignment_epoch=EPOCH,
    replicas=2,
    ready_replicas=2,
    tasks=TaskCounts(total=8, running=8),
)


@dataclass(frozen=True, slots=True)
class Situation:
    """A StreamApp and how it is.

    Attributes:
        name: of the StreamApp: the situation in a word.
        facts: what the operator knows; ``None`` if it has not looked at it yet.
        spec: fields that differ from those of the minimal StreamApp with two workers.
        before: its status before.
    """

    name: str
    facts: Facts | None
    spec: dict[str, Any] = field(default_factory=dict)
    before: AppStatus = field(default_factory=AppStatus)

    @property
    def body(self) -> dict[str, Any]:
        """The StreamApp as it is applied."""
        body: dict[str, Any] = yaml.safe_load(MINIMAL)
        body["metadata"]["name"] = self.name
        body["spec"] |= {"replicas": 2, **self.spec}
        return body

    @property
    def status(self) -> dict[str, object] | None:
        """What the operator writes."""
        return None if self.facts is None else status(self.name, self.facts, self.before)


def status(name: str, facts: Facts, before: AppStatus | None = None) -> dict[str, object]:
    """Return a status as the operator writes it."""
    return full_status(
        facts,
        before or AppStatus(),
        selector=SELECTOR.format(name=name),
        updated=facts.decided.replicas - len(facts.roll.outdated),
        now=NOW,
    ).to_dict()


def apply_all(stream_apps: Resources) -> None:
    """Have all situations in a namespace."""
    for situation in SITUATIONS:
        stream_apps.create(situation.body)
        if situation.status is not None:
            stream_apps.write_status(situation.name, situation.status)


def facts_of(decided: AppStatus, **more: Any) -> Facts:
    """Return what the operator knows of an application that is to have two workers."""
    revision = "5c1ab2"
    known = {"generation": 1, "wanted": 2, "revision": revision, "serving": revision}
    return Facts(**{**known, "decided": decided, **more})


def _settled() -> AppStatus:
    return full_status(facts_of(RUNNING), AppStatus(), selector="", updated=2, now=NOW)


def _restoring(**tasks: int) -> AppStatus:
    counts = TaskCounts(total=8, **tasks)
    said = f"of 8 tasks {counts.running} run, {counts.restoring} start or restore"
    state = ClientState.REBALANCING
    return replace(RUNNING, state=state, reason=said, ready_replicas=1, tasks=counts)


_STOPPED = AppStatus(
    state=ClientState.NOT_RUNNING,
    reason="stopped: every slot is closed or fenced",
    assignment_epoch=EPOCH,
    tasks=TaskCounts(total=8, unassigned=8),
)
_IMPORT = "No module named 'shop'; build the module into the image, or correct spec.topology.module"
_PULL = "starting-w-0: ErrImagePull: not found; correct spec.image, or name spec.imagePullSecrets"
_TIMEOUT = "rolling-w-0 did not become ready within 900 s; look at its log"

SITUATIONS: Sequence[Situation] = (
    Situation(
        "failed",
        facts_of(
            AppStatus(
                state=ClientState.ERROR,
                reason=_IMPORT,
                failure=Failure(
                    error="ImportPathError", message=_IMPORT, worker="failed-w-0", is_final=True
                ),
            )
        ),
    ),
    Situation(
        "halted",
        facts_of(
            RUNNING,
            outdated=("halted-w-1",),
            roll=Roll(outdated=("halted-w-1",), halted=_TIMEOUT),
        ),
    ),
    Situation(
        "invalid",
        facts_of(
            RUNNING,
            spec_problem=Problem(
                reason="InvalidSpec",
                message="spec.topology.configMapRef: there is no ConfigMap 'code'; create it",
            ),
        ),
    ),
    Situation(
        "moving", facts_of(_restoring(running=6, restoring=2), unsettled_ms=900), before=_settled()
    ),
    Situation("new", None),
    Situation(
        "restoring",
        facts_of(_restoring(running=5, restoring=3), unsettled_ms=60_000),
        before=_settled(),
    ),
    Situation("running", facts_of(RUNNING)),
    Situation(
        "starting",
        facts_of(
            AppStatus(reason="no worker is ready yet", replicas=2),
            problems=(Problem(reason="ImagePullFailed", message=_PULL),),
        ),
    ),
    Situation("stopped", facts_of(_STOPPED, wanted=0), spec={"replicas": 0}),
    Situation("suspended", facts_of(_STOPPED, wanted=0, is_suspended=True), spec={"suspend": True}),
    Situation(
        "too-wide",
        facts_of(replace(RUNNING, replicas=12, ready_replicas=12), wanted=12),
        spec={"replicas": 12},
    ),
)
