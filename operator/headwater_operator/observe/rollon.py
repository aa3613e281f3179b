"""Changes of what ``spec.upgrade.rollOn`` names, as workers tell of them: another revision.

    view.revision   the specification's name, and how many changes have been rolled out
    a worker of it  tells that something has changed since its process began ─► the next number

The number stands in the status, which is written before anything is done, and in the names of pods'
revisions. So a change is rolled out once, whoever leads: processes of an earlier revision that tell
of it say nothing new.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.model.changes import base_of, changes_of, numbered
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.rollon import RollOnStatus
    from headwater_operator.views import AppView


def with_changes(view: AppView) -> AppView:
    """Return the same with the revision that the changes ask for.

    What is rolled back stays so until the specification changes, which rolls them out, too.
    """
    if view.app is None or view.rolled_back is not None or not view.app.spec.upgrade.roll_on:
        return view
    told = view.status.revision
    named = (told.current, told.update, told.last_stable, told.failed)
    of_pods = (pod.revision for pod in view.pods.values())
    revision = numbered(view.revision, max(map(changes_of, (*named, *of_pods))))
    if any(report.revision == revision and report.changed for report in _reports(view)):
        revision = numbered(revision, changes_of(revision) + 1)
    return replace(view, revision=revision)


def changed_names(view: AppView) -> str:
    """Return what running workers have not been started from as it is now; empty for nothing."""
    names = {name for report in _reports(view) for name in report.changed}
    return ", ".join(sorted(names))


def missing(view: AppView) -> Iterator[Problem]:
    """Yield what ``spec.upgrade.rollOn`` names and is not there: nobody is replaced for that."""
    names = sorted({name for report in _reports(view) for name in report.missing})
    if names:
        yield Problem(
            reason="RollOnMissing",
            message=f"{', '.join(names)}: not there, or empty, as workers see it; they go on as "
            "they are, and one that starts anew may fail. Create it again, or take it out of "
            "spec.upgrade.rollOn",
        )


def noticed(view: AppView, before: str) -> str:
    """Return what to tell of a change that was noticed just now; empty if none was.

    Args:
        view: the application.
        before: the revision that was wanted until now.
    """
    is_same = base_of(view.revision) == base_of(before)
    if not is_same or changes_of(view.revision) <= changes_of(before):
        return ""
    return f"{changed_names(view)} has changed since workers were started from it"


def _reports(view: AppView) -> Iterator[RollOnStatus]:
    """Yield what processes that run tell; a status may outlive its process."""
    for each in view.workers:
        report = each.worker.status.roll_on
        if report is not None and each.revision and report.revision == each.revision:
            yield report
