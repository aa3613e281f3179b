"""What was measured, at one moment: plain values that travel over pipes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.metrics.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from headwater.model.cluster import Role
    from headwater.model.metrics.declaring import Labels, Metric, Scope


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers of a StreamThread, a worker or Spark's driver at one moment.

    It travels over a pipe once a second: plain values, by the name of the metric, then by labels.
    A task's labels do not name its thread: a worker holds a task once.
    """

    values: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    of_users: Mapping[str, Metric] = field(default_factory=dict)
    """Metrics that processors have declared, by their names."""

    @classmethod
    def of(cls, values: Mapping[Metric, float | None], *labels: str) -> Snapshot:
        """Return the numbers of one thing; what is ``None`` was not measured."""
        return cls(
            {metric.name: {labels: value} for metric, value in values.items() if value is not None}
        )

    @classmethod
    def merged(cls, parts: Iterable[Snapshot]) -> Snapshot:
        """Return what is in any of the parts; the later one counts."""
        found: dict[str, dict[Labels, float]] = {}
        of_users: dict[str, Metric] = {}
        for part in parts:
            of_users |= part.of_users
            for name, rows in part.values.items():
                found.setdefault(name, {}).update(rows)
        return cls(found, of_users)

    @classmethod
    def read(
        cls, data: Mapping[str, object], scope: Scope, *labels: str, role: Role | None = None
    ) -> Snapshot:
        """Return the numbers that a JSON object shows, made by ``shown`` maybe of another version.

        Raises:
            ValueError: what should be a number is none.
        """
        found: dict[Metric, float | None] = {}
        for metric in METRICS:
            if metric.scope is scope and metric.key and metric.is_of(role):
                found[metric] = _number(metric, data)
        return cls.of(found, *labels)

    def only(self, *labels: str) -> Snapshot:
        """Return the numbers of one thing."""
        return Snapshot(
            {name: {labels: rows[labels]} for name, rows in self.values.items() if labels in rows}
        )

    def of_things(self, first: Collection[str]) -> Snapshot:
        """Return the numbers whose first label is one of these."""
        found = {
            name: {labels: value for labels, value in rows.items() if labels[0] in first}
            for name, rows in self.values.items()
        }
        return Snapshot({name: rows for name, rows in found.items() if rows}, self.of_users)

    def rows(self, metric: Metric) -> Mapping[Labels, float]:
        """Return one number of everything that has it."""
        return self.values.get(metric.name, {})

    def value(self, metric: Metric, *labels: str) -> float | None:
        """Return a number of one thing, ``None`` if nobody has measured it."""
        return self.rows(metric).get(labels)

    def count(self, metric: Metric, *labels: str) -> int | None:
        """Return a number of one thing that is a whole one."""
        value = self.value(metric, *labels)
        return None if value is None else int(value)

    def total(self, metric: Metric) -> int:
        """Return the sum of a whole number over everything that has it."""
        return int(sum(self.rows(metric).values()))

    def shown(self, scope: Scope, *labels: str, role: Role | None = None) -> dict[str, object]:
        """Return the numbers of one thing by their keys in JSON.

        Args:
            scope: what it is.
            labels: which.
            role: of a task.
        """
        found: dict[str, object] = {}
        inner: dict[str, dict[str, object]] = {}
        for metric in METRICS:
            if metric.scope is not scope or not metric.key:
                continue
            value = self.value(metric, *labels)
            outer, _, key = metric.key.partition(".")
            if key:
                found[outer] = inner.setdefault(outer, {})
                if value is not None:
                    inner[outer][key] = value
            elif metric.is_of(role) or outer not in found:
                told = metric.absent if value is None else value
                found[outer] = bool(told) if metric.flag else told
        return found


def _number(metric: Metric, data: Mapping[str, object]) -> float | None:
    outer, _, key = metric.key.partition(".")
    value = data.get(outer)
    if key:
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{metric.key} is no number: {value!r:.80}")
    return value
