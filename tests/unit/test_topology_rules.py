"""Each rule of a topology: who breaks it is told the node, and what to change."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from headwater import (
    AutoOffsetReset,
    BufferConfig,
    EmitStrategy,
    Joined,
    JoinWindows,
    KGroupedStream,
    KStream,
    KTable,
    Processor,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StoreSpec,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
)
from headwater.errors import TopologyError
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable


class Forwarding(Processor[Any, Any, Any, Any]):
    """Passes every record on."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


ONE: Final = Forwarding()


def kept(name: str) -> StoreSpec:
    return StoreSpec(name=name)


def begun() -> Topology:
    """A topology with one of everything."""
    return (
        Topology()
        .add_source("source", "in")
        .add_processor("step", Forwarding, "source")
        .add_sink("sink", "out", "step")
        .add_state_store(kept("kept"), "step")
        .add_global_store(kept("everywhere"), "all-source", "all", "keeper", Forwarding)
    )


def two_patterns_meet() -> None:
    texts: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
    topology = Topology().add_source("p", re.compile("x."), **texts)
    with TopologyTestDriver(topology.add_source("q", re.compile(".y"), **texts)) as driver:
        driver.pipe_raw("xy", b"k", b"v", 0)


BY_HAND: Final[dict[str, tuple[Callable[[], object], str, str]]] = {
    "duplicate source": (
        lambda: begun().add_source("source", "other"),
        "Node 'source' is already added",
        "another name",
    ),
    "duplicate processor": (
        lambda: begun().add_processor("step", Forwarding, "source"),
        "Node 'step' is already added",
        "another name",
    ),
    "duplicate sink": (
        lambda: begun().add_sink("sink", "other", "step"),
        "Node 'sink' is already added",
        "another name",
    ),
    "unknown predecessor of a processor": (
        lambda: begun().add_processor("p", Forwarding, "nobody"),
        "Parent 'nobody' of 'p'",
        "add it first",
    ),
    "unknown predecessor of a sink": (
        lambda: begun().add_sink("s", "other", "nobody"),
        "Parent 'nobody' of 's'",
        "add it first",
    ),
    "a processor its own predecessor": (
        lambda: begun().add_processor("p", Forwarding, "p"),
        "Node 'p' cannot be its own parent",
        "name another one",
    ),
    "a sink its own predecessor": (
        lambda: begun().add_sink("s", "other", "s"),
        "Node 's' cannot be its own parent",
        "name another one",
    ),
    "a sink as parent": (
        lambda: begun().add_processor("p", Forwarding, "sink"),
        "Sink 'sink' cannot be the parent of 'p'",
        "read its topic instead",
    ),
    "a processor without parent": (
        lambda: begun().add_processor("p", Forwarding),
        "Node 'p' has no parent",
        "name at least one",
    ),
    "a sink without parent": (
        lambda: begun().add_sink("s", "other"),
        "Node 's' has no parent",
        "name at least one",
    ),
    "a source without topic": (
        lambda: begun().add_source("s"),
        "Source 's' reads no topic",
        "name at least one",
    ),
    "a topic with two sources": (
        lambda: begun().add_source("s", "in"),
        "Topic 'in' is already read by 'source'",
        "read it once",
    ),
    "a topic of a global store with two sources": (
        lambda: begun().add_source("s", "all"),
        "Topic 'all' is already read by 'all-source'",
        "read it once",
    ),
    "a pattern that matches a topic of another source": (
        lambda: begun().add_source("s", re.compile("i.")),
        "The pattern of 's' matches topic 'in', which 'source' reads",
        "let it not match",
    ),
    "a topic that the pattern of another source matches": (
        lambda: begun().add_source("s", re.compile("x.")).add_source("t", "xy"),
        "Topic 'xy' of 't' matches the pattern of 's'",
        "read it once",
    ),
    "a topic that two patterns match, when it is seen": (
        two_patterns_meet,
        "topic xy matches two patterns, '.y' and 'x.'",
        "let only one of them match",
    ),
    "another store of a name": (
        lambda: begun().add_state_store(kept("kept")),
        "A different store is already called 'kept' (of 'step')",
        "rename one of them",
    ),
    "a store of a global one's name": (
        lambda: begun().add_state_store(kept("everywhere")),
        "'everywhere' is the name of a global store",
        "another name",
    ),
    "a global store of another one's name": (
        lambda: begun().add_global_store(kept("kept"), "g", "g", "k", Forwarding),
        "A store is already called 'kept'",
        "rename it",
    ),
    "a second global store of a name": (
        lambda: begun().add_global_store(kept("everywhere"), "g", "g", "k", Forwarding),
        "'everywhere' is the name of a global store",
        "another name",
    ),
    "a global store's source and processor of one name": (
        lambda: begun().add_global_store(kept("g"), "g", "g", "g", Forwarding),
        "Source and processor 'g'",
        "rename one of them",
    ),
    "a global store connected": (
        lambda: begun().connect_processor_and_state_stores("step", "everywhere"),
        "'everywhere' is the name of a global store",
        "without being connected",
    ),
    "a store connected to a source": (
        lambda: begun().connect_processor_and_state_stores("source", "kept"),
        "Cannot connect store 'kept' to 'source'",
        "connect it to a processor",
    ),
    "a store connected to a sink": (
        lambda: begun().connect_processor_and_state_stores("sink", "kept"),
        "Cannot connect store 'kept' to 'sink'",
        "connect it to a processor",
    ),
    "an unknown store connected": (
        lambda: begun().connect_processor_and_state_stores("step", "nothing"),
        "Store 'nothing' is not added yet",
        "add it before connecting 'step'",
    ),
    "a store connected to nobody": (
        lambda: begun().connect_processor_and_state_stores("nobody", "kept"),
        "Processor 'nobody' is not added yet",
        "add it before connecting 'kept'",
    ),
    "no store connected": (
        lambda: begun().connect_processor_and_state_stores("step"),
        "No store is named for 'step'",
        "name at least one",
    ),
    "a supplier of one instance": (
        lambda: begun().add_processor("p", lambda: ONE, "source"),
        "The processor supplier of 'p' returns the same instance twice",
        "return a new one each time",
    ),
    "an instance for a supplier": (
        lambda: begun().add_processor("p", ONE, "source"),  # type: ignore[arg-type]
        "The processor supplier of 'p'",
        "is not a function: pass one",
    ),
    "a name with a space": (
        lambda: begun().add_source("a b", "x"),
        "The node name 'a b'",
        "replace the others",
    ),
    "an empty name": (lambda: begun().add_source("", "x"), "The name of a node", "not empty"),
    "a name of a dot": (
        lambda: begun().add_source(".", "x"),
        "A node cannot be called '.'",
        "another name",
    ),
    "a name of 300 letters": (
        lambda: begun().add_source("x" * 300, "x"),
        "The node name 'xxxxxxxxxxxxxxxxxxxx'",
        "shorten it",
    ),
    "repartition topics of other sizes": (
        lambda: (
            Topology()
            .add_repartition_topic("a-repartition", 3)
            .add_repartition_topic("b-repartition", 4)
            .add_source("a", "a-repartition")
            .add_source("b", "b-repartition")
            .copartition_sources(["a", "b"])
            .validate()
        ),
        "a-repartition (3), b-repartition (4)",
        "give them the same number",
    ),
}


