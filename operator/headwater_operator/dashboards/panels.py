"""Dashboards as values: a panel holds structured queries over the table of metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.model.metrics import MetricType, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headwater.model.metrics import Metric

OF_SCRAPING: Final = frozenset({"namespace", "pod", "job", "instance"})
"""Labels that Prometheus adds when it reads ``/metrics``."""
BUCKET: Final = "le"
"""The label of a histogram's buckets."""
_GROWTH: Final[Mapping[Unit, Unit]] = MappingProxyType(
    {
        Unit.NONE: Unit.PER_SECOND,
        Unit.RECORDS: Unit.PER_SECOND,
        Unit.BYTES: Unit.BYTES_PER_SECOND,
        Unit.SECONDS: Unit.RATIO,
    }
)


def named(by: Iterable[str]) -> str:
    """Return the legend that has the values of some labels."""
    return " ".join(f"{{{{{label}}}}}" for label in by)


class Kind(StrEnum):
    """How a panel shows its series, in Grafana's words."""

    TIME_SERIES = "timeseries"
    STAT = "stat"
    """The newest value of each series, large."""
    TABLE = "table"
    """The newest value of each series, a row each; labels are columns."""
    STATE_TIMELINE = "state-timeline"
    """A bar for each series; a value is a state by its number."""
    HEAT_MAP = "heatmap"
    """A column for each step; its cells are the buckets of a histogram."""


class Aggregation(StrEnum):
    """How series are combined that differ in other labels, in PromQL's words."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    AVG = "avg"
    COUNT = "count"


class Function(StrEnum):
    """What becomes of each series before it is combined with others."""

    RAW = ""
    """The newest sample."""
    RATE = "rate"
    """How fast a counter grows, per second."""
    INCREASE = "increase"
    """By how much a counter has grown."""
    CHANGES = "changes"
    """How often a gauge has changed."""
    DERIV = "deriv"
    """How fast a gauge grows, per second, by linear regression."""
    QUANTILE = "histogram_quantile"
    """A quantile of what a histogram has counted, from the rates of its buckets."""

    @property
    def is_ranged(self) -> bool:
        """Whether it reads all samples of a window, not only the newest."""
        return self is not Function.RAW


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One metric, combined to a series for each combination of some labels.

    Attributes:
        metric: of the table of metrics.
        by: labels that are kept.
        aggregation: how series are combined that differ in other labels.
        function: what becomes of each series before.
        filters: values that labels have.
        distinct: of ``COUNT``: labels, whose values are counted and not the series.
        quantile: of 0 to 1, for ``QUANTILE``.
        legend: names a series; ``{{label}}`` is the label's value. Empty: the values of ``by``.
    """

    metric: Metric
    by: tuple[str, ...]
    aggregation: Aggregation = Aggregation.SUM
    function: Function = Function.RAW
    filters: tuple[tuple[str, str], ...] = ()
    distinct: tuple[str, ...] = ()
    quantile: float = 0.99
    legend: str = ""

    def __post_init__(self) -> None:
        assert not self.distinct or self.aggregation is Aggregation.COUNT

    @property
    def sample_name(self) -> str:
        """The name of the samples that are read."""
        if self.metric.type is not MetricType.HISTOGRAM:
            return self.metric.sample_name
        buckets = self.function is Function.QUANTILE or BUCKET in self.by
        return f"{self.metric.name}_{'bucket' if buckets else 'count'}"

    @property
    def unit(self) -> Unit:
        """The unit of the answers.

        Raises:
            ValueError: the growth of such a number has no unit.
        """
        if self.function is Function.CHANGES or self.aggregation is Aggregation.COUNT:
            return Unit.NONE
        counts = self.metric.type is MetricType.HISTOGRAM and self.function is not Function.QUANTILE
        unit = Unit.NONE if counts else self.metric.unit
        if self.function not in {Function.RATE, Function.DERIV}:
            return unit
        if unit not in _GROWTH:
            raise ValueError(f"the rate of {self.metric.name} would have the unit {unit}/s")
        return _GROWTH[unit]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that are read."""
        return (self.metric,)

    @property
    def label(self) -> str:
        """The legend, made of ``by`` if none is given."""
        return self.legend or named(self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """One query divided by another with the same labels.

    Attributes:
        numerator: what is divided.
        denominator: by what.
        legend: as of a query.
    """

    numerator: Query
    denominator: Query
    legend: str = ""

    @property
    def by(self) -> tuple[str, ...]:
        """The labels of both."""
        return self.numerator.by

    @property
    def unit(self) -> Unit:
        """A share, if both have one unit; a time, if it is a number by its growth."""
        units = self.numerator.unit, self.denominator.unit
        if units[0] is units[1]:
            return Unit.RATIO
        return Unit.SECONDS if _GROWTH.get(units[0]) is units[1] else units[0]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that are read."""
        return (*self.numerator.metrics, *self.denominator.metrics)

    @property
    def label(self) -> str:
        """The legend, made of ``by`` if none is given."""
        return self.legend or self.numerator.label


