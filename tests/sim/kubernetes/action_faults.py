"""Planted mistakes about StreamActions: one small one each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.streamaction import ActionType
from headwater.model.streamaction_status import ActionPhase
from headwater_operator.decide.streamactions import backfill, ruling
from headwater_operator.decide.streamactions.asked import ActionView, digest_of
from headwater_operator.decide.streamactions.backfill import go_on as backfill_goes_on
from headwater_operator.decide.streamactions.objects import BACKFILLING, STOPPING
from tests.sim.kubernetes.plan import Mistake

if TYPE_CHECKING:
    from headwater_operator.decide import Decision, Memory, Observed
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.standing import Standing


class RestartsByName(Mistake):
    """Restarts whatever process a worker has, not the one that was there when it was begun."""

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        now = tuple(sorted(digest_of(each.process_id) for each in observed.workers))
        actions = tuple(
            replace(each, written=replace(each.written, processes=now))
            if each.written.processes
            else each
            for each in observed.actions
        )
        return super().decide(replace(observed, actions=actions), memory, now_ms)


def _nobody(*_: object) -> None:
    """Nothing is in the way of anything."""


class NobodyWaits(Mistake):
    """Begins every action at once."""

    patches = ((ruling, "first_in_the_way", _nobody),)


def _asks_for_ever(view: ActionView, _: str) -> bool:
    is_meant = view.action is not None and view.spec.type is ActionType.RESET
    return is_meant and view.status.phase in (ActionPhase.RUNNING, ActionPhase.COMPLETE)


def _at_once(scene: Scene, view: ActionView) -> Standing:
    found = backfill_goes_on(scene, view)
    return replace(found, step=BACKFILLING) if found.step == STOPPING else found


class ResetsTwice(Mistake):
    """Carries a reset out once more after it was complete."""

    patches = ((ActionView, "asks_for_reset", _asks_for_ever),)


class JobBesideWorkers(Mistake):
    """Lets the Job of a backfill run although workers have not ended."""

    patches = ((backfill, "go_on", _at_once),)


class LostWithItsLeader(Mistake):
    """Goes on only with actions that this very leader has begun."""

    def __init__(self) -> None:
        self.begun: set[tuple[int, str]] = set()

    def decide(self, observed: Observed, memory: Memory, now_ms: int) -> Decision:
        def is_known(each: ActionView) -> bool:
            return not each.is_running or (observed.generation, each.uid) in self.begun

        known = tuple(filter(is_known, observed.actions))
        decision = super().decide(replace(observed, actions=known), memory, now_ms)
        if len(known) < len(observed.actions):
            # What it does not know of is in the way of all others.
            running = {each.name for each in known if each.is_running}
            rulings = tuple(each for each in decision.rulings if each.name in running)
            decision = replace(decision, rulings=rulings)
        uids = {each.name: each.uid for each in known}
        self.begun |= {(observed.generation, uids[each.name]) for each in decision.rulings}
        return decision
