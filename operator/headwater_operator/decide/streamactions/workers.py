"""What several types have to know before they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.lifecycle import Engine
from headwater_operator.decide.observed import Intent
from headwater_operator.decide.streamactions.standing import Standing, failed, listed

if TYPE_CHECKING:
    from headwater_operator.decide.scene import Scene


def why_nothing_runs(scene: Scene) -> str:
    """Return why no worker runs tasks; empty if they are to."""
    if scene.app.spec.engine is not Engine.NATIVE:
        return "Spark runs the application, so it has no workers"
    if scene.failure is not None and scene.failure.is_final:
        return f"the application was given up: {scene.failure.message}"
    if scene.app.spec.suspend:
        return "the application is suspended: set spec.suspend to false first"
    if scene.app.spec.replicas == 0:
        return "the application has no replicas: scale it up first"
    if scene.intent is not Intent.RUN:
        return "the application is about to be reset or deleted"
    return ""


def refused(scene: Scene, *names: str) -> Standing | None:
    """Return why something cannot be done with workers; ``None`` if it can."""
    if said := why_nothing_runs(scene):
        return failed("ApplicationNotRunning", said)
    known = [worker.name for worker in scene.workers if not worker.spec.drain]
    unknown = [name for name in names if name not in known]
    if unknown:
        its = listed(known) or "none yet"
        return failed(
            "UnknownWorker",
            f"{listed(unknown)}: no running worker of {scene.app.name}; its workers are {its}. "
            "Create another StreamAction with one of these",
        )
    return None
