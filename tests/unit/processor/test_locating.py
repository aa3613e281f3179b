"""Where a thread is, seen by another: node and record of a function that does not return."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from headwater import (
    Consumed,
    ContextualProcessor,
    PunctuationType,
    Record,
    Serdes,
    StoreKind,
    StoreSpec,
    StreamsBuilder,
)
from headwater.ids import TaskId, TopicPartition
from headwater.native.locating import locate
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater import KStream
    from headwater.native.messages import Located

TEXT = {"key_serde": Serdes.string, "value_serde": Serdes.string}


class Stuck:
    """A user's function that returns when it is let go, at one value only."""

    def __init__(self) -> None:
        self.is_in = threading.Event()
        self.may_go = threading.Event()

    def __call__(self, value: Any) -> Any:
        if value == "stuck":
            self.is_in.set()
            assert self.may_go.wait(30)
        return value


@contextmanager
def located(
    draw: Callable[[KStream[Any, Any], Stuck], Any], value: str = "stuck", topics: int = 1
) -> Iterator[Located]:
    stuck = Stuck()
    builder = StreamsBuilder()
    names = [f"lines-{number}" for number in range(topics)]
    draw(builder.stream(names, **TEXT), stuck)
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        topic = driver.create_input_topic(names[-1], Serdes.string, Serdes.string)
        topic.pipe_input("a", "fine", 0)
        thread = threading.Thread(target=topic.pipe_input, args=("a", value, 10))
        thread.start()
        try:
            assert stuck.is_in.wait(30)
            assert thread.ident is not None
            yield locate(thread.ident)
        finally:
            stuck.may_go.set()
            thread.join(30)


class Held(ContextualProcessor[Any, Any, Any, Any]):
    def __init__(self, stuck: Callable[[Any], Any]) -> None:
        self.stuck = stuck

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(self.stuck(record.value)))


class Timed(ContextualProcessor[Any, Any, Any, Any]):
    def __init__(self, stuck: Stuck) -> None:
        self.stuck = stuck
        self.calls = 0

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(1, PunctuationType.STREAM_TIME, self.punctuate)

    def punctuate(self, _: int) -> None:
        self.calls += 1
        self.stuck("stuck" if self.calls > 1 else "fine")

    def process(self, record: Record[Any, Any]) -> None: ...


def counted(stream: KStream[Any, Any], stuck: Stuck) -> Any:
    def step(_: Any, value: Any, total: int) -> int:
        stuck(value)
        return total + 1

    grouped = stream.map_values(str.lower).group_by_key(**TEXT)
    return grouped.aggregate(lambda: 0, step, store="counts", value_serde=Serdes.long)


CHAINS: dict[str, tuple[Callable[[KStream[Any, Any], Stuck], Any], str]] = {
    "first of a chain": (
        lambda stream, stuck: stream.map_values(stuck).filter(lambda _k, _v: True),
        "KSTREAM-MAPVALUES-0000000001",
    ),
    "last of a chain": (
        lambda stream, stuck: (
            stream.map_values(str.upper)
            .map_values(str.lower)
            .filter(lambda _, value: stuck(value))
            .map_values(str.upper)
        ),
        "KSTREAM-FILTER-0000000003",
    ),
    "map": (
        lambda stream, stuck: stream.map(lambda key, value: (key, stuck(value))),
        "KSTREAM-MAP-0000000001",
    ),
    "below a branch": (
        lambda stream, stuck: (stream.peek(print), stream.for_each(lambda _, v: stuck(v))),
        "KSTREAM-FOREACH-0000000002",
    ),
    "aggregate": (counted, "KSTREAM-AGGREGATE-0000000002"),
    "processor": (
        lambda stream, stuck: stream.process(lambda: Held(stuck)),
        "KSTREAM-PROCESSOR-0000000001",
    ),
    "below a processor": (
        lambda stream, stuck: stream.process(lambda: Held(str)).map_values(stuck),
        "KSTREAM-MAPVALUES-0000000002",
    ),
}


@pytest.mark.parametrize("case", CHAINS)
@pytest.mark.parametrize("topics", [1, 2])
def test_the_node_and_the_record_are_told(case: str, topics: int) -> None:
    draw, node = CHAINS[case]

    with located(draw, topics=topics) as found:
        assert found.node == node
        assert found.task == TaskId(0, 0)
        assert found.partition is not None
        assert found.partition.topic == f"lines-{topics - 1}"
        assert found.offset == 1
        assert "self.may_go.wait" in found.stack
        assert "headwater/processor" not in found.stack


class Kept(ContextualProcessor[Any, Any, Any, Any]):
    def __init__(self, stuck: Stuck) -> None:
        self.stuck = stuck

    def process(self, record: Record[Any, Any]) -> None:
        self.context.get_state_store("places").put(record.key, self.stuck(record.value))


def test_what_keeps_a_global_store_is_told_with_its_record() -> None:
    stuck, builder = Stuck(), StreamsBuilder()
    places = StoreSpec(name="places", kind=StoreKind.KEY_VALUE, **TEXT)
    builder.add_global_store(places, "places", Consumed(**TEXT), lambda: Kept(stuck))
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        topic = driver.create_input_topic("places", Serdes.string, Serdes.string)
        topic.pipe_input("a", "fine", 0)
        thread = threading.Thread(target=topic.pipe_input, args=("a", "stuck", 10))
        thread.start()
        try:
            assert stuck.is_in.wait(30)
            assert thread.ident is not None
            found = locate(thread.ident)
        finally:
            stuck.may_go.set()
            thread.join(30)

    assert found.node == "KTABLE-SOURCE-0000000001"
    assert (found.task, found.partition, found.offset) == (
        *(TaskId(0, 0), TopicPartition("places", 0)),
        1,
    )


def test_a_punctuation_has_a_node_and_no_record() -> None:
    with located(lambda stream, stuck: stream.process(lambda: Timed(stuck)), "fine") as found:
        assert (found.node, found.partition) == ("KSTREAM-PROCESSOR-0000000001", None)
        assert found.task == TaskId(0, 0)


def test_outside_any_task_there_is_a_stack_alone() -> None:
    found = locate(threading.get_ident())

    assert (found.task, found.node, found.partition) == (None, "", None)
