"""Evaluates panels over samples in memory, as Prometheus would: samples in, series out."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from headwater_operator.dashboards import functions
from headwater_operator.dashboards.panels import BUCKET, Aggregation, Function, Quotient

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headwater_operator.dashboards.history import LabelSet, Samples, Series
    from headwater_operator.dashboards.panels import Expression, Query

LOOKBACK_MS: Final = 300_000
"""A sample counts for so long if no newer one follows (Prometheus' ``--query.lookback-delta``)."""
_LABEL: Final = re.compile(r"\{\{(\w+)\}\}")

Chosen: TypeAlias = "Mapping[str, Collection[str]]"
"""The values that a viewer has chosen for a label; a label that is missing takes all."""
Vector: TypeAlias = "dict[LabelSet, float]"
"""The answer of one moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series of a panel.

    Attributes:
        labels: whose numbers they are, by the labels of ``by``.
        legend: what people read.
        values: a number for each step; ``None`` where there is none.
    """

    labels: LabelSet
    legend: str
    values: tuple[float | None, ...]


def evaluate(
    expression: Expression,
    samples: Samples,
    *,
    at_ms: Sequence[int],
    window_ms: int,
    chosen: Chosen | None = None,
) -> tuple[Line, ...]:
    """Return the series of a query, in the order of their labels.

    Args:
        expression: the query.
        samples: what was measured.
        at_ms: the steps, in milliseconds.
        window_ms: how far functions over time look back from each step.
        chosen: the values of labels that are asked for.
    """
    vectors = _vectors(expression, samples, at_ms, window_ms, chosen or {})
    found = sorted({labels for vector in vectors for labels in vector})
    return tuple(
        Line(
            labels=labels,
            legend=legend_of(expression, labels),
            values=tuple(vector.get(labels) for vector in vectors),
        )
        for labels in found
    )


def evaluate_at(
    expression: Expression,
    samples: Samples,
    *,
    at_ms: int,
    window_ms: int,
    chosen: Chosen | None = None,
) -> Vector:
    """Return the answer of one moment, by labels. The arguments are those of ``evaluate``."""
    return _vectors(expression, samples, (at_ms,), window_ms, chosen or {})[0]


def legend_of(expression: Expression, labels: LabelSet) -> str:
    """Return the legend of a series; a label that it does not have is empty."""
    given = dict(labels)
    text = _LABEL.sub(lambda found: given.get(found[1], ""), expression.label)
    return " ".join(text.split())


def values_of(label: str, series: Iterable[Series], chosen: Chosen | None = None) -> list[str]:
    """Return the values that a label has in series, sorted: what a viewer can choose."""
    given = chosen or {}
    fitting = (dict(it.labels) for it in series if _fits(dict(it.labels), (), given))
    return sorted({labels[label] for labels in fitting if label in labels})


def _vectors(
    expression: Expression, samples: Samples, at_ms: Sequence[int], window_ms: int, chosen: Chosen
) -> list[Vector]:
    if not isinstance(expression, Quotient):
        selected = _selected(expression, samples, chosen)
        return [_evaluated(expression, selected, at, window_ms) for at in at_ms]
    numerators = _vectors(expression.numerator, samples, at_ms, window_ms, chosen)
    denominators = _vectors(expression.denominator, samples, at_ms, window_ms, chosen)
    return [
        {labels: _divided(value, by[labels]) for labels, value in of.items() if labels in by}
        for of, by in zip(numerators, denominators, strict=True)
    ]


def _selected(query: Query, samples: Samples, chosen: Chosen) -> list[tuple[LabelSet, Series]]:
    """Return the series that a query reads, each with the labels that are kept of it."""
    by = (*query.by, *query.distinct)
    if query.function is Function.QUANTILE:
        by = (*by, BUCKET)
    is_any = not query.filters and not chosen
    # Labels are sorted, and so are those that are kept.
    return [
        (tuple([pair for pair in series.labels if pair[0] in by]), series)
        for series in samples.get(query.sample_name, ())
        if is_any or _fits(dict(series.labels), query.filters, chosen)
    ]


def _evaluated(
    query: Query, selected: list[tuple[LabelSet, Series]], at_ms: int, window_ms: int
) -> Vector:
    groups: defaultdict[LabelSet, list[float]] = defaultdict(list)
    for kept, series in selected:
        value = _value(query.function, series, at_ms, window_ms)
        if value is not None:
            groups[kept].append(value)
    if query.distinct:
        groups = _regrouped(groups, query.distinct)
    combined = {labels: _combined(query.aggregation, found) for labels, found in groups.items()}
    if query.function is Function.QUANTILE:
        return _quantiles(query.quantile, combined)
    return combined


def _regrouped(
    groups: Mapping[LabelSet, list[float]], distinct: tuple[str, ...]
) -> defaultdict[LabelSet, list[float]]:
    """Return groups without some labels, with an entry for each of their values."""
    found: defaultdict[LabelSet, list[float]] = defaultdict(list)
    for labels in groups:
        found[tuple(pair for pair in labels if pair[0] not in distinct)].append(1.0)
    return found


def _fits(labels: Mapping[str, str], filters: Iterable[tuple[str, str]], chosen: Chosen) -> bool:
    return all(labels.get(label, "") == value for label, value in filters) and all(
        labels.get(label, "") in values for label, values in chosen.items()
    )


def _value(function: Function, series: Series, at_ms: int, window_ms: int) -> float | None:
    times, values = series.times, series.values
    end = bisect_right(times, at_ms)
    if function is Function.RAW:
        if not end or times[end - 1] <= at_ms - LOOKBACK_MS:
            return None
        return values[end - 1]
    begin = bisect_right(times, at_ms - window_ms, 0, end)
    there = [
        (time, value)
        for time, value in zip(times[begin:end], values[begin:end], strict=True)
        if value is not None
    ]
    numbers = [value for _, value in there]
    match function:
        case Function.CHANGES:
            return functions.changes(numbers)
        case Function.DERIV:
            return functions.deriv([time for time, _ in there], numbers)
        case Function.RATE | Function.INCREASE | Function.QUANTILE:
            grown = functions.increase(
                [time for time, _ in there], numbers, at_ms - window_ms, at_ms
            )
            if grown is None or function is Function.INCREASE:
                return grown
            return grown * 1000 / window_ms
        case _:
            assert_never(function)


def _combined(aggregation: Aggregation, values: Sequence[float]) -> float:
    match aggregation:
        case Aggregation.SUM:
            return math.fsum(values)
        case Aggregation.AVG:
            return math.fsum(values) / len(values)
        case Aggregation.MAX:
            return max(values)
        case Aggregation.MIN:
            return min(values)
        case Aggregation.COUNT:
            return float(len(values))
        case _:
            assert_never(aggregation)


def _quantiles(q: float, buckets: Vector) -> Vector:
    of: defaultdict[LabelSet, dict[float, float]] = defaultdict(dict)
    for labels, value in buckets.items():
        bounds = [float(given) for label, given in labels if label == BUCKET]
        rest = tuple(pair for pair in labels if pair[0] != BUCKET)
        for bound in bounds:
            of[rest][bound] = value
    return {labels: functions.quantile(q, found) for labels, found in of.items()}


def _divided(value: float, by: float) -> float:
    if by:
        return value / by
    return math.nan if not value or math.isnan(value) else math.copysign(math.inf, value)
