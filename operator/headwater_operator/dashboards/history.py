"""Samples that were taken lately, kept in memory: what panels are evaluated over."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

LabelSet: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values of labels, sorted."""


class Sample(NamedTuple):
    """One number of one moment, as ``/metrics`` shows it."""

    name: str
    labels: LabelSet
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """What one thing has told over time.

    Attributes:
        labels: whose numbers they are.
        times: when each was taken, in milliseconds, ascending.
        values: the numbers. ``None`` says that the thing was gone (Prometheus' stale marker).
    """

    labels: LabelSet
    times: Sequence[int]
    values: Sequence[float | None]


Samples: TypeAlias = "Mapping[str, Collection[Series]]"
"""Series by the name of their samples."""


def label_set(labels: Mapping[str, str]) -> LabelSet:
    """Return labels as a sorted tuple, without empty values: Prometheus has no such label."""
    return tuple(sorted((name, value) for name, value in labels.items() if value))


class History:
    """The samples of the last while. It reads no clock; the caller says when samples were taken.

    Args:
        keep_ms: how long a sample is kept.
    """

    def __init__(self, keep_ms: int) -> None:
        self._keep_ms = keep_ms
        self._series: dict[str, dict[LabelSet, Series]] = {}
        self._present: dict[str, set[tuple[str, LabelSet]]] = {}

    def add(self, at_ms: int, samples: Iterable[Sample], *, source: str = "") -> None:
        """Add what a source has told at a moment; what it no longer tells of is gone.

        Args:
            at_ms: when; not before the moment of the last call for this source.
            samples: everything that it has told. None of it: the source is gone.
            source: who has told it, such as a worker.
        """
        seen: set[tuple[str, LabelSet]] = set()
        for sample in samples:
            seen.add((sample.name, sample.labels))
            self._append(sample.name, sample.labels, at_ms, sample.value)
        for name, labels in self._present.get(source, set()) - seen:
            self._append(name, labels, at_ms, None)
        self._present[source] = seen
        if not seen:
            del self._present[source]

    def trim(self, now_ms: int) -> None:
        """Forget what is too old."""
        since = now_ms - self._keep_ms
        for name, of_name in list(self._series.items()):
            for labels, series in list(of_name.items()):
                count = bisect_right(series.times, since)
                if count == len(series.times):
                    del of_name[labels]
                elif count:
                    kept = list(series.times[count:]), list(series.values[count:])
                    of_name[labels] = Series(labels, *kept)
            if not of_name:
                del self._series[name]

    def samples(self) -> Samples:
        """Return all series, to be evaluated over; they grow with the next call of ``add``."""
        return {name: of_name.values() for name, of_name in self._series.items()}

    def _append(self, name: str, labels: LabelSet, at_ms: int, value: float | None) -> None:
        of_name = self._series.setdefault(name, {})
        series = of_name.get(labels)
        if series is None:
            of_name[labels] = series = Series(labels, [], [])
        times, values = series.times, series.values
        assert isinstance(times, list)
        assert isinstance(values, list)
        assert not times or times[-1] <= at_ms, (name, labels, times[-1], at_ms)
        times.append(at_ms)
        values.append(value)
