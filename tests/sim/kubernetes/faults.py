"""Planted mistakes: one small one each, in the place of one part of the product."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from headwater_operator import status
from headwater_operator.act import workers
from headwater_operator.decide import moving, placing
from headwater_operator.handlers import reconcile
from headwater_operator.handlers.reconcile import App, Reconciler
from headwater_operator.kube.api import CLAIMS, PODS
from headwater_operator.manifests import worker as manifests
from tests.sim.faults import without_fences
from tests.sim.kubernetes.plan import Mistake
from tests.sim.kubernetes.port import Port
from tests.sim.warm import without_copies

if TYPE_CHECKING:
    from collections.abc import Collection

    from headwater.assignor.group import GroupAssignment
    from headwater.model.appstatus import AppStatus
    from headwater.model.cluster import WorkerSpec
    from headwater_operator.actions import Action
    from headwater_operator.decide import Decision, Memory, Observed
    from headwater_operator.decide.scene import Scene
    from headwater_operator.kube.api import Manifest, Resource
    from headwater_operator.status import Facts, Problem
    from headwater_operator.views import AppView
    from tests.sim.kubernetes.operators import Operator
    from tests.support.kube_through import Deletion


class GrantBeforeFence(Mistake):
    """Takes the tasks from a lost worker, and thinks that this is enough."""

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        return without_fences(super().decide(observed, memory, now_ms))


class WarmCopyGivenUp(Mistake):
    """Places copies anew after every loss, and takes them away until then."""

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        return without_copies(observed, super().decide(observed, memory, now_ms))


class ForcedDeletion(Port):
    """Deletes pods with a grace of nothing: they are forgotten, whatever runs in them."""

    def delete(
        self, resource: Resource, namespace: str | None, name: str, **options: Unpack[Deletion]
    ) -> bool:
        if resource is PODS:
            options["grace_s"] = 0
        return super().delete(resource, namespace, name, **options)


class VolumeOfALivingPod(Mistake):
    """Does not wait for the end of a pod before the next one is given its volume."""

    def port(self, operator: Operator) -> Port:
        return ForcedDeletion(operator)


def _untested(spec: WorkerSpec, **stored: Any) -> list[Manifest]:
    patch = manifests.spec_patch(spec, **stored)
    return [operation for operation in patch if operation["op"] != "test"]


class EpochNotChecked(Mistake):
    """Writes a spec whatever epoch is stored, so one that leads no longer may be the last."""

    patches = ((workers, "spec_patch", _untested),)


class ActsFirst(Reconciler):
    """Reports what is being done when it has been done."""

    late: tuple[Any, ...] | None = None

    def _report(
        self, app: App, view: AppView, facts: Facts, actions: tuple[Action, ...] = ()
    ) -> None:
        if actions:
            self.late = (app, view, facts, actions)
        else:
            super()._report(app, view, facts)

    def _carry_out(
        self, app: App, view: AppView, actions: tuple[Action, ...]
    ) -> tuple[Problem, ...]:
        late, self.late = self.late, None
        held_up = super()._carry_out(app, view, actions)
        if late is not None:
            super()._report(*late)
        return held_up


class ActionBeforeIntent(Mistake):
    """Acts, and writes its intent then."""

    reconciler = ActsFirst


class ForgetsClaims(Port):
    """Leaves the deletion of claims to others."""

    def delete(
        self, resource: Resource, namespace: str | None, name: str, **options: Unpack[Deletion]
    ) -> bool:
        if resource is CLAIMS:
            return True
        return super().delete(resource, namespace, name, **options)


class ClaimLeft(Mistake):
    """Volumes that are to go stay for ever."""

    def port(self, operator: Operator) -> Port:
        return ForgetsClaims(operator)


def _of_what_runs(facts: Facts, before: AppStatus, **more: Any) -> AppStatus:
    return status.full_status(replace(facts, outdated=()), before, **more)


class PausedTooEarly(Mistake):
    """Takes the wish for a pause for the pause."""

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        decision = super().decide(observed, memory, now_ms)
        status = replace(decision.status, paused=observed.app.spec.paused)
        return replace(decision, status=status)


class MoveOutsideAWindow(Mistake):
    """Takes every window for open."""

    patches = ((moving, "may_move", lambda *_: True),)


def _with_those_that_go(
    scene: Scene, target: GroupAssignment, _: Collection[str]
) -> tuple[GroupAssignment, moving.Waiting]:
    everybody = [worker.name for worker in scene.workers]
    return moving.hold_back(scene, target, everybody)


class NeededMoveWaits(Mistake):
    """Has a worker that goes keep its tasks until a window opens."""

    patches = ((placing, "hold_back", _with_those_that_go),)


class ReadyTooEarly(Mistake):
    """Says that all is well because every task runs, from whatever revision."""

    patches = ((reconcile, "full_status", _of_what_runs),)
