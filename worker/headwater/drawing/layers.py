"""Where the parts of a drawing go: in layers from top to bottom, with few crossings.

Sugiyama's method: break circles, give each vertex a layer, let long edges pass through the layers
between, order each layer by the neighbours of its vertices, then move them above one another.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Vertex: TypeAlias = "str | int"
"""A name; a number stands for a long edge on its way through a layer."""

_SWEEPS: Final = 13
_PASSING: Final = 10
"""How wide a long edge is where it passes a layer."""


class Size(NamedTuple):
    """How large a vertex is."""

    width: float
    height: float


class Point(NamedTuple):
    """A place; y grows downwards."""

    x: float
    y: float

    def moved(self, dx: float, dy: float) -> Point:
        """Return the place that lies so far right of and below it."""
        return Point(self.x + dx, self.y + dy)


class Edge(NamedTuple):
    """From one vertex to another, from and to places right of their middles by these offsets."""

    start: str
    end: str
    start_dx: float = 0
    end_dx: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What lies between vertices."""

    beside: float
    between: float
    level: bool = False
    """The vertices of a layer begin at one height; otherwise their middles are level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything is.

    Attributes:
        places: the middle of each vertex.
        routes: for each edge in order the heights of the layers it passes, as (x, top, bottom).
        size: of the whole.
    """

    places: Mapping[str, Point]
    routes: Sequence[Sequence[tuple[float, float, float]]]
    size: Size


def arrange(
    sizes: Mapping[str, Size], edges: Sequence[Edge], gaps: Gaps, last: Iterable[str] = ()
) -> Layout:
    """Return a layout of the vertices; those in ``last`` are in the lowest layer."""
    forward = _without_circles(sizes, edges)
    ranks = _ranks(sizes, forward, frozenset(last))
    grid = _Grid({name: size for name, size in sizes.items()}, ranks, forward)  # noqa: C416
    grid.order()
    return grid.placed(gaps, edges)


