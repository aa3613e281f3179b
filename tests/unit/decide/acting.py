"""A small cluster of values with a StreamAction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.unit.decide.cluster import Cluster

from headwater.model.streamaction import parse
from headwater_operator.decide.streamactions.asked import ActionView
from headwater_operator.decide.streamactions.objects import ObjectsView

if TYPE_CHECKING:
    from headwater.model.streamaction_status import StreamActionStatus
    from headwater_operator.decide import Decision, Observed

CLOCK = "2026-01-01T00:00:00Z"


@dataclass
class Acting(Cluster):
    """A cluster with StreamActions, whose statuses are written at once."""

    actions: tuple[ActionView, ...] = ()

    def observed(self) -> Observed:
        return replace(super().observed(), actions=self.actions, clock=CLOCK)

    def decide(self) -> Decision:
        decision = super().decide()
        written = {each.name: each.status for each in decision.rulings}
        self.actions = tuple(
            replace(view, written=written.get(view.name, view.status)) for view in self.actions
        )
        return decision

    def ask(self, kind: str, objects: ObjectsView | None = None, **spec: object) -> None:
        """Create the only StreamAction."""
        given = {"app": "wc", "type": kind, **spec}
        action = parse({"metadata": {"name": "it"}, "spec": given})
        view = ActionView(action=action, name="it", uid="it", created=CLOCK, written=action.status)
        self.actions = (replace(view, objects=objects or ObjectsView()),)

    @property
    def asked(self) -> StreamActionStatus:
        return self.actions[0].status

    def leaving(self) -> set[str]:
        return {name for name, each in self.memory.workers.items() if each.leaving_ms is not None}
