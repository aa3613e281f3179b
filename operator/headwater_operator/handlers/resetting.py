"""The end of a reset that was asked for with an annotation.

    annotation ─► workers end ─► one does the duty ─► workers and claims go ─► annotation goes

Whoever is killed before the last step finds the annotation, and resets once more what is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.decide import Memory

if TYPE_CHECKING:
    from headwater_operator.act.events import Herald
    from headwater_operator.handlers.app import App
    from headwater_operator.views import AppView


def end_reset(app: App, view: AppView, herald: Herald) -> tuple[str, int]:
    """Take the annotation away; return how the round ended, and the pause.

    What lay on volumes is thrown away, too: those that no worker has any more go here.

    Raises:
        OutdatedDecisionError: the StreamApp has changed.
    """
    app.upkeep.delete_claims(view)
    app.upkeep.end_reset(view)
    # The next request for a reset is another one.
    app.memory = Memory()
    app.is_dirty = True
    herald.note("Reset", "offsets and internal topics are deleted; it begins anew")
    return "acted", 0
