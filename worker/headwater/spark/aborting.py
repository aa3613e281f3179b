"""Gives up an unfinished backfill. Each step may be repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.backfill import BackfillState
from headwater.spark import gate
from headwater.spark.frames.reading import reading_group
from headwater.spark.manifests import ManifestWriter
from headwater.spark.work import progress_group, transactional_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.kafka.manifest import ManifestGate
    from headwater.spark.application import Application


def give_up(application: Application, manifests: ManifestGate, step: Callable[[str], None]) -> bool:
    """Throw away what an unfinished backfill has loaded: the application begins as after a reset.

    Args:
        application: which.
        manifests: asked what was left.
        step: hears what is done next.

    Returns:
        Whether there was one.

    Raises:
        GroupInUseError: the application runs.
    """
    step("looking whether anybody runs the application")
    application.admin.check_reachable(application.timeout_s)
    found = manifests.read()
    if found is None or not found.is_unfinished:
        return False
    gate.check_nobody_runs(application)
    writer = ManifestWriter(application.access)
    found = manifests.read()
    if found is None or not found.is_unfinished:
        return False
    manifest = writer.write(replace(found, attempt=found.attempt + 1))
    # The topology may be another one by now, and a source topic may be gone.
    tasks = manifest.tasks or tuple(map(str, application.plan.tasks))
    step(f"shutting out the {len(tasks)} tasks of backfill {manifest.generation}")
    application.duties.fence([transactional_id(application.id, task) for task in tasks])
    made = {*application.internal_topics, *manifest.topic_ids}
    step(f"deleting the offsets and {len(made)} internal topics")
    application.admin.delete_group(application.id)
    application.admin.delete_topics(made)
    writer.write(replace(manifest, state=BackfillState.ABORTED))
    application.admin.delete_group(progress_group(application.id, manifest.generation))
    application.admin.delete_group(reading_group(application.id, manifest.generation))
    return True
