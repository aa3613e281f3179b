"""Topologies put together by hand: what is refused, how nodes group, what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater import Processor, Record, StoreSpec, Topology
from headwater.errors import TopologyError
from headwater.model.topics import ChangelogTopic, RepartitionTopic

if TYPE_CHECKING:
    from collections.abc import Callable


class Forwarding(Processor[Any, Any, Any, Any]):
    """Passes every record on."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


ONE = Forwarding()


def _started() -> Topology:
    return Topology().add_source("source", "in").add_processor("step", Forwarding, "source")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda t: t.add_source("source", "other"), "already added"),
        (lambda t: t.add_processor("step", Forwarding, "source"), "already added"),
        (lambda t: t.add_source("again", "in"), "already read by 'source'"),
        (lambda t: t.add_source("none"), "reads no topic"),
        (lambda t: t.add_source("bad topic", "x"), "may only hold"),
        (lambda t: t.add_source("s", "bad/topic"), "may only hold"),
        (lambda t: t.add_processor("p", Forwarding), "has no parent"),
        (lambda t: t.add_processor("p", Forwarding, "p"), "its own parent"),
        (lambda t: t.add_processor("p", Forwarding, "later"), "not added yet"),
        (lambda t: t.add_processor("p", lambda: ONE, "source"), "same instance twice"),
        (lambda t: t.add_processor("p", ONE, "source"), "is not a function"),
        (lambda t: t.add_sink("out", "out").add_sink("s", "x", "out"), "has no parent"),
        (lambda t: t.add_sink("out", "out", "step").add_sink("s", "x", "out"), "Sink 'out'"),
        (lambda t: t.add_state_store(StoreSpec(name="s"), "nobody"), "'nobody' is not added"),
        (lambda t: t.add_state_store(StoreSpec(name="s"), "source"), "source or a sink"),
        (lambda t: t.connect_processor_and_state_stores("step", "s"), "'s' is not added"),
        (lambda t: t.connect_processor_and_state_stores("step"), "No store is named for 'step'"),
        (
            lambda t: t.add_state_store(StoreSpec(name="s")).add_state_store(StoreSpec(name="s")),
            "A different store",
        ),
        (lambda t: t.add_state_store(StoreSpec(name="s" * 250)), "exceeds 249"),
        (lambda t: t.add_repartition_topic("x-repartition", 0), "at least one partition"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_named(
    build: Callable[[Topology], object], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        build(_started())


def test_the_same_store_instance_may_be_added_twice_to_share_it() -> None:
    store = StoreSpec(name="shared")

    topology = _started().add_state_store(store, "step").add_state_store(store, "step")

    assert topology.subtopologies[0].stores == (store,)


def test_nodes_that_share_a_store_share_a_sub_topology() -> None:
    topology = (
        Topology()
        .add_source("a", "topic-a")
        .add_source("b", "topic-b")
        .add_source("c", "topic-c")
        .add_processor("from-a", Forwarding, "a")
        .add_processor("from-b", Forwarding, "b")
        .add_processor("from-c", Forwarding, "c")
        .add_state_store(StoreSpec(name="shared"), "from-a", "from-c")
    )

    names = [[node.name for node in group.nodes] for group in topology.subtopologies]

    assert names == [["a", "c", "from-a", "from-c"], ["b", "from-b"]]
    assert [group.id for group in topology.subtopologies] == [0, 1]


def test_sub_topologies_follow_what_is_added_later() -> None:
    topology = Topology().add_source("a", "topic-a").add_source("b", "topic-b")
    assert len(topology.subtopologies) == 2

    topology.add_processor("both", Forwarding, "a", "b")

    assert len(topology.subtopologies) == 1
    assert topology.subtopologies[0].source_topics == ("topic-a", "topic-b")


def test_groups_of_co_partitioned_sources_that_share_a_topic_become_one() -> None:
    topology = Topology()
    for name in ("a", "b", "c", "d", "e"):
        topology.add_source(name, f"topic-{name}")

    topology.copartition_sources(["a", "b"])
    topology.copartition_sources(["d", "e"])
    topology.copartition_sources(["b", "c"])

    groups = {frozenset(group) for group in topology.copartition_groups}
    assert groups == {
        frozenset({"topic-a", "topic-b", "topic-c"}),
        frozenset({"topic-d", "topic-e"}),
    }


def test_repartition_topics_that_must_agree_may_not_enforce_different_counts() -> None:
    topology = Topology()
    for name, partitions in (("a", 3), ("b", 4), ("c", None)):
        topology.add_repartition_topic(f"{name}-repartition", partitions)
        topology.add_source(name, f"{name}-repartition")

    topology.copartition_sources(["a", "c"]).validate()
    topology.copartition_sources(["a", "b"])

    with pytest.raises(TopologyError, match=r"a-repartition \(3\), b-repartition \(4\)"):
        topology.validate()


def _reported() -> Topology:
    topology = Topology().add_source("source", "in").add_processor("key", Forwarding, "source")
    topology.add_repartition_topic("counts-repartition", 5)
    topology.add_sink("sink", "counts-repartition", "key")
    topology.add_sink("dynamic", lambda _key, _value, _context: "somewhere", "key")
    topology.add_source("again", "counts-repartition")
    topology.add_processor("count", Forwarding, "again")
    topology.add_state_store(StoreSpec(name="counts", topic_config={"segment.bytes": "1"}), "count")
    topology.add_state_store(StoreSpec(name="private", logging=False), "count")
    topology.add_sink("out", "out", "count")
    return topology


def test_a_report_decorates_internal_topics_and_no_others() -> None:
    report = _reported().report("shop")

    first, second = report.subtopologies
    assert first.source_topics == ("in",)
    assert first.sink_topics == ("shop-counts-repartition",)
    assert first.changelogs == ()
    assert second.source_topics == ()
    assert second.repartition_sources == (
        RepartitionTopic(name="shop-counts-repartition", partitions=5),
    )
    assert second.sink_topics == ("out",)
    assert second.changelogs == (
        ChangelogTopic(
            name="shop-counts-changelog",
            store="counts",
            configs={"segment.bytes": "1"},
        ),
    )
    assert set(second.stores) == {"counts", "private"}
    assert report.description == _reported().describe()


def test_equal_topologies_have_equal_hashes_and_others_have_others() -> None:
    report = _reported().report("shop")

    assert _reported().report("shop").hash == report.hash
    assert _reported().report("other").hash != report.hash
    assert _reported().add_source("more", "more").report("shop").hash != report.hash


def test_a_processor_has_its_context_from_init_on() -> None:
    context: Any = object()
    processor = Forwarding()

    processor.init(context)
    processor.close()

    assert processor.context is context


def test_a_record_changes_by_making_another() -> None:
    record = Record("k", 1, 5, [("h", b"x")])

    assert record.with_key(7) == Record(7, 1, 5, [("h", b"x")])
    assert record.with_value(2).with_timestamp(6).with_headers(None) == Record("k", 2, 6)
    assert record == Record("k", 1, 5, [("h", b"x")])
