"""Reset: what the annotation ``headwater.dev/reset`` does, with the same texts.

While it runs, the intent is to reset. It is complete when the duty was answered, and StreamWorkers
and volumes are gone: only whoever deletes these knows (``handlers.resetting``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.errors import ResetError
from headwater.model import resetting
from headwater_operator.decide.observed import Intent
from headwater_operator.decide.streamactions.standing import Standing, failed, runs, waits

if TYPE_CHECKING:
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.asked import ActionView

STEP: Final = "Resetting"


def begin(scene: Scene, view: ActionView) -> Standing:
    """See whether it says where to begin."""
    try:
        to = resetting.parse(view.spec.reset.to if view.spec.reset is not None else "now")
    except ResetError as error:
        return failed("ResetNotUnderstood", f"spec.reset.to: {error}. Nothing is reset")
    if scene.intent is Intent.RESET:
        return waits("WaitsForAnother", "the annotation headwater.dev/reset has its reset first")
    return runs(STEP, f"workers end, then the application is reset to {to}")


def go_on(scene: Scene) -> Standing:
    """Tell how far it has come."""
    if scene.failure is not None and not scene.failure.is_final:
        return runs(STEP, scene.failure.message)
    left = [worker.name for worker in scene.workers if not worker.has_ended]
    if not scene.memory.reset_done:
        who = f"; {' '.join(left)} {'has' if len(left) == 1 else 'have'} a process" if left else ""
        return runs(STEP, f"offsets and internal topics are to be deleted{who}")
    return runs(STEP, "offsets and internal topics are deleted; workers and volumes go")
