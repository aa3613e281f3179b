"""StreamActions in the rounds of their StreamApps, and those that nothing can be decided about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.model.streamaction import ActionType
from headwater.model.streamaction_status import ActionPhase, seconds_between
from headwater_operator.act.streamactions import carry_out, delete_expired, write_rulings
from headwater_operator.decide.streamactions.ruling import (
    CANCELLED,
    Ruling,
    ended,
    waiting,
    written,
)
from headwater_operator.decide.streamactions.standing import complete
from headwater_operator.kube.errors import AlreadyExistsError, ForbiddenError, InvalidError
from headwater_operator.observe.streamactions import read_actions
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.streamaction_status import StreamActionStatus
    from headwater_operator.act.events import Herald
    from headwater_operator.act.gate import Gate
    from headwater_operator.decide import Decision
    from headwater_operator.decide.streamactions.asked import ActionView
    from headwater_operator.decide.streamactions.objects import Work
    from headwater_operator.handlers.leases import Key
    from headwater_operator.kube.api import KubeApi
    from headwater_operator.views import AppView

_PATIENCE_S: Final = 60
"""An action may be created so long before its StreamApp."""
_AGAIN_MS: Final = 5_000
_NEVER: Final = -1


class Actions:
    """Sees to the StreamActions of StreamApps.

    Args:
        api: the API server.
        gate: passed before every write.
        clock: the time of day.
    """

    def __init__(self, api: KubeApi, gate: Gate, clock: Callable[[], str]) -> None:
        self._api = api
        self._gate = gate
        self._clock = clock
        self._refused: dict[str, str] = {}
        """By uid of the action, what the API server answered last."""

    def remembered(self, view: AppView) -> AppView:
        """Return a StreamApp whose actions know what the API server has refused them."""
        open_uids = {each.uid for each in _open(view.actions)}
        found = {uid: said for uid, said in self._refused.items() if uid in open_uids}
        if not found:
            return view
        actions = tuple(
            replace(each, objects=replace(each.objects, refusal=found.get(each.uid, "")))
            for each in view.actions
        )
        return replace(view, actions=actions)

    def are_due(self, view: AppView, decision: Decision) -> bool:
        """Whether anything is to be written about them, or done for them, now."""
        clock = self._clock() if view.actions else ""
        return bool(decision.rulings or decision.work) or any(
            each.is_expired(clock) for each in view.actions
        )

    def write(self, view: AppView, decision: Decision, herald: Herald) -> bool:
        """Write what was decided, then do what they need done; return whether there was anything.

        Raises:
            OutdatedDecisionError: an action has changed, or is gone.
        """
        if not view.actions:
            return False
        namespace = view.owner.namespace
        self._write(namespace, view.actions, decision.rulings)
        _tell(herald, view, decision.rulings)
        uids = {each.name: each.uid for each in view.actions}
        for ruling in decision.rulings:
            if ruling.status.phase.is_final:
                self._refused.pop(uids[ruling.name], None)
        did = False
        for work in decision.work:
            did = self._carry_out(view, work, herald) or did
        return self._delete(namespace, view.actions) or did or bool(decision.rulings)

    def _carry_out(self, view: AppView, work: Work, herald: Herald) -> bool:
        """Do one thing; return whether it was done.

        A refusal is the affair of that action alone: its conditions say so, it is tried again until
        the action ends, and the control loop of the application goes on.
        """
        try:
            did = carry_out(self._api, self._gate, view, (work,))
        except (AlreadyExistsError, ForbiddenError, InvalidError) as error:
            if self._refused.get(work.made_for) != str(error):
                self._refused[work.made_for] = str(error)
                herald.warn(Problem(reason="ActionRefused", message=str(error)))
            return False
        self._refused.pop(work.made_for, None)
        return did

    def hold(self, view: AppView, reason: str, why: str) -> None:
        """Let them wait: nothing can be decided about their StreamApp now."""
        clock = self._clock()
        found = []
        for each in _open(view.actions):
            if each.action is not None and each.spec.cancel and not each.is_running:
                status = ended(each, CANCELLED, "it was cancelled before it was begun", clock)
            else:
                status = waiting(each, reason, why, clock)
            found.append((each, status))
        self._write(view.owner.namespace, view.actions, _changed(found))

    def end(self, view: AppView, why: str) -> None:
        """End them: their StreamApp is being deleted."""
        clock = self._clock()
        found = [
            (each, ended(each, "ApplicationDeleted", why, clock)) for each in _open(view.actions)
        ]
        self._write(view.owner.namespace, view.actions, _changed(found))

    def complete(self, view: AppView, action: ActionView, message: str) -> None:
        """Say that an action is done.

        Raises:
            OutdatedDecisionError: it has changed, or is gone.
        """
        status = written(action, complete(message), self._clock())
        ruling = Ruling(name=action.name, status=status)
        self._write(view.owner.namespace, (action,), (ruling,))

    def of_none(self, key: Key, view: AppView | None) -> int:
        """See to those whose StreamApp does not exist.

        Args:
            key: of the StreamApp.
            view: what is left of it.

        Returns:
            after how many milliseconds to come back.
        """
        namespace, app = key
        actions = view.actions if view is not None else read_actions(self._api, namespace, app)
        clock = self._clock()
        found = []
        for each in _open(actions):
            if each.is_running:
                said = f"the StreamApp {app} was deleted while its step was {each.status.step}"
                status = ended(each, "ApplicationDeleted", said, clock)
            elif seconds_between(each.created, clock) < _PATIENCE_S:
                said = f"there is no StreamApp {app} in this namespace yet: apply it"
                status = waiting(each, "ApplicationNotFound", said, clock)
            else:
                said = f"there is no StreamApp {app} in this namespace: create both once more"
                status = ended(each, "ApplicationNotFound", said, clock)
            found.append((each, status))
        self._write(namespace, actions, _changed(found))
        self._delete(namespace, actions)
        return _AGAIN_MS if is_of_interest(actions) else _NEVER

    def _write(
        self, namespace: str, actions: tuple[ActionView, ...], rulings: tuple[Ruling, ...]
    ) -> None:
        write_rulings(self._api, self._gate, namespace, actions, rulings)

    def _delete(self, namespace: str, actions: tuple[ActionView, ...]) -> bool:
        return delete_expired(self._api, self._gate, namespace, actions, self._clock())


def is_of_interest(actions: tuple[ActionView, ...]) -> bool:
    """Whether any action is to be read again with every round."""
    return bool(_open(actions)) or any(
        each.action is not None and each.spec.ttl_seconds_after_finished is not None
        for each in actions
    )


def reads_unwatched(actions: tuple[ActionView, ...]) -> bool:
    """Whether an action runs that waits for a Job or a VolumeSnapshot, which nobody watches."""
    return any(
        each.is_running and each.spec.type in (ActionType.BACKFILL, ActionType.SNAPSHOT_VOLUME)
        for each in actions
    )


def _tell(herald: Herald, view: AppView, rulings: tuple[Ruling, ...]) -> None:
    """Tell people of actions that were begun, and of those that have ended."""
    known = {each.name: each for each in view.actions}
    for ruling in rulings:
        before, phase = known[ruling.name], ruling.status.phase
        if phase is before.status.phase or phase is ActionPhase.WAITING:
            continue
        what = before.spec.type if before.action is not None else "StreamAction"
        herald.note(f"Action{phase}", f"{ruling.name} ({what}): {ruling.status.message}")


def _open(actions: tuple[ActionView, ...]) -> list[ActionView]:
    return [view for view in actions if not view.status.phase.is_final]


def _changed(found: list[tuple[ActionView, StreamActionStatus]]) -> tuple[Ruling, ...]:
    return tuple(
        Ruling(name=view.name, status=status) for view, status in found if status != view.status
    )
