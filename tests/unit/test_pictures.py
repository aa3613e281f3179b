"""Topologies as pictures: everything is shown once, in its box, and nothing lies on another."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from examples.word_count import app as word_count
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import circle, payments

from headwater import (
    BufferConfig,
    JoinWindows,
    StoreSpec,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from headwater.drawing.graph import drawing_of
from headwater.drawing.layers import Edge, Gaps, Size, arrange
from headwater.drawing.svg import svg
from headwater.dsl.loading import build_topology

if TYPE_CHECKING:
    from headwater import Topology

TAG = "{http://www.w3.org/2000/svg}"


class Shape(NamedTuple):
    """A rectangle of a picture."""

    kind: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Shape) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def holds(self, other: Shape) -> bool:
        return (
            self.left <= other.left
            and self.top <= other.top
            and self.right >= other.right
            and self.bottom >= other.bottom
        )


def shapes(drawn: str) -> list[Shape]:
    found = []
    for rect in ET.fromstring(drawn).iter(f"{TAG}rect"):
        kind = rect.get("class")
        if kind is not None:
            x, y, w, h = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
            found.append(Shape(kind, x, y, x + w, y + h))
    return found


def texts(drawn: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(drawn).iter(f"{TAG}text")]


def branching(builder: StreamsBuilder) -> None:
    shared = StoreSpec(name="shared")
    orders, refunds = builder.stream("orders"), builder.stream(["refunds", "returns"])
    booked = orders.process(lambda record: record, shared)
    both = refunds.process(lambda record: record, shared).merge(orders.map_values(str))
    both.group_by(lambda _k, v: v).count(store="counts").to_stream().to("counted")
    branches = booked.split("kind-").branch(lambda _k, _v: True, name="large")
    branches.default_branch(name="rest")["kind-rest"].to(lambda _k, v, _context: str(v))
    builder.table("customers", store="customers").to_stream().to("orders")


def by_foreign_key(builder: StreamsBuilder) -> None:
    customers = builder.table("customers", store="customers-store")
    orders = builder.table("orders", store="orders-store")
    orders.left_join(customers, str, lambda order, _: order, name="bought", store="joined")


def within_windows(builder: StreamsBuilder) -> None:
    within = JoinWindows.of(before=5, after=5, grace=1)
    clicks = builder.stream("clicks").select_key(lambda _key, value: value)
    pairs = builder.stream("views").outer_join(clicks, lambda *both: both, within, name="pairs")
    tumbling = pairs.group_by_key().windowed_by(TimeWindows.of(size=9, grace=0))
    final = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")
    tumbling.count(store="counts").suppress(final).to_stream().to("told")


def everywhere(builder: StreamsBuilder) -> None:
    countries = builder.global_table("countries", store="countries-store")
    events = builder.stream(re.compile("events-[a-z]+"))
    placed = events.join(countries, lambda key, _: key, lambda event, _: event, name="placed")
    placed.left_join(countries, lambda key, _: key, lambda event, _: event, name="again").to("out")


TOPOLOGIES = [
    pytest.param(
        build_topology(build), id=f"{build.__module__.rpartition('.')[2]}-{build.__name__}"
    )
    for build in (
        word_count.build,
        circle.build,
        payments.build,
        branching,
        by_foreign_key,
        within_windows,
        everywhere,
    )
]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_node_store_and_topic_is_drawn_once(topology: Topology) -> None:
    drawn = texts(svg(drawing_of(topology)))

    named = [*topology.nodes, *topology.stores, *topology.global_stores]
    named += {store for group in drawing_of(topology).groups for _, store in group.looked_up}
    read = {
        topic for group in topology.groups for source in group.sources for topic in source.reads
    }
    expected = sorted([*named, *read])
    assert sorted(text for text in drawn if text in expected) == expected
    assert [t for t in drawn if t.startswith("Sub-topology")] == [
        group.title for group in drawing_of(topology).groups
    ]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_nodes_lie_in_boxes_topics_outside_and_nothing_on_another(topology: Topology) -> None:
    found = shapes(svg(drawing_of(topology)))
    boxes = [shape for shape in found if shape.kind == "box"]
    topics = [shape for shape in found if shape.kind.startswith("topic")]
    nodes = [shape for shape in found if shape.kind in ("node", "source", "sink")]

    assert len(nodes) == len(topology.nodes)
    assert all(sum(box.holds(node) for box in boxes) == 1 for node in nodes)
    for alike in (boxes + topics, nodes):
        assert not any(one.overlaps(other) for one, other in itertools.combinations(alike, 2))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_flow_and_every_use_of_a_store_is_a_line(topology: Topology) -> None:
    paths = [
        path.get("class") for path in ET.fromstring(svg(drawing_of(topology))).iter(f"{TAG}path")
    ]

    read = sum(len(source.reads) for group in topology.groups for source in group.sources)
    between = read + sum(len(group.sinks) for group in topology.groups)
    inside = sum(len(getattr(node, "parents", ())) for node in topology.nodes.values())
    uses = sum(len(getattr(node, "stores", ())) for node in topology.nodes.values())
    assert paths.count("flow") == between + inside
    uses += sum(len(group.looked_up) for group in drawing_of(topology).groups)
    assert paths.count("uses") == uses


def test_what_a_function_names_is_drawn_as_the_function() -> None:
    drawn = svg(drawing_of(build_topology(branching)))

    assert "<lambda>()" in texts(drawn)


def test_a_topic_that_is_read_above_goes_around_its_box() -> None:
    drawn = svg(drawing_of(build_topology(circle.build)))
    box = next(shape for shape in shapes(drawn) if shape.kind == "box")

    paths = [str(path.get("d")) for path in ET.fromstring(drawn).iter(f"{TAG}path")]
    assert sum(f"H{box.right + 18:.1f}" in path for path in paths) == 1


GRAPHS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1]),
    max_size=25,
    unique=True,
)


@given(pairs=GRAPHS, widths=st.lists(st.integers(10, 300), min_size=10, max_size=10))
def test_any_graph_is_laid_out_without_overlap(pairs: list[Any], widths: list[int]) -> None:
    sizes = {str(number): Size(width, 20) for number, width in enumerate(widths)}
    edges = [Edge(str(start), str(end)) for start, end in pairs]

    layout = arrange(sizes, edges, Gaps(beside=10, between=15), last=["3"])

    placed = [
        Shape(name, x - sizes[name].width / 2, y - 10, x + sizes[name].width / 2, y + 10)
        for name, (x, y) in layout.places.items()
    ]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(placed, 2))
    assert len(layout.routes) == len(edges)
    whole = Shape("", -0.001, -0.001, layout.size.width + 0.001, layout.size.height + 0.001)
    assert all(whole.holds(shape) for shape in placed)


def test_a_chain_is_a_straight_line() -> None:
    sizes = {name: Size(width, 20) for name, width in zip("abcd", (50, 200, 30, 90), strict=True)}
    edges: list[Edge] = [Edge("a", "b"), Edge("b", "c"), Edge("c", "d")]

    layout = arrange(sizes, edges, Gaps(beside=10, between=15))

    assert {place.x for place in layout.places.values()} == {100}
    assert [layout.places[name].y for name in "abcd"] == [10, 45, 80, 115]
