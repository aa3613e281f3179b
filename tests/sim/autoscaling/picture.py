"""A simulated day as a picture: what comes in, what waits, how many workers there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.sim.autoscaling.load import DAY_S, HOUR_S, Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.sim.autoscaling.day import Day, Moment

_WIDTH, _LEFT, _RIGHT = 900, 88, 24
_TOP, _HEIGHT, _GAP = 78, 130, 44
_STEP_S: Final = 120
"""A point of a line stands for so long."""
_STYLE: Final = """\
text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:#1c2733}
.title{font-size:15px;font-weight:bold}.name{font-weight:bold}.small{fill:#55616d}
.grid{stroke:#d9dee3}.axis{stroke:#8b96a0}
.load{stroke:#2b6cb0;fill:none;stroke-width:1.4}.able{stroke:#8b96a0;fill:none;stroke-dasharray:4 3}
.lag{fill:#dd8a3c;stroke:#b5651d}.workers{fill:#9fc5ad;stroke:#3d8b57;stroke-width:1.4}
.span{fill:#eef1f4}"""


def picture(day: Day, arrivals: Arrivals, capacity: float) -> str:
    """Return the text of the picture.

    Args:
        day: what happened.
        arrivals: of the same seed.
        capacity: records per second that a worker can process.
    """
    points = [
        day.moments[at : at + _points_of(day)] for at in range(0, len(day.moments), _points_of(day))
    ]
    most = max(moment.replicas for moment in day.moments)
    height = _TOP + 3 * (_HEIGHT + _GAP)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}">'
        ),
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        (
            f'<text class="title" x="{_LEFT}" y="24">A simulated day: {len(day.moves)} changes of '
            f"the number of workers</text>"
        ),
        *_spans(arrivals, height),
    ]
    load_top = 1.05 * max(most * capacity, *(m.arrival for m in day.moments))
    parts += _panel(0, "records per second", "come in; dashed: can be processed", load_top)
    parts.append(_line("able", 0, points, load_top, lambda some: some[-1].replicas * capacity))
    parts.append(_line("load", 0, points, load_top, lambda some: _mean(m.arrival for m in some)))
    lag_top = 1.05 * max(moment.helped for moment in day.moments)
    parts += _panel(1, "records that wait", "of all tasks but the hot one", lag_top)
    parts.append(_area("lag", 1, points, lag_top, lambda some: max(m.helped for m in some)))
    parts += _panel(2, "workers", "decided by the load, within the bounds", most)
    parts.append(_area("workers", 2, points, most, lambda some: some[-1].replicas))
    parts += [
        f'<text class="small" x="{_x(hour * HOUR_S):.0f}" y="{height - _GAP + 18}" '
        f'text-anchor="middle">{hour}:00</text>'
        for hour in range(0, 25, 3)
    ]
    return "\n".join([*parts, "</svg>\n"])


def _points_of(day: Day) -> int:
    return max(1, len(day.moments) * _STEP_S // DAY_S)


def _spans(arrivals: Arrivals, height: int) -> list[str]:
    """Shade what a day has that others do not."""
    found = [
        (arrivals.dead, arrivals.dead + HOUR_S, "nothing comes in"),
        (*arrivals.hot, "one hot task"),
    ]
    parts = []
    for begin, end, name in found:
        parts.append(
            f'<rect class="span" x="{_x(begin):.0f}" y="{_TOP - 24}" '
            f'width="{_x(end) - _x(begin):.0f}" height="{height - _TOP - _GAP + 24}"/>'
        )
        parts.append(
            f'<text class="small" x="{(_x(begin) + _x(end)) / 2:.0f}" y="{_TOP - 28}" '
            f'text-anchor="middle">{name}</text>'
        )
    return parts


def _panel(number: int, name: str, about: str, top: float) -> list[str]:
    above = _TOP + number * (_HEIGHT + _GAP)
    below = above + _HEIGHT
    lines = [
        f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        for kind, y in (("grid", above), ("grid", above + _HEIGHT // 2), ("axis", below))
    ]
    return [
        *lines,
        f'<text x="{_LEFT}" y="{above - 8}"><tspan class="name">{name}</tspan> {about}</text>',
        f'<text class="small" x="{_LEFT - 8}" y="{above + 4}" text-anchor="end">{top:,.0f}</text>',
        f'<text class="small" x="{_LEFT - 8}" y="{below + 4}" text-anchor="end">0</text>',
    ]


def _line(
    kind: str,
    number: int,
    points: Sequence[Sequence[Moment]],
    top: float,
    value: Callable[[Sequence[Moment]], float],
) -> str:
    return f'<polyline class="{kind}" points="{_corners(number, points, top, value)}"/>'


def _area(
    kind: str,
    number: int,
    points: Sequence[Sequence[Moment]],
    top: float,
    value: Callable[[Sequence[Moment]], float],
) -> str:
    below = _TOP + number * (_HEIGHT + _GAP) + _HEIGHT
    corners = _corners(number, points, top, value)
    return f'<polygon class="{kind}" points="{_LEFT},{below} {corners} {_WIDTH - _RIGHT},{below}"/>'


def _corners(
    number: int,
    points: Sequence[Sequence[Moment]],
    top: float,
    value: Callable[[Sequence[Moment]], float],
) -> str:
    below = _TOP + number * (_HEIGHT + _GAP) + _HEIGHT
    found, before = list[str](), None
    for some in points:
        y = below - min(1.0, value(some) / top) * _HEIGHT
        x = _x(some[-1].at_s)
        if before is not None and before != y:
            found.append(f"{x:.0f},{before:.0f}")
        found.append(f"{x:.0f},{y:.0f}")
        before = y
    return " ".join(dict.fromkeys(found))


def _x(at_s: float) -> float:
    return _LEFT + at_s / DAY_S * (_WIDTH - _LEFT - _RIGHT)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