Expression: TypeAlias = Query | Quotient
"""What a panel can ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Some numbers, drawn.

    Attributes:
        title: what people read; unique in its dashboard.
        description: what to look for, in a sentence or two.
        queries: what is asked; all have one unit.
        kind: how it is drawn.
        stacked: whether the series add up to a whole.
        states: of a state timeline, the name of each value from 0 on.
        width: in columns of 24.
    """

    title: str
    description: str
    queries: tuple[Expression, ...]
    kind: Kind = Kind.TIME_SERIES
    stacked: bool = False
    states: tuple[str, ...] = ()
    width: int = 12

    @property
    def unit(self) -> Unit:
        """The unit of all its numbers.

        Raises:
            ValueError: its queries have several.
        """
        units = {query.unit for query in self.queries}
        if len(units) != 1:
            told = ", ".join(sorted(unit or "none" for unit in units))
            raise ValueError(f"the panel {self.title!r} has several units: {told}")
        return units.pop()

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that are read, each once."""
        return tuple(dict.fromkeys(metric for query in self.queries for metric in query.metrics))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels that belong together.

    Attributes:
        title: what people read.
        panels: in their order.
        collapsed: whether it is closed at first.
    """

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A label by whose values a viewer chooses.

    Attributes:
        label: its name.
        title: what people read.
        metric: whose series have all values.
    """

    label: str
    title: str
    metric: Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Moments that are marked in all panels: those at which a query's answer is above a bound.

    By an increase, what series begin with counts, too.

    Attributes:
        title: what people read.
        query: what is asked; it has no unit.
        above: the bound.
        of_all: whatever a viewer has chosen; its series lack the labels of the choice.
        changes_within: mark changes of the answer, within such a time, as Prometheus writes it; for
            numbers that one process after another tells, each in a series of its own.
    """

    title: str
    query: Query
    above: float = 0
    of_all: bool = False
    changes_within: str = ""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A page of panels.

    Attributes:
        uid: its identity, part of its address.
        title: what people read.
        description: the question that it answers.
        rows: its panels.
        variables: by which a viewer chooses; each narrows the choice of those behind it.
        annotations: marked moments.
        links: uids of other dashboards; they open with the same choice and time.
    """

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    links: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        counts = Counter(panel.title for panel in self.panels)
        twice = [title for title, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"the dashboard {self.uid} has several panels named {twice[0]!r}")

    def __iter__(self) -> Iterator[Panel]:
        return iter(self.panels)

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, in their order."""
        return tuple(panel for row in self.rows for panel in row.panels)

    def panel(self, title: str) -> Panel:
        """Return a panel by its title.

        Raises:
            KeyError: there is none.
        """
        for panel in self.panels:
            if panel.title == title:
                return panel
        raise KeyError(f"the dashboard {self.uid} has no panel {title!r}")

    def panel_id(self, title: str) -> int:
        """Return Grafana's number of a panel: ``viewPanel`` of its address.

        Raises:
            KeyError: there is none.
        """
        return self.panels.index(self.panel(title)) + 1