def stream(topic: str = "in") -> KStream[Any, Any]:
    return StreamsBuilder().stream(topic)


def table(topic: str = "t") -> KTable[Any, Any]:
    return StreamsBuilder().table(topic)


def grouped(topic: str = "in") -> KGroupedStream[Any, Any]:
    return stream(topic).group_by_key()


def built(draw: Callable[[StreamsBuilder], object]) -> Topology:
    builder = StreamsBuilder()
    draw(builder)
    return builder.build()


def first(one: Any, *_others: Any) -> Any:
    return one


LATEST: Final = AutoOffsetReset.latest()
WITHIN: Final = JoinWindows.of(before=1, after=1, grace=0)
UNBOUNDED: Final = BufferConfig.unbounded()
ONE_BUILDER: Final = "build both with one StreamsBuilder"

DRAWN: Final[dict[str, tuple[Callable[[], object], str, str]]] = {
    "streams whose topics overlap": (
        lambda: built(lambda b: (b.stream(["a", "b"]), b.stream(["b", "c"]))),
        "Topic 'b' is read by 'KSTREAM-SOURCE-0000000000' and 'KSTREAM-SOURCE-0000000001'",
        "read the same set in both",
    ),
    "streams of one topic that begin elsewhere": (
        lambda: built(lambda b: (b.stream("a", offset_reset=LATEST), b.stream("a"))),
        "'KSTREAM-SOURCE-0000000000' and 'KSTREAM-SOURCE-0000000001' have two offset reset",
        "choose one of them",
    ),
    "a stream and a table of one topic": (
        lambda: built(lambda b: (b.stream("a"), b.table("a"))),
        "Topic 'a' is already read by 'KSTREAM-SOURCE-0000000000'",
        "read it once",
    ),
    "a stream and a global table of one topic": (
        lambda: built(lambda b: (b.stream("a"), b.global_table("a"))),
        "Topic 'a' is already read by 'KSTREAM-SOURCE-0000000000'",
        "read it once",
    ),
    "two tables of one store name": (
        lambda: built(lambda b: (b.table("a", store="s"), b.table("b", store="s"))),
        "A different store is already called 's' (of 'KTABLE-SOURCE-0000000001')",
        "rename one of them",
    ),
    "two repartitions of one name": (
        lambda: built(
            lambda b: (b.stream("a").repartition(name="x"), b.stream("b").repartition(name="x"))
        ),
        "Node 'x-repartition-filter' is already added",
        "another name",
    ),
    "a store that a processor names and nobody has added": (
        lambda: built(lambda b: b.stream("a").process(Forwarding, "nothing")),
        "Store 'nothing' is not added yet",
        "add it before connecting 'KSTREAM-PROCESSOR-0000000001'",
    ),
    "repartitioned streams of other sizes joined": (
        lambda: built(
            lambda b: (
                b.stream("a")
                .repartition(partitions=3, name="x")
                .join(b.stream("b").repartition(partitions=4, name="y"), first, WITHIN)
            )
        ),
        "x-repartition (3), y-repartition (4)",
        "give them the same number",
    ),
    "streams of two builders joined": (
        lambda: stream().join(stream(), first, WITHIN),
        "'KSTREAM-SOURCE-0000000000'",
        ONE_BUILDER,
    ),
    "a stream and a table of two builders joined": (
        lambda: stream().left_join(table(), first),
        "Cannot left join 'KSTREAM-SOURCE-0000000000' with 'KTABLE-SOURCE-0000000002'",
        ONE_BUILDER,
    ),
    "a stream and a global table of two builders joined": (
        lambda: stream().join(StreamsBuilder().global_table("g"), first, first),
        "Cannot join 'KSTREAM-SOURCE-0000000000' with global table",
        ONE_BUILDER,
    ),
    "tables of two builders joined": (
        lambda: table().outer_join(table(), first),
        "Cannot outer join 'KTABLE-SOURCE-0000000002'",
        ONE_BUILDER,
    ),
    "tables of two builders joined by a foreign key": (
        lambda: table().left_join(table(), first, first),
        "Cannot left join 'KTABLE-SOURCE-0000000002'",
        ONE_BUILDER,
    ),
    "streams of two builders merged": (
        lambda: stream().merge(stream()),
        "Cannot merge 'KSTREAM-SOURCE-0000000000'",
        ONE_BUILDER,
    ),
    "streams of two builders cogrouped": (
        lambda: grouped().cogroup(first).cogroup(grouped(), first),
        "Cannot cogroup 'KSTREAM-SOURCE-0000000000'",
        ONE_BUILDER,
    ),
    "negative grace of time windows": (
        lambda: TimeWindows.of_size_and_grace(10, -1),
        "TimeWindows: a grace of -1 ms is negative",
        "choose 0 ms or more",
    ),
    "negative grace of sliding windows": (
        lambda: SlidingWindows.of_time_difference_and_grace(10, -1),
        "SlidingWindows: a grace of -1 ms is negative",
        "choose 0 ms or more",
    ),
    "negative grace of sessions": (
        lambda: SessionWindows.of_inactivity_gap_and_grace(10, -1),
        "SessionWindows: a grace of -1 ms is negative",
        "choose 0 ms or more",
    ),
    "negative grace of a join of streams": (
        lambda: JoinWindows.of_time_difference_and_grace(10, timedelta(seconds=-1)),
        "JoinWindows: a grace of -1000 ms is negative",
        "choose 0 ms or more",
    ),
    "negative grace of a join with a table": (
        lambda: Joined(grace=-1),
        "Joined: grace is negative",
        "choose 0 ms or more",
    ),
    "grace of a join with a table that has no versions": (
        lambda: built(lambda b: b.stream("s").join(b.table("t", store="kept"), first, grace=5)),
        "join 'KSTREAM-JOIN-0000000003' with a grace of 5 ms: table store 'kept'",
        "give it a history_retention",
    ),
    "retention below windows": (
        lambda: grouped().windowed_by(TimeWindows.of(size=10, grace=5)).count(retention=14),
        "'KSTREAM-AGGREGATE-STATE-STORE-0000000002': a retention of 14 ms is shorter",
        "15 ms: choose at least that",
    ),
    "retention below sliding windows": (
        lambda: (
            grouped()
            .windowed_by(SlidingWindows.of(time_difference=10, grace=5))
            .reduce(max, store="kept", retention=24)
        ),
        "Store 'kept': a retention of 24 ms is shorter",
        "25 ms: choose at least that",
    ),
    "retention below sessions": (
        lambda: (
            grouped()
            .windowed_by(SessionWindows.of(inactivity_gap=10, grace=5))
            .count(store="kept", retention=14)
        ),
        "Store 'kept': a retention of 14 ms is shorter",
        "15 ms: choose at least that",
    ),
    "retention below the windows of a store": (
        lambda: Stores.persistent_window_store("kept", 5, 10),
        "Store 'kept': a retention of 5 ms is shorter",
        "10 ms: choose at least that",
    ),
    "suppress until windows close that are none": (
        lambda: table().suppress(Suppressed.until_window_closes(UNBOUNDED)),
        "suppress() 'KTABLE-SUPPRESS-0000000003'",
        "take Suppressed.until_time_limit(...)",
    ),
    "suppress of a versioned table": (
        lambda: built(
            lambda b: b.table("t", store="kept", history_retention=5).suppress(
                Suppressed.until_time_limit(5, UNBOUNDED).with_name("late")
            )
        ),
        "suppress() 'late': the table is versioned",
        "without history_retention",
    ),
    "results when windows close that never do": (
        lambda: (
            grouped()
            .windowed_by(UnlimitedWindows.of())
            .emit_strategy(EmitStrategy.on_window_close())
        ),
        "emit_strategy(): unlimited windows never close",
        "choose on_window_update",
    ),
    "a split that is complete": (
        lambda: (split := stream().split(), split.default_branch(), split.branch(first)),
        "The split 'KSTREAM-BRANCH-0000000001' is complete",
        "call split() again",
    ),
    "a table of a pattern": (
        lambda: StreamsBuilder().table(re.compile("t")),  # type: ignore[arg-type]
        "The name of a topic",
        "must be a text",
    ),
}


@pytest.mark.parametrize(
    ("broken", "told", "advice"), [*BY_HAND.values(), *DRAWN.values()], ids=[*BY_HAND, *DRAWN]
)
def test_who_breaks_a_rule_is_told_where_and_what_to_change(
    broken: Callable[[], object], told: str, advice: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        broken()

    said = str(caught.value)
    assert told in said
    assert advice in said
    assert "\n" not in said


def test_what_java_takes_without_a_word_is_taken() -> None:
    topology = Topology().add_source("p", re.compile("x.")).add_source("q", re.compile(".y"))
    logged = kept("g").with_logging_enabled({})
    topology.add_global_store(logged, "g", "g", "k", Forwarding)
    shared = kept("shared")

    topology.add_state_store(shared).add_state_store(shared)

    assert not topology.global_stores["g"].logging
