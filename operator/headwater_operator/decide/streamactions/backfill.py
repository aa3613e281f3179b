"""Backfill: workers are stopped, a Job of the user's runs, workers go on where it has ended.

    Stopping ──no process, nothing held──► Backfilling ──Job complete──► Complete

The Job is made beforehand, suspended, as docs/backfill.md has it: which image, account and settings
of Spark it needs only the user knows. Its label ``headwater.dev/app`` names the StreamApp, so that
nobody has the operator run a Job that is meant for something else.

Workers that are started before it is committed process nothing (``kafka.manifest``), so a cancelled
backfill loses nothing either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.decide.streamactions.objects import BACKFILLING, STOPPING
from headwater_operator.decide.streamactions.standing import (
    Standing,
    complete,
    failed,
    listed,
    runs,
    waits,
)

if TYPE_CHECKING:
    from headwater_operator.decide.scene import Scene
    from headwater_operator.decide.streamactions.asked import ActionView


def begin(scene: Scene, view: ActionView) -> Standing:
    """See whether there is a Job that waits."""
    part, job = view.spec.backfill, view.objects.job
    assert part is not None
    if scene.observed.status.engine.name != scene.app.spec.engine:
        return waits("EngineChanges", "the application is being handed over to another engine")
    if job is None:
        return failed(
            "JobNotFound",
            f"there is no Job {part.job} in this namespace: create it as docs/backfill.md shows, "
            "with spec.suspend: true, then another StreamAction",
        )
    if job.app != scene.app.name:
        found = f"{_LABEL}: {job.app}" if job.app else f"no label {_LABEL}"
        return failed(
            "JobOfAnother",
            f"the Job {part.job} has {found}: label it with `kubectl label job {part.job} "
            f"{_LABEL}={scene.app.name} --overwrite`, then create another StreamAction",
        )
    if not job.is_suspended or job.has_begun:
        return failed(
            "JobHasBegun",
            f"the Job {part.job} was let run already: create it anew with spec.suspend: true, so "
            "that it begins when the workers have ended",
        )
    return runs(STOPPING, f"workers end before the Job {part.job} begins", total=1)


def go_on(scene: Scene, view: ActionView) -> Standing:
    """Tell how far it has come."""
    part, job = view.spec.backfill, view.objects.job
    assert part is not None
    if job is None:
        return failed("JobNotFound", f"the Job {part.job} is gone; {_NEXT}")
    if view.status.step == STOPPING:
        left = [worker.name for worker in scene.workers if not worker.has_ended]
        driver = scene.observed.driver.process
        if left or scene.is_anything_held or scene.owes_fence or not driver.is_proof_of_end:
            return runs(STOPPING, f"{listed(left) or 'the driver'} is to end", total=1)
        return runs(BACKFILLING, f"the Job {part.job} begins", total=1)
    if job.is_complete:
        said = f"the Job {part.job} has computed the state anew; workers go on where it ended"
        return complete(said, done=1, total=1, result=part.job)
    if job.failure:
        return failed("JobFailed", f"the Job {part.job} has failed: {job.failure}; {_NEXT}")
    return runs(BACKFILLING, f"the Job {part.job} runs: `kubectl logs job/{part.job}`", total=1)


_LABEL = "headwater.dev/app"
_NEXT = (
    "workers process nothing until a backfill is committed or given up: create the Job anew, "
    "suspended, and another StreamAction, which goes on; or run `headwater backfill --abort`"
)
