"""What all workers of an application share: made before the first one starts, kept from then on.

Nobody tells of it when a Role or a PodDisruptionBudget is deleted: watching five more kinds of all
namespaces would cost more than applying them again now and then. And a worker without its Role
cannot renew its Lease: one that falls silent is reason enough to do it at once, before the worker
is taken for lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.act.gate import HeldUpError
from headwater_operator.actions import Reason
from headwater_operator.decide.judge import is_quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater_operator.act.upkeep import Upkeep
    from headwater_operator.actions import Action
    from headwater_operator.decide import Memory
    from headwater_operator.status import Problem
    from headwater_operator.views import AppView

_SILENCE: Final = (Reason.WORKER_LOST, Reason.SILENT, Reason.NEVER_REPORTED)


def is_in_doubt(view: AppView, memory: Memory, now_ms: int, actions: Sequence[Action] = ()) -> bool:
    """Whether a worker seems to be kept from renewing its Lease.

    Args:
        view: the application.
        memory: of its workers' Leases.
        now_ms: of the clock that Leases are judged by.
        actions: what was decided; a worker may have been taken for lost.
    """
    return any(action.reason in _SILENCE for action in actions) or any(
        is_quiet(each, memory.of(each.worker.name), now_ms) for each in view.workers
    )


def is_needed(view: AppView) -> bool:
    """Whether there are workers, or are to be."""
    return bool(view.pods) or (view.app is not None and view.app.wanted_workers > 0)


def share(upkeep: Upkeep, view: AppView, now_ms: int, *, is_doubted: bool) -> tuple[Problem, ...]:
    """Apply what workers share, if there are any or are to be; return what stands in the way."""
    if not is_needed(view):
        return ()
    try:
        upkeep.share(view, now_ms, is_doubted=is_doubted)
    except HeldUpError as error:
        return (error.problem,)
    return ()
