"""What the page makes of workers' samples: flows through the topology, and a point of each panel.

The queries are those of the dashboards, or of their kind, and are evaluated as Prometheus would.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from headwater.model.metrics import (
    RECORDS_CONSUMED,
    RECORDS_PRODUCED,
    ROCKSDB_PROPERTIES,
    TOPIC_RECORDS_LAG,
)
from headwater_operator.dashboards import APPLICATION, STATE, WORKER
from headwater_operator.dashboards.choosing import APP
from headwater_operator.dashboards.evaluation import evaluate_at, legend_of
from headwater_operator.dashboards.panels import Function, Kind, Query
from headwater_operator.web.document import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.dashboards.history import LabelSet, Samples
    from headwater_operator.dashboards.panels import Dashboard, Expression, Panel

DRAWN: Final[tuple[tuple[str, Dashboard], ...]] = (
    ("application", APPLICATION),
    ("state", STATE),
    ("worker", WORKER),
)
"""The dashboards that the page draws, by the name under which it asks for them."""
MOST_LINES: Final = 12
"""Of one panel: the greatest."""
_NODE: Final = ("processor_node_id",)
_TOPIC: Final = ("topic",)
_STORE: Final = ("state_id",)
_READ: Final = (*_NODE, *_TOPIC)
"""A topic may be read by several source nodes, and a source node may read several topics."""


def _rate(metric: Any, by: tuple[str, ...]) -> Query:
    return Query(metric=metric, by=by, function=Function.RATE)


_FLOWS: Final = (
    ("topics", "out", _rate(RECORDS_CONSUMED, _TOPIC)),
    ("topics", "in", _rate(RECORDS_PRODUCED, _TOPIC)),
    ("reads", "rate", _rate(RECORDS_CONSUMED, _READ)),
    ("reads", "lag", Query(metric=TOPIC_RECORDS_LAG, by=_READ)),
    ("nodes", "rate", _rate(RECORDS_PRODUCED, _NODE)),
    ("stores", "bytes", Query(metric=ROCKSDB_PROPERTIES["total-sst-files-size"], by=_STORE)),
    ("stores", "memory", Query(metric=ROCKSDB_PROPERTIES["size-all-mem-tables"], by=_STORE)),
    ("stores", "keys", Query(metric=ROCKSDB_PROPERTIES["estimate-num-keys"], by=_STORE)),
)
SECTIONS: Final = ("topics", "nodes", "reads", "stores")
"""Of the document: what moves through the topology now, what waits, how large its stores are."""


def flows(samples: Samples, at_ms: int, window_ms: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return rates of topics and nodes, lags, and sizes of stores with all their copies.

    What a source node reads of a topic is called by both, with a space between them.
    """
    found: dict[str, dict[str, dict[str, float]]] = {section: {} for section in SECTIONS}
    for section, key, query in _FLOWS:
        for labels, value in evaluate_at(query, samples, at_ms=at_ms, window_ms=window_ms).items():
            name = " ".join(text for _, text in labels)
            if (number := rounded(value)) is not None:
                found[section].setdefault(name, {})[key] = number
    for row in found["stores"].values():
        row["bytes"] = rounded(row.get("bytes", 0) + row.pop("memory", 0)) or 0
    return found


def point(samples: Samples, at_ms: int, window_ms: int) -> dict[str, float]:
    """Return the newest value of every line of every panel, by its key.

    A key is ``DASHBOARD/PANEL/QUERY/LEGEND``, with the numbers of panel and query.
    """
    found: dict[str, float] = {}
    for prefix, panel in _panels():
        for number, query in enumerate(panel.queries):
            vector = evaluate_at(query, samples, at_ms=at_ms, window_ms=window_ms)
            finite = {each: value for each, value in vector.items() if math.isfinite(value)}
            for labels, value in _greatest(finite):
                found[f"{prefix}/{number}/{_legend(query, labels)}"] = value
    return found


def _legend(query: Expression, labels: LabelSet) -> str:
    """Return what a line is called on a page of one application, which is not named again."""
    within = tuple(pair for pair in labels if pair[0] not in APP)
    return legend_of(query, within) or query.metrics[0].kafka


def described(dashboard: str) -> list[dict[str, Any]]:
    """Return the panels of a dashboard as JSON values, in their order."""
    return [
        {
            "id": prefix,
            "title": panel.title,
            "about": panel.description,
            "unit": str(panel.unit),
            "stacked": panel.stacked,
        }
        for prefix, panel in _panels()
        if prefix.startswith(f"{dashboard}/")
    ]


def _panels() -> Iterator[tuple[str, Panel]]:
    """Yield the panels that are lines over time, each with its key."""
    for name, dashboard in DRAWN:
        for number, panel in enumerate(dashboard.panels):
            if panel.kind is Kind.TIME_SERIES:
                yield f"{name}/{number}", panel


def _greatest(vector: dict[LabelSet, float]) -> list[tuple[LabelSet, float]]:
    if len(vector) <= MOST_LINES:
        return list(vector.items())
    return sorted(vector.items(), key=lambda each: each[1], reverse=True)[:MOST_LINES]
