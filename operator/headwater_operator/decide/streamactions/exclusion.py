"""Which actions of one application exclude each other; the one that was created later waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.streamaction import ActionType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater_operator.decide.streamactions.asked import ActionView

_ALL: Final = frozenset(ActionType)
_PLACES: Final = frozenset(
    {
        ActionType.DRAIN_WORKER,
        ActionType.MOVE_TASK,
        ActionType.RESTART,
        ActionType.RESTORE_VOLUME,
    }
)
"""Those that move tasks, or end processes."""

EXCLUDES: Final[Mapping[ActionType, frozenset[ActionType]]] = {
    ActionType.RESET: _ALL,
    ActionType.BACKFILL: _ALL,
    ActionType.DRAIN_WORKER: _PLACES | {ActionType.RESET, ActionType.BACKFILL},
    ActionType.RESTART: _PLACES | {ActionType.RESET, ActionType.BACKFILL},
    ActionType.RESTORE_VOLUME: (
        _PLACES | {ActionType.RESET, ActionType.BACKFILL, ActionType.SNAPSHOT_VOLUME}
    ),
    ActionType.MOVE_TASK: (
        (_PLACES - {ActionType.MOVE_TASK}) | {ActionType.RESET, ActionType.BACKFILL}
    ),
    ActionType.SNAPSHOT_VOLUME: frozenset(
        {ActionType.RESET, ActionType.BACKFILL, ActionType.RESTORE_VOLUME}
    ),
}
"""By type: those of which none may run at the same time. Two moves of one task exclude each other,
too."""


def excludes(one: ActionView, other: ActionView) -> bool:
    """Whether two actions may not run at the same time."""
    if other.spec.type in EXCLUDES[one.spec.type]:
        return True
    moves = one.spec.move_task, other.spec.move_task
    return moves[0] is not None and moves[1] is not None and moves[0].task == moves[1].task


def first_in_the_way(view: ActionView, others: Iterable[ActionView]) -> ActionView | None:
    """Return what an action that was not begun waits for: what runs, or was created before it."""
    in_the_way = [
        other
        for other in others
        if other.uid != view.uid
        and other.action is not None
        and not other.status.phase.is_final
        and (other.is_running or other.turn < view.turn)
        and excludes(view, other)
    ]
    return min(in_the_way, key=lambda other: (not other.is_running, other.turn), default=None)
