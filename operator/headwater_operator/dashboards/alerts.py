"""Alerts as values: a condition over the table of metrics, what to read about it, where to look."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headwater_operator.dashboards.promql import promql

if TYPE_CHECKING:
    from headwater_operator.dashboards.panels import Dashboard, Expression

RUNBOOK: Final = "docs/runbook.md"
"""Has a section for each alert."""
_LINKED: Final = ("namespace", "application_id", "client_id")
"""Labels of an alert that its panel is opened with."""


class Severity(StrEnum):
    """How soon somebody should look."""

    CRITICAL = "critical"
    """Now: something does not run."""
    WARNING = "warning"
    """Within the working day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A query and its bound; give one bound.

    Attributes:
        query: what is asked.
        above: true where the answer is greater.
        below: true where the answer is less.
        absent: what stands for the answer if there is none; ``None``: it is not true then.
    """

    query: Expression
    above: float | None = None
    below: float | None = None
    absent: float | None = None

    def __post_init__(self) -> None:
        assert (self.above is None) != (self.below is None)

    def promql(self, window: str) -> str:
        """Return it as PromQL."""
        text = promql(self.query, window=window)
        if self.absent is not None:
            text = f"({text} or vector({self.absent:g}))"
        return f"{text} > {self.above:g}" if self.above is not None else f"{text} < {self.below:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that somebody should look at.

    Attributes:
        name: its name; that of its section in the runbook, too.
        when: what has to be true. Its labels are those of the alert.
        also: what has to be true, too, for the same labels.
        unless: what must not be true for the same labels.
        lasting: for how long it has to be true, as Prometheus writes it.
        window: how far functions over time look back.
        severity: how soon somebody should look.
        summary: what people read first; ``{{ $labels.name }}`` is the value of a label.
        description: what it means and what to do first.
        dashboard: where to look.
        panel: where on it, by its title.
    """

    name: str
    when: Condition
    also: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    lasting: str
    window: str = "10m"
    severity: Severity = Severity.WARNING
    summary: str
    description: str
    dashboard: Dashboard
    panel: str

    @property
    def promql(self) -> str:
        """The condition as PromQL."""
        parts = [self.when.promql(self.window)]
        parts += [f"and {it.promql(self.window)}" for it in self.also]
        parts += [f"unless {it.promql(self.window)}" for it in self.unless]
        return " ".join(parts)

    @property
    def section(self) -> str:
        """The anchor of its section in the runbook."""
        return self.name.lower()

    @property
    def panel_url(self) -> str:
        """The address of its panel, within Grafana."""
        labels = [label for label in _LINKED if label in self.when.query.by]
        chosen = "".join(f"&var-{label}={{{{ $labels.{label} }}}}" for label in labels)
        return f"/d/{self.dashboard.uid}?viewPanel={self.dashboard.panel_id(self.panel)}{chosen}"
