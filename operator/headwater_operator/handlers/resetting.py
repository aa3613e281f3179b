"""The end of a reset that was asked for with an annotation, or with a StreamAction.

    annotation ─► workers end ─► one does the duty ─► workers and claims go ─► annotation goes

The last step is that the StreamAction is Complete, if there is one. Whoever is killed before it
finds the wish, and resets once more what is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.decide import Memory

if TYPE_CHECKING:
    from headwater_operator.act.events import Herald
    from headwater_operator.handlers.app import App
    from headwater_operator.handlers.streamactions import Actions
    from headwater_operator.views import AppView


def end_reset(app: App, view: AppView, herald: Herald, actions: Actions) -> tuple[str, int]:
    """Say that it is done; return how the round ended, and the pause.

    What lay on volumes is thrown away, too: those that no worker has any more go here.

    Raises:
        OutdatedDecisionError: the StreamApp, or the StreamAction, has changed.
    """
    app.upkeep.delete_claims(view)
    if view.reset_action is not None:
        actions.complete(view, view.reset_action, "offsets and internal topics are deleted")
    else:
        app.upkeep.end_reset(view)
    # The next request for a reset is another one.
    app.memory = Memory()
    app.is_dirty = True
    herald.note("Reset", "offsets and internal topics are deleted; it begins anew")
    return "acted", 0
