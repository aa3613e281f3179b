"""What is joined, merged or grouped with something of another kind is refused by name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from headwater import (
    JoinWindows,
    Named,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    StoreSpec,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
)
from headwater.errors import TopologyError
from headwater.testing import ProcessorTestContext, TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

WITHIN: Final = JoinWindows.of_time_difference_with_no_grace(5)


def first(one: Any, *_: Any) -> Any:
    return one


class Forgetting(Processor[Any, Any, Any, Any]):
    """Does nothing."""

    def process(self, record: Record[Any, Any]) -> None:
        del record


class Drawing:
    """One of each kind, of one builder."""

    def __init__(self) -> None:
        builder = StreamsBuilder()
        self.stream: Any = builder.stream("in")
        self.table: Any = builder.table("rows")
        self.everywhere: Any = builder.global_table("all")
        self.grouped: Any = self.stream.group_by_key()
        self.grouped_table: Any = self.table.group_by(lambda key, value: (value, key))


WRONG: Final[dict[str, tuple[Callable[[Drawing], object], str]]] = {
    "a table and a stream": (
        lambda it: it.table.join(it.stream, first),
        "'KTABLE-SOURCE-0000000003' with a KStream: join() takes a KTable here. A stream becomes a",
    ),
    "a table and a stream, left": (
        lambda it: it.table.left_join(it.stream, first),
        "left_join() takes a KTable",
    ),
    "a table and a stream, outer": (
        lambda it: it.table.outer_join(it.stream, first),
        "outer_join() takes a KTable",
    ),
    "a table and a stream, by a foreign key": (
        lambda it: it.table.join(it.stream, first, first),
        "with a KStream: join() takes a KTable",
    ),
    "a table and a global table": (
        lambda it: it.table.join(it.everywhere, first),
        "with a GlobalKTable: join() takes a KTable",
    ),
    "a table and nothing": (lambda it: it.table.join(None, first), "with None: join() takes"),
    "a table and a name": (lambda it: it.table.join("rows", first), "with a str: join() takes"),
    "a stream and a group": (
        lambda it: it.stream.join(it.grouped, first),
        "a KGroupedStream: join",
    ),
    "a stream and a name": (lambda it: it.stream.join("rows", first), "with a str: join() takes"),
    "a stream and a group, in windows": (
        lambda it: it.stream.join(it.grouped, first, WITHIN),
        "with a KGroupedStream: join() takes",
    ),
    "a stream merged with a table": (
        lambda it: it.stream.merge(it.table),
        "with a KTable: merge() takes a KStream here. A table becomes a stream by to_stream()",
    ),
    "a stream merged with a name": (lambda it: it.stream.merge("b"), "with a str: merge()"),
    "a group and a stream": (
        lambda it: it.grouped.cogroup(first).cogroup(it.stream, first),
        "with a KStream: cogroup() takes a KGroupedStream here. A stream is grouped by group_by_k",
    ),
    "a group and a grouped table": (
        lambda it: it.grouped.cogroup(first).cogroup(it.grouped_table, first),
        "with a KGroupedTable: cogroup() takes",
    ),
    "a number for a topic": (
        lambda it: StreamsBuilder().stream(5),  # type: ignore[arg-type]
        "stream() got 5: pass a topic's name",
    ),
    "a word for an emit strategy": (
        lambda it: it.grouped.windowed_by(TimeWindows.of_size_with_no_grace(5)).emit_strategy("x"),
        "emit_strategy() got 'x': pass EmitStrategy.on_window_update()",
    ),
    "a number for windows": (
        lambda it: it.grouped.windowed_by(5),
        "windowed_by() got 5: pass Time",
    ),
    "a word for a start": (
        lambda it: UnlimitedWindows.of().start_on("noon"),  # type: ignore[arg-type]
        "start is 'noon': pass an aware datetime, or milliseconds since the epoch",
    ),
    "a name among the stores": (
        lambda it: it.stream.process(lambda record: None, Named("p"), "s"),
        "the name of the node is a keyword: name='p'",
    ),
}


ONE: Final = Forgetting()
GLOBAL: Final = StoreSpec(name="g", logging=False)
PATTERN: Final = re.compile("a.*")

READ_TWICE: Final[dict[str, tuple[Callable[[StreamsBuilder], object], str]]] = {
    "two tables": (lambda b: (b.table("a"), b.table("a")), "Topic 'a' is already read by"),
    "a table and a global table": (
        lambda b: (b.table("a"), b.global_table("a")),
        "Topic 'a' is already read by",
    ),
    "two global tables": (
        lambda b: (b.global_table("a"), b.global_table("a")),
        "Topic 'a' is already read by",
    ),
    "a pattern, then a global table": (
        lambda b: (b.stream(PATTERN), b.global_table("ab")),
        "Topic 'ab' of 'KSTREAM-SOURCE-0000000002' matches the pattern of",
    ),
    "a global table, then a pattern": (
        lambda b: (b.global_table("ab"), b.stream(PATTERN)),
        "matches topic 'ab', which 'KSTREAM-SOURCE-0000000001' reads: let it not match",
    ),
    "a pattern, then a table": (
        lambda b: (b.stream(PATTERN), b.table("ab")),
        "Topic 'ab' of 'KSTREAM-SOURCE-0000000002' matches the pattern of",
    ),
    "a table, then a pattern": (
        lambda b: (b.table("ab"), b.stream(PATTERN)),
        "matches topic 'ab', which 'KSTREAM-SOURCE-0000000001' reads: let it not match",
    ),
    "one processor for all tasks that keeps keys": (
        lambda b: b.stream("a").process_values(lambda: ONE),  # type: ignore[arg-type, return-value]
        "returns the same instance twice",
    ),
    "one processor for all global threads": (
        lambda b: b.add_global_store(GLOBAL, "a", None, lambda: ONE),
        "returns the same instance twice",
    ),
}


@pytest.mark.parametrize(("broken", "said"), READ_TWICE.values(), ids=READ_TWICE)
def test_a_topic_is_read_once_and_a_processor_made_for_each_task(
    broken: Callable[[StreamsBuilder], object], said: str
) -> None:
    builder = StreamsBuilder()

    with pytest.raises(TopologyError, match=re.escape(said)):
        (broken(builder), builder.build())


@pytest.mark.parametrize(("broken", "said"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_named_with_what_to_do(
    broken: Callable[[Drawing], object], said: str
) -> None:
    with pytest.raises(TopologyError, match=re.escape(said)):
        broken(Drawing())


class Ticking(Processor[Any, Any, Any, Any]):
    """Schedules what the test says."""

    def __init__(self, kind: Any, start: Any) -> None:
        self._kind, self._start = kind, start

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(
            10,
            self._kind,
            lambda now: context.forward(Record("k", str(now), now)),
            start_ms=self._start,
        )

    def process(self, record: Record[Any, Any]) -> None:
        del record


def test_a_punctuation_begins_at_a_time_of_any_kind() -> None:
    start = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    builder = StreamsBuilder()
    given: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
    ticking = builder.stream("in", **given).process(
        lambda: Ticking(PunctuationType.STREAM_TIME, start)
    )
    ticking.to("out", **given)
    with TopologyTestDriver(builder.build()) as driver:
        for time in (999, 1_000, 1_009, 1_010):
            driver.create_input_topic("in", Serdes.string, Serdes.string).pipe_input("k", "v", time)

        found = driver.create_output_topic(
            "out", Serdes.string, Serdes.string
        ).read_values_to_list()

    assert found == ["1000", "1010"]


@pytest.mark.parametrize(
    ("kind", "start", "said"),
    [
        ("stream", None, "the kind is 'stream': pass PunctuationType.STREAM_TIME"),
        (PunctuationType.STREAM_TIME, "noon", "the start is 'noon': pass an aware datetime"),
        (PunctuationType.STREAM_TIME, datetime(2026, 1, 1), "without a time zone"),  # noqa: DTZ001
    ],
)
def test_a_schedule_of_another_kind_is_refused(kind: Any, start: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(said)):
        Ticking(kind, start).init(ProcessorTestContext())
