"""A topology as an SVG: sub-topologies as boxes, with their nodes and stores; topics between."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.drawing.layers import Edge, Gaps, Point, Size, arrange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headwater.drawing.graph import Drawing, DrawnGroup

_CHARACTER: Final = 7.2
"""Width of a character; fonts of fixed width differ little in it."""
_HEIGHT: Final = 34
_STORE_HEIGHT: Final = 46
_PADDING: Final = 22
_TITLE: Final = 26
_MARGIN: Final = 24
_CLEARANCE: Final = 18
"""From a box to the lines that pass it."""
_INSIDE: Final = Gaps(beside=26, between=42)
_OUTSIDE: Final = Gaps(beside=44, between=56, level=True)
_STYLE: Final = """\
text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1c2733;\
text-anchor:middle;dominant-baseline:central}
.title{font-weight:bold;text-anchor:start;fill:#4a5a6a;stroke:#f5f7fa;stroke-width:5;paint-order:stroke}
.box{fill:#f5f7fa;stroke:#b8c4d0}
.node{fill:#fff;stroke:#5b7083}
.source,.sink{fill:#e4eefb;stroke:#3b73b9}
.store{fill:#fdf1dc;stroke:#b9822c}
.elsewhere{stroke-dasharray:5 3}
.topic{fill:#e6f4ea;stroke:#3d8b57}
.internal{stroke-dasharray:5 3}
.flow{fill:none;stroke:#5b7083;stroke-width:1.3;marker-end:url(#end)}
.uses{fill:none;stroke:#b9822c;stroke-width:1.3;stroke-dasharray:2 3}"""


def svg(drawing: Drawing, titles: Mapping[int, str] | None = None) -> str:
    """Return the text of the picture.

    Args:
        drawing: the topology.
        titles: of sub-topologies that are not called by their numbers alone.

    A global store has a box of its own, and stands with a broken line beside who looks into it.
    """
    boxes = {
        f"box {group.id}": _Box(group, (titles or {}).get(group.id, group.title))
        for group in drawing.groups
    }
    flows = [flow for name, box in boxes.items() for flow in _flows(name, box)]
    # Topics that are read come first, so that a circle is turned round where it is written.
    topics = dict.fromkeys([f.topic for f in flows if f.reads] + [f.topic for f in flows])
    sizes = {f"topic {topic}": Size(_width(topic) + 20, _HEIGHT) for topic in topics}
    sizes |= {name: box.size for name, box in boxes.items()}
    layout = arrange(sizes, [flow.edge for flow in flows], _OUTSIDE)
    lines: list[str] = []
    for name, box in boxes.items():
        lines += box.drawn(_corner(layout.places[name], box.size))
    for flow, route in zip(flows, layout.routes, strict=True):
        outside = layout.places[f"topic {flow.topic}"]
        box = boxes[flow.box]
        corner = _corner(layout.places[flow.box], box.size)
        inside = box.place(flow.node).moved(*corner)
        ends = (outside, inside) if flow.reads else (inside, outside)
        if ends[0].y < ends[1].y:
            lines.append(_curve(*ends, route, _HEIGHT / 2, "flow"))
        else:
            beside = outside.moved(sizes[f"topic {flow.topic}"].width / 2, 0)
            lines.append(_around(corner, box.size, inside, beside, reads=flow.reads))
    for name, box in boxes.items():
        lines.append(box.titled(_corner(layout.places[name], box.size)))
    for topic in topics:
        kind = "topic internal" if topic in drawing.internal else "topic"
        name = f"topic {topic}"
        lines += _shape(layout.places[name], sizes[name], topic, kind, rounded=_HEIGHT / 2)
    return "\n".join([*_head(layout.size), *lines, "</g>", "</svg>"]) + "\n"


class _Flow(NamedTuple):
    """Between a topic and a node of a sub-topology."""

    topic: str
    box: str
    node: str
    reads: bool
    edge: Edge


class _Box:
    """A sub-topology, laid out by itself."""

    def __init__(self, group: DrawnGroup, title: str) -> None:
        self.group = group
        self._title = title
        self._sizes = {f"node {n.name}": Size(_width(n.name), _HEIGHT) for n in group.nodes}
        self._sizes |= {
            f"store {store}": Size(_width(store), _STORE_HEIGHT) for store in group.stores
        }
        self._looked_up = tuple(dict.fromkeys(store for _, store in group.looked_up))
        self._sizes |= {
            f"store {store}": Size(_width(store), _STORE_HEIGHT) for store in self._looked_up
        }
        self._edges = [
            Edge(f"node {parent}", f"node {node.name}")
            for node in group.nodes
            for parent in node.parents
        ]
        self._edges += [
            Edge(f"node {node.name}", f"store {store}")
            for node in group.nodes
            for store in node.stores
        ]
        self._edges += [Edge(f"node {node}", f"store {store}") for node, store in group.looked_up]
        sinks = [f"node {node.name}" for node in group.sinks]
        self._layout = arrange(self._sizes, self._edges, _INSIDE, sinks)
        width, height = self._layout.size
        self.size = Size(max(width, _width(title)) + 2 * _PADDING, height + _TITLE + 2 * _PADDING)
        self._inset = Point((self.size.width - width) / 2, _TITLE + _PADDING)

    def place(self, node: str) -> Point:
        """Return where the middle of a node is, from the corner of the box."""
        return self._layout.places[f"node {node}"].moved(*self._inset)

    def titled(self, corner: Point) -> str:
        """Return the title of the box, which begins at ``corner``."""
        return _text(corner.moved(_PADDING, _TITLE / 2 + 6), self._title, "title")

    def drawn(self, corner: Point) -> Iterator[str]:
        """Give the lines of the box, which begins at ``corner``."""
        yield (
            f'<rect class="box" {_at(corner)} width="{self.size.width:.1f}" '
            f'height="{self.size.height:.1f}" rx="8"/>'
        )
        by = corner.moved(*self._inset)
        moved = {name: place.moved(*by) for name, place in self._layout.places.items()}
        for edge, route in zip(self._edges, self._layout.routes, strict=True):
            kind = "flow" if edge.end.startswith("node ") else "uses"
            half = self._sizes[edge.end].height / 2
            passed = [(x + by.x, top + by.y, bottom + by.y) for x, top, bottom in route]
            yield _curve(moved[edge.start], moved[edge.end], passed, half, kind)
        for node in self.group.nodes:
            name = f"node {node.name}"
            yield from _shape(moved[name], self._sizes[name], node.name, node.kind)
        for store in self.group.stores:
            name = f"store {store}"
            yield from _cylinder(moved[name], self._sizes[name], store, "store")
        for store in self._looked_up:
            name = f"store {store}"
            yield from _cylinder(moved[name], self._sizes[name], store, "store elsewhere")


def _flows(name: str, box: _Box) -> Iterator[_Flow]:
    middle = box.size.width / 2
    for source in box.group.sources:
        for topic in source.topics:
            edge = Edge(f"topic {topic}", name, end_dx=box.place(source.name).x - middle)
            yield _Flow(topic, name, source.name, reads=True, edge=edge)
    for sink in box.group.sinks:
        [topic] = sink.topics
        edge = Edge(name, f"topic {topic}", start_dx=box.place(sink.name).x - middle)
        yield _Flow(topic, name, sink.name, reads=False, edge=edge)


def _head(size: Size) -> Iterator[str]:
    width, height = (round(length + 2 * _MARGIN) for length in size)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">'
    )
    yield f"<style>{_STYLE}</style>"
    yield (
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#5b7083"/></marker></defs>'
    )
    yield f'<rect width="{width}" height="{height}" fill="#fff"/>'
    yield f'<g transform="translate({_MARGIN} {_MARGIN})">'


def _shape(place: Point, size: Size, name: str, kind: str, *, rounded: float = 5) -> Iterator[str]:
    corner = _corner(place, size)
    yield (
        f'<rect class="{kind}" {_at(corner)} width="{size.width:.1f}" '
        f'height="{size.height:.1f}" rx="{rounded:g}"/>'
    )
    yield _text(place, name)


def _cylinder(place: Point, size: Size, name: str, kind: str) -> Iterator[str]:
    left, top = _corner(place, size)
    width, height, bend = size.width, size.height, 6
    arc = f"a{width / 2:.1f} {bend} 0 0"
    yield (
        f'<path class="{kind}" d="M{left:.1f} {top + bend:.1f}{arc} 1 {width:.1f} 0'
        f'v{height - 2 * bend:.1f}{arc} 1 {-width:.1f} 0z"/>'
    )
    yield f'<path class="{kind}" d="M{left:.1f} {top + bend:.1f}{arc} 0 {width:.1f} 0"/>'
    yield _text(place.moved(0, bend / 2), name)


def _curve(
    start: Point, end: Point, route: Sequence[tuple[float, float, float]], half: float, kind: str
) -> str:
    """Return a line down from one shape to another, straight where it passes others."""
    x, y = start.moved(0, _HEIGHT / 2)
    drawn = f"M{x:.1f} {y:.1f}"
    for to_x, near, far in [*route, (end.x, end.y - half, end.y - half)]:
        middle = (y + near) / 2
        drawn += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {near:.1f}"
        drawn += f"V{far:.1f}" if far != near else ""
        x, y = to_x, far
    return f'<path class="{kind}" d="{drawn}"/>'


def _around(corner: Point, size: Size, inside: Point, beside: Point, *, reads: bool) -> str:
    """Return a line up from a topic to a node inside a box, or from a node; it passes the box."""
    right = corner.x + size.width + _CLEARANCE
    if reads:
        over = corner.y - _CLEARANCE
        drawn = f"M{beside.x:.1f} {beside.y:.1f}H{right:.1f}V{over:.1f}H{inside.x:.1f}"
        drawn += f"V{inside.y - _HEIGHT / 2:.1f}"
    else:
        under = corner.y + size.height + _CLEARANCE
        drawn = f"M{inside.x:.1f} {inside.y + _HEIGHT / 2:.1f}V{under:.1f}H{right:.1f}"
        drawn += f"V{beside.y:.1f}H{beside.x:.1f}"
    return f'<path class="flow" d="{drawn}"/>'


def _text(place: Point, text: str, kind: str = "") -> str:
    given = f' class="{kind}"' if kind else ""
    return f"<text{given} {_at(place)}>{escape(text)}</text>"


def _at(place: Point) -> str:
    return f'x="{place.x:.1f}" y="{place.y:.1f}"'


def _corner(middle: Point, size: Size) -> Point:
    return middle.moved(-size.width / 2, -size.height / 2)


def _width(text: str) -> float:
    return len(text) * _CHARACTER + 24