def _without_circles(sizes: Mapping[str, Size], edges: Sequence[Edge]) -> list[Edge]:
    """Turn the edges that close a circle round."""
    below: defaultdict[str, list[str]] = defaultdict(list)
    for edge in edges:
        below[edge.start].append(edge.end)
    state: dict[str, int] = {}
    closing: set[tuple[str, str]] = set()
    for root in sizes:
        stack = [(root, iter(below[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            vertex, children = stack[-1]
            child = next(children, None)
            if child is None:
                state[vertex] = 2
                stack.pop()
            elif state.get(child) == 1:
                closing.add((vertex, child))
            elif child not in state:
                state[child] = 1
                stack.append((child, iter(below[child])))
    return [
        Edge(edge.end, edge.start, edge.end_dx, edge.start_dx)
        if (edge.start, edge.end) in closing
        else edge
        for edge in edges
    ]


def _ranks(
    sizes: Mapping[str, Size], edges: Sequence[Edge], last: frozenset[str]
) -> dict[Vertex, int]:
    """Layer of each vertex: below all above it, and above all below it, as low as the first."""
    parents: defaultdict[str, list[str]] = defaultdict(list)
    for edge in edges:
        if edge.start != edge.end:
            parents[edge.end].append(edge.start)
    ranks: dict[str, int] = {}

    def rank(vertex: str) -> int:
        if vertex not in ranks:
            ranks[vertex] = 1 + max(map(rank, parents[vertex]), default=-1)
        return ranks[vertex]

    lowest = max(map(rank, sizes), default=0)
    return {vertex: lowest if vertex in last else ranks[vertex] for vertex in sizes}


@dataclass
class _Grid:
    sizes: dict[Vertex, Size]
    ranks: dict[Vertex, int]
    edges: list[Edge]
    layers: list[list[Vertex]] = field(init=False)
    chains: list[list[Vertex]] = field(init=False)
    """By edge: the vertices it passes, its ends among them."""

    def __post_init__(self) -> None:
        self.layers = [[] for _ in range(max(self.ranks.values(), default=-1) + 1)]
        for vertex in self.sizes:
            self.layers[self.ranks[vertex]].append(vertex)
        self.chains = []
        numbers = itertools.count()
        self._segments: defaultdict[int, list[tuple[Vertex, float, Vertex, float]]]
        self._segments = defaultdict(list)
        self._above: defaultdict[Vertex, list[tuple[Vertex, float]]] = defaultdict(list)
        self._below: defaultdict[Vertex, list[tuple[Vertex, float]]] = defaultdict(list)
        for edge in self.edges:
            chain: list[Vertex] = [edge.start]
            for layer in range(self.ranks[edge.start] + 1, self.ranks[edge.end]):
                passing = next(numbers)
                self.sizes[passing] = Size(_PASSING, 0)
                self.layers[layer].append(passing)
                chain.append(passing)
            chain.append(edge.end)
            self.chains.append(chain)
            for position, (upper, lower) in enumerate(itertools.pairwise(chain)):
                at_start = edge.start_dx if position == 0 else 0
                at_end = edge.end_dx if position == len(chain) - 2 else 0
                segment = (upper, at_start, lower, at_end)
                self._segments[self.ranks[edge.start] + position].append(segment)
                self._below[upper].append((lower, at_end - at_start))
                self._above[lower].append((upper, at_start - at_end))

    def order(self) -> None:
        """Order the layers so that few edges cross."""
        best, fewest = [list(layer) for layer in self.layers], self._crossings()
        widest = max(sum(self.sizes[v].width for v in layer) for layer in self.layers)
        for sweep in range(_SWEEPS):
            downwards = sweep % 2 == 0
            layers = self.layers[1:] if downwards else self.layers[-2::-1]
            near = self._above if downwards else self._below
            places = self._fractions()
            for layer in layers:
                keys = {
                    vertex: sum(places[other] + dx / widest for other, dx in near[vertex])
                    / len(near[vertex])
                    if near[vertex]
                    else places[vertex]
                    for vertex in layer
                }
                layer.sort(key=keys.__getitem__)
                places |= _fractions(layer)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _fractions(self) -> dict[Vertex, float]:
        return {v: place for layer in self.layers for v, place in _fractions(layer).items()}

    def _crossings(self) -> int:
        count = 0
        places = {v: place for layer in self.layers for place, v in enumerate(layer)}
        for segments in self._segments.values():
            ends = sorted(
                ((places[upper], from_dx), (places[lower], to_dx))
                for upper, from_dx, lower, to_dx in segments
            )
            count += sum(a[0] < b[0] and a[1] > b[1] for a, b in itertools.combinations(ends, 2))
        return count

    def placed(self, gaps: Gaps, edges: Sequence[Edge]) -> Layout:
        """Give every vertex its place."""
        xs = self._across(gaps.beside)
        heights = [max((self.sizes[v].height for v in layer), default=0) for layer in self.layers]
        tops = list(itertools.accumulate((h + gaps.between for h in heights), initial=0.0))
        left = min((xs[v] - self.sizes[v].width / 2 for v in xs), default=0)
        right = max((xs[v] + self.sizes[v].width / 2 for v in xs), default=0)
        places = {
            vertex: Point(
                xs[vertex] - left,
                tops[layer] + (self.sizes[vertex].height if gaps.level else heights[layer]) / 2,
            )
            for layer, vertices in enumerate(self.layers)
            for vertex in vertices
        }
        routes = []
        for edge, given, chain in zip(self.edges, edges, self.chains, strict=True):
            passed = [
                (places[v].x, tops[layer], tops[layer] + heights[layer])
                for layer, v in enumerate(chain[1:-1], self.ranks[edge.start] + 1)
            ]
            routes.append(passed if edge.start == given.start else passed[::-1])
        named = {vertex: place for vertex, place in places.items() if isinstance(vertex, str)}
        height = max(tops[-1] - gaps.between, 0)
        return Layout(places=named, routes=routes, size=Size(right - left, height))

    def _across(self, gap: float) -> dict[Vertex, float]:
        xs: dict[Vertex, float] = {}
        for layer in self.layers:
            xs |= self._spread(layer, dict.fromkeys(layer, 0.0), gap)
        for sweep in range(_SWEEPS):
            downwards = sweep % 2 == 0
            for layer in self.layers if downwards else self.layers[::-1]:
                wanted = {}
                for vertex in layer:
                    above, below = self._above[vertex], self._below[vertex]
                    near = (above or below) if downwards else (below or above)
                    wanted[vertex] = (
                        sum(xs[other] + dx for other, dx in near) / len(near)
                        if near
                        else xs[vertex]
                    )
                xs |= self._spread(layer, wanted, gap)
        return xs

    def _spread(
        self, layer: Sequence[Vertex], wanted: Mapping[Vertex, float], gap: float
    ) -> dict[Vertex, float]:
        """Bring vertices as near as can be to where they are wanted, in order, without overlap."""
        offsets: list[float] = []
        before = -gap
        for vertex in layer:
            half = self.sizes[vertex].width / 2
            offsets.append((offsets[-1] if offsets else -half) + before + gap + half)
            before = half
        # Pooling adjacent violators: blocks of touching vertices share the mean of their wishes.
        blocks: list[tuple[float, int]] = []
        for vertex, offset in zip(layer, offsets, strict=True):
            total, count = wanted[vertex] - offset, 1
            while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
                more, others = blocks.pop()
                total, count = total + more, count + others
            blocks.append((total, count))
        shifts = [total / count for total, count in blocks for _ in range(count)]
        return {v: s + o for v, s, o in zip(layer, shifts, offsets, strict=True)}


def _fractions(layer: Sequence[Vertex]) -> dict[Vertex, float]:
    return {vertex: (place + 0.5) / len(layer) for place, vertex in enumerate(layer)}
