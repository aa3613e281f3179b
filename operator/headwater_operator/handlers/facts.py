"""What is known about a StreamApp when its status is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.lifecycle import ClientState
from headwater.model.streamapp import OnFailure
from headwater_operator.decide.autoscaling.owner import wanted_workers
from headwater_operator.handlers.problems import by_hand, pod_problems
from headwater_operator.handlers.waiting import has_waited
from headwater_operator.observe.rollon import changed_names, missing
from headwater_operator.status import Facts

if TYPE_CHECKING:
    from headwater.model.appstatus import AppStatus
    from headwater_operator.handlers.app import App
    from headwater_operator.rollout import Roll
    from headwater_operator.views import AppView


def facts_of(
    app: App, view: AppView, decided: AppStatus, roll: Roll, now_ms: int, *, waited_ms: int
) -> Facts:
    """Return the facts; notes since when not every task has been running.

    Args:
        app: what is remembered of it.
        view: as it was read.
        decided: its status, as the decision has it.
        roll: how far a rolling change has come.
        now_ms: of the clock of its decisions.
        waited_ms: of the clock by which containers that wait are known.
    """
    if decided.state is ClientState.RUNNING:
        app.unsettled_since = None
    elif app.unsettled_since is None:
        app.unsettled_since = now_ms
    since = app.unsettled_since
    pods, volumes = pod_problems(view, has_waited=has_waited(app, waited_ms))
    asked = [told.problem for told in app.asked]
    return Facts(
        generation=view.generation,
        decided=decided,
        wanted=wanted_workers(view.app, decided) if view.app is not None else 0,
        is_suspended=(view.app is not None and view.app.spec.suspend and view.spec_problem is None),
        is_resetting=view.is_resetting,
        is_paused=view.is_paused,
        is_to_pause=(view.app is not None and view.app.spec.paused and view.spec_problem is None),
        is_deleting=view.is_deleting,
        spec_problem=view.spec_problem,
        rolled_back=view.rolled_back,
        is_to_roll_back=(
            view.app is not None and view.app.spec.upgrade.on_failure is OnFailure.ROLL_BACK
        ),
        problems=(
            *app.refused,
            *pods,
            *asked,
            *volumes,
            *app.obstacles,
            *by_hand(view),
            *missing(view),
        ),
        roll=roll,
        revision=view.revision,
        serving=app.status.revision.last_stable,
        outdated=view.outdated,
        changed=changed_names(view),
        is_stuck=view.is_stuck,
        growing=view.growing,
        standby_replicas=(view.app.spec.assignment.standby_replicas if view.app is not None else 0),
        unsettled=app.unsettled,
        waits_for=app.waits_for,
        is_importing=bool(app.importing),
        held_back=app.held_back,
        unsettled_ms=0 if since is None else now_ms - since,
    )
