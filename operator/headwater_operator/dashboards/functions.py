"""PromQL's functions over samples, computed as Prometheus computes them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NEAR: Final = 1.1
"""A window's edge is near a sample within so many pauses between samples."""


def increase(
    times: Sequence[int], values: Sequence[float], start_ms: int, end_ms: int
) -> float | None:
    """Return by how much a counter has grown in a window, as Prometheus' ``increase`` does.

    The growth between the first and the last sample is extended to the edges of the window, but by
    half a pause at most where an edge is far. A counter that falls has begun again at 0.

    Args:
        times: of the samples within the window, in milliseconds.
        values: the samples.
        start_ms: where the window begins.
        end_ms: where it ends.

    Returns:
        None with fewer than two samples.
    """
    if len(times) < 2:
        return None
    restarts = sum(before for before, after in pairwise(values) if after < before)
    grown = values[-1] - values[0] + restarts
    sampled = times[-1] - times[0]
    pause = sampled / (len(times) - 1)
    to_start, to_end = float(times[0] - start_ms), float(end_ms - times[-1])
    if grown > 0 and values[0] >= 0:
        # It was 0 at some time: it cannot have grown for longer than since then.
        to_start = min(to_start, sampled * (values[0] / grown))
    covered = float(sampled)
    for edge in (to_start, to_end):
        covered += edge if edge < pause * _NEAR else pause / 2
    return grown * covered / sampled


def changes(values: Sequence[float]) -> float | None:
    """Return how often a gauge has changed, as Prometheus' ``changes`` does."""
    if not values:
        return None
    return float(
        sum(
            before != after and not (math.isnan(before) and math.isnan(after))
            for before, after in pairwise(values)
        )
    )


def deriv(times: Sequence[int], values: Sequence[float]) -> float | None:
    """Return the slope of a gauge, per second, as Prometheus' ``deriv`` does: least squares.

    Args:
        times: of the samples, in milliseconds.
        values: the samples.

    Returns:
        None with fewer than two samples.
    """
    if len(times) < 2:
        return None
    if all(value == values[0] for value in values):
        return math.nan if math.isinf(values[0]) else 0.0
    seconds = [(time - times[0]) / 1000 for time in times]
    count = len(times)
    sum_x, sum_y = math.fsum(seconds), math.fsum(values)
    sum_xy = math.fsum(x * y for x, y in zip(seconds, values, strict=True))
    sum_xx = math.fsum(x * x for x in seconds)
    return (sum_xy - sum_x * sum_y / count) / (sum_xx - sum_x * sum_x / count)


def quantile(q: float, buckets: Mapping[float, float]) -> float:
    """Return a quantile of a histogram, as Prometheus' ``histogram_quantile`` does.

    Args:
        q: of 0 to 1.
        buckets: how much is at or below each bound; the greatest bound is infinite.

    Returns:
        Not a number if nothing was counted.
    """
    bounds = sorted(buckets)
    if len(bounds) < 2 or not math.isinf(bounds[-1]):
        return math.nan
    counts: list[float] = []
    for bound in bounds:
        counts.append(max(buckets[bound], counts[-1] if counts else -math.inf))
    total = counts[-1]
    if not total > 0:
        return math.nan
    rank = q * total
    index = next((i for i, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if index == len(counts) - 1:
        return bounds[-2]
    if index == 0 and bounds[0] <= 0:
        return bounds[0]
    below = counts[index - 1] if index else 0.0
    start = bounds[index - 1] if index else 0.0
    return start + (bounds[index] - start) * ((rank - below) / (counts[index] - below))
