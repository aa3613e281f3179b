"""What is told of a StreamApp by Events when its status changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.appstatus import ConditionStatus, ConditionType
from headwater_operator.decide.autoscaling.owner import news_of
from headwater_operator.observe.rollon import noticed
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from headwater.model.appstatus import AppStatus
    from headwater_operator.act.events import Herald
    from headwater_operator.views import AppView


def tell_changes(herald: Herald, view: AppView, before: AppStatus, status: AppStatus) -> None:
    """Tell of a new number of workers, a changed Secret, a new state, and a new problem."""
    if (scaled := news_of(before, status)) is not None:
        herald.note("Autoscaled", scaled)
    if change := noticed(view, before.revision.update):
        herald.note("ConfigurationChanged", change)
    if status.state is not before.state:
        herald.note("StateChanged", f"{status.state}: {status.reason}")
    said = _condition(before, ConditionType.DEGRADED)
    now = _condition(status, ConditionType.DEGRADED)
    if now is not None and now[0] is ConditionStatus.TRUE and now != said:
        herald.warn(Problem(reason=now[1], message=now[2]))


def _condition(status: AppStatus, kind: ConditionType) -> tuple[ConditionStatus, str, str] | None:
    for condition in status.conditions:
        if condition.type is kind:
            return condition.status, condition.reason, condition.message
    return None
