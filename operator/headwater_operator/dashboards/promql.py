"""PromQL of structured queries: a pure function from a query to its text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headwater_operator.dashboards.panels import BUCKET, Function, Quotient

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from headwater_operator.dashboards.panels import Annotation, Expression, Query, Variable

RATE_INTERVAL: Final = "$__rate_interval"
"""Grafana's variable: a window that holds several samples."""
ALL: Final = ".*"
"""What a variable stands for while nothing is chosen."""


def promql(
    expression: Expression,
    variables: Iterable[Variable] = (),
    *,
    window: str = RATE_INTERVAL,
    chosen: Mapping[str, Collection[str]] | None = None,
) -> str:
    """Return the PromQL of a query.

    Args:
        expression: the query.
        variables: those of the dashboard.
        window: how far functions over time look back, such as ``1m``.
        chosen: the values that are chosen for each label, all for a label that is missing. None
            writes Grafana's variables, such as ``$namespace``, into the text.
    """
    matchers = [_matcher(variable.label, chosen) for variable in variables]
    if isinstance(expression, Quotient):
        parts = (expression.numerator, expression.denominator)
        return " / ".join(_aggregated(part, matchers, window) for part in parts)
    return _aggregated(expression, matchers, window)


def annotation_promql(
    annotation: Annotation, variables: Iterable[Variable], *, window: str = RATE_INTERVAL
) -> str:
    """Return the PromQL of the moments that an annotation marks.

    What a counter has at its first sample is growth, too: a worker that has just come may have
    opened its tasks before it is scraped. ``increase()`` alone does not count that.
    """
    chosen = () if annotation.of_all else variables
    matchers = [_matcher(variable.label, None) for variable in chosen]
    query = annotation.query
    text = _aggregated(query, matchers, window)
    if annotation.changes_within:
        text = f"changes(({text})[{annotation.changes_within}:])"
    marked = f"{text} > {annotation.above:g}"
    if query.function is Function.INCREASE:
        series = _selector(query, matchers)
        begun = _combined(query, f"{series} unless {series} offset {window}")
        marked += f" or {begun} > {annotation.above:g}"
    return marked


def label_values(
    variable: Variable, before: Iterable[Variable], chosen: Mapping[str, Collection[str]] | None
) -> str:
    """Return the selector of the series that have the values of a variable.

    Args:
        variable: whose values are asked.
        before: variables that narrow the choice.
        chosen: as of ``promql``.
    """
    matchers = [f"{it.label}=~{_quoted(_pattern(it.label, chosen))}" for it in before]
    return variable.metric.sample_name + (f"{{{', '.join(matchers)}}}" if matchers else "")


def _aggregated(query: Query, matchers: list[str], window: str) -> str:
    series = _selector(query, matchers)
    if query.function is Function.QUANTILE:
        combined = _combined(query, f"rate({series}[{window}])")
        return f"histogram_quantile({query.quantile:g}, {combined})"
    if query.function.is_ranged:
        series = f"{query.function}({series}[{window}])"
    return _combined(query, series)


def _selector(query: Query, matchers: list[str]) -> str:
    fixed = [f"{label}={_quoted(value)}" for label, value in query.filters]
    if not fixed and not matchers:
        return query.sample_name
    return f"{query.sample_name}{{{', '.join([*fixed, *matchers])}}}"


def _combined(query: Query, series: str) -> str:
    by = (BUCKET, *query.by) if query.function is Function.QUANTILE else query.by
    if query.distinct:
        series = f"count by ({', '.join((*by, *query.distinct))}) ({series})"
    kept = f" by ({', '.join(by)}) " if by else ""
    return f"{query.aggregation}{kept}({series})"


def _matcher(label: str, chosen: Mapping[str, Collection[str]] | None) -> str:
    return f"{label}=~{_quoted(_pattern(label, chosen))}"


def _pattern(label: str, chosen: Mapping[str, Collection[str]] | None) -> str:
    if chosen is None:
        return f"${label}"
    if label not in chosen:
        return ALL
    return "|".join(re.escape(value).replace("\\-", "-") for value in sorted(chosen[label]))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
