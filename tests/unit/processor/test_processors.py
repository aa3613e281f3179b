"""A user's processor gets its context, its stores and its punctuations, as in Kafka Streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import (
    Processor,
    PunctuationType,
    Record,
    RecordMetadata,
    Serdes,
    StoreKind,
    StoreSpec,
    StreamsBuilder,
)
from headwater.errors import ProcessingError
from headwater.model.metrics import DROPPED_RECORDS
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import ProcessorContext

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


def processor(
    process: Callable[[Any, Record[Any, Any]], None],
    init: Callable[[Any], None] = lambda context: None,
) -> type[Processor[Any, Any, Any, Any]]:
    """A processor class of two functions of the context."""

    class Made(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            init(context)

        def process(self, record: Record[Any, Any]) -> None:
            process(self.context, record)

    return Made


def rig_of(
    made: type[Processor[Any, Any, Any, Any]], *stores: StoreSpec, **options: object
) -> TaskRig:
    def draw(builder: StreamsBuilder) -> None:
        builder.stream("in").process(made, *stores).to("out")

    return TaskRig(draw, **options)


def forward(context: Any, record: Record[Any, Any]) -> None:
    context.forward(record)


def test_the_context_says_where_and_when() -> None:
    seen: list[Any] = []

    def process(context: Any, record: Record[Any, Any]) -> None:
        seen.append(
            (
                str(context.task_id),
                context.application_id,
                context.record_metadata(),
                context.current_stream_time_ms(),
                context.current_system_time_ms(),
                record,
            )
        )

    rig = rig_of(processor(process))
    rig.add("in", raw(5, "k", "v", 70), raw(6, "k", None, 60))

    rig.process()

    metadata = [RecordMetadata("in", 0, 5), RecordMetadata("in", 0, 6)]
    records = [Record("k", "v", 70), Record("k", None, 60)]
    assert seen == [
        ("0_0", "app", where, 70, 1_000_000, record)
        for where, record in zip(metadata, records, strict=True)
    ]


def test_there_is_no_place_before_the_first_record() -> None:
    seen: list[Any] = []

    rig_of(processor(forward, lambda context: seen.append(context.record_metadata())))

    assert seen == [None]


def test_forwarding_to_one_child_leaves_the_others_alone() -> None:
    def draw(builder: StreamsBuilder) -> None:
        made = processor(lambda context, record: context.forward(record, "two"))
        stream = builder.stream("in").process(made)
        stream.map_values(lambda v: v + "1", name="one").to("out")
        stream.map_values(lambda v: v + "2", name="two").to("out")

    rig = TaskRig(draw)
    rig.add("in", raw(0, "k", "v"))

    rig.process()

    assert [value for _, value, _ in rig.sent()] == [b"v2"]


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (lambda c, r: c.forward(r, "nobody"), "has no child 'nobody'; its children: KSTREAM-SINK"),
        (lambda c, r: c.forward(r.with_timestamp(-1)), "cannot be negative"),
        (lambda c, r: c.schedule(0, WALL, print), "at least 1 ms"),
        (lambda c, r: c.schedule(1, WALL, print, start_ms=-1), "cannot start at -1"),
    ],
    ids=["unknown child", "negative timestamp", "no interval", "negative start"],
)
def test_a_wrong_call_is_refused(send: Callable[[Any, Any], None], words: str) -> None:
    rig = rig_of(processor(send))
    rig.add("in", raw(0, "k", "v"))

    with pytest.raises(Exception, match=words):
        rig.process()


def test_a_processor_may_ask_for_a_commit() -> None:
    rig = rig_of(processor(lambda context, record: context.commit()))
    rig.add("in", raw(0, "k", "v"))

    rig.process()

    assert rig.task.commit_requested


def test_a_plain_store_logs_at_the_records_time() -> None:
    def process(context: Any, record: Record[Any, Any]) -> None:
        store = context.get_state_store("plain")
        old = store.get(record.key)
        store.put(record.key, record.value)
        store.put_all([("x", "1"), ("y", "2")])
        store.delete("x")
        assert store.put_if_absent("y", "3") == "2"
        context.forward(record.with_value(f"{old} {list(store.all())}"))

    spec = StoreSpec(
        name="plain",
        kind=StoreKind.KEY_VALUE,
        key_serde=Serdes.string,
        value_serde=Serdes.string,
        caching=False,
    )
    rig = rig_of(processor(process), spec)
    rig.add("in", raw(0, "k", "v", 42))

    rig.process()
    rig.commit()

    assert [value for _, value, _ in rig.sent()] == [b"None [('k', 'v'), ('y', '2')]"]
    assert {timestamp for _, _, timestamp in rig.sent("app-plain-changelog")} == {42}


def test_a_timestamped_store_gives_value_and_timestamp() -> None:
    seen: list[Any] = []

    def process(context: Any, record: Record[Any, Any]) -> None:
        store = context.get_state_store("stamped")
        seen.append(store.get("k"))
        store.put("k", record.value, record.timestamp + 1)
        seen.append(list(store.reverse_range("a", "z")))
        seen.append(store.delete("k"))
        seen.append(store.put_if_absent("k", "w", 50))
        seen.append(store.put_if_absent("k", "x", 51))
        store.put_all([("l", ("1", 7)), ("k", None)])
        seen.append(list(store.all()))

    spec = StoreSpec(
        name="stamped", key_serde=Serdes.string, value_serde=Serdes.string, caching=False
    )
    rig = rig_of(processor(process), spec)
    rig.add("in", raw(0, "k", "v", 42))

    rig.process()
    rig.commit()

    assert seen == [None, [("k", ("v", 43))], ("v", 43), None, ("w", 50), [("l", ("1", 7))]]
    deleted = {key: timestamp for key, value, timestamp in rig.sent("app-stamped-changelog")}
    assert deleted == {b"k": 42, b"l": 7}


@pytest.mark.parametrize("kind", [StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_KEY_VALUE])
def test_a_prefix_finds_the_keys_whose_bytes_begin_with_it(kind: StoreKind) -> None:
    seen: list[Any] = []

    def process(context: Any, record: Record[Any, Any]) -> None:
        store = context.get_state_store("some")
        for key in ("a", "ab", "abc", "ac", "b"):
            store.put(key, record.value, *([5] if kind.timestamped else []))
        seen.append([key for key, _ in store.prefix_scan("ab")])
        seen.append([key for key, _ in store.prefix_scan(b"a", Serdes.bytes)])
        seen.append(list(store.prefix_scan("zz")))
        seen.append(next(store.prefix_scan("b"))[1])

    spec = StoreSpec(name="some", kind=kind, key_serde=Serdes.string, value_serde=Serdes.string)
    rig = rig_of(processor(process), spec)
    rig.add("in", raw(0, "k", "v", 42))
    rig.process()
    rig.commit()
    rig.add("in", raw(1, "k", "v", 42))
    rig.process()

    found = ("v", 5) if kind.timestamped else "v"
    assert seen == 2 * [["ab", "abc"], ["a", "ab", "abc", "ac"], [], found]


def test_stream_time_fires_at_the_first_record_and_once_per_jump() -> None:
    fired: list[int] = []
    made = processor(forward, lambda context: context.schedule(10, STREAM, fired.append))
    rig = rig_of(made)
    assert rig.task.punctuate(rig.clock.now_ms()) == 0

    for offset, time in enumerate([3, 9, 10, 11, 47, 49, 50]):
        rig.add("in", raw(offset, "k", "v", time))
        rig.process()
        rig.task.punctuate(rig.clock.now_ms())

    assert fired == [3, 10, 47, 50]


def test_the_wall_clock_fires_after_an_interval_and_once_after_missed_ones() -> None:
    fired: list[int] = []
    rig = rig_of(processor(forward, lambda context: context.schedule(10, WALL, fired.append)))
    start = rig.clock.now_ms()

    for step in (9, 1, 35, 4, 1):
        rig.clock.advance(step)
        rig.task.punctuate(rig.clock.now_ms())

    assert fired == [start + 10, start + 45, start + 50]


def test_a_start_time_anchors_the_schedule() -> None:
    fired: list[int] = []

    def init(context: Any) -> None:
        context.schedule(100, WALL, fired.append, start_ms=1_000_030)
        context.schedule(100, WALL, lambda now: fired.append(-now), start_ms=7)

    rig = rig_of(processor(forward, init))

    for step in (7, 23, 77):
        rig.clock.advance(step)
        rig.task.punctuate(rig.clock.now_ms())

    assert fired == [-1_000_007, 1_000_030, -1_000_107]


def test_a_cancelled_punctuation_stays_silent() -> None:
    fired: list[int] = []
    handles: list[Any] = []

    def once(now: int) -> None:
        fired.append(now)
        handles[0].cancel()

    rig = rig_of(processor(forward, lambda c: handles.append(c.schedule(10, WALL, once))))

    for _ in range(3):
        rig.clock.advance(10)
        rig.task.punctuate(rig.clock.now_ms())

    assert len(fired) == 1


def test_a_punctuator_forwards_without_a_place_and_asks_for_a_commit() -> None:
    seen: list[Any] = []

    def init(context: Any) -> None:
        def punctuate(now: int) -> None:
            seen.append(context.record_metadata())
            context.forward(Record("tick", str(now), now))

        context.schedule(10, WALL, punctuate)

    rig = rig_of(processor(forward, init))
    rig.clock.advance(10)

    assert rig.task.punctuate(rig.clock.now_ms()) == 1
    assert seen == [RecordMetadata("", -1, -1)]
    assert rig.sent() == [(b"tick", b"1000010", 1_000_010)]
    assert rig.task.commit_needed


@pytest.mark.parametrize("answer", ["log-and-fail", "log-and-continue"])
def test_a_punctuator_that_raises_meets_the_processing_handler(answer: str) -> None:
    made = processor(forward, lambda context: context.schedule(10, WALL, lambda now: 1 // 0))
    rig = rig_of(made, processing_exception_handler=answer)
    rig.clock.advance(10)

    if answer == "log-and-fail":
        with pytest.raises(ProcessingError, match="no input record under way"):
            rig.task.punctuate(rig.clock.now_ms())
    else:
        assert rig.task.punctuate(rig.clock.now_ms()) == 1
        assert rig.task.statistics().total(DROPPED_RECORDS) == 1


def test_processors_are_initialised_parents_first() -> None:
    order: list[str] = []

    def draw(builder: StreamsBuilder) -> None:
        first = processor(forward, lambda context: order.append("parent"))
        second = processor(forward, lambda context: order.append("child"))
        builder.stream("in").process(first).process(second).to("out")

    TaskRig(draw)

    assert order == ["parent", "child"]


def test_an_error_below_a_processor_is_not_handled_twice() -> None:
    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in").process(processor(forward))
        stream.map_values(lambda value: 1 // 0, name="breaks").to("out")

    rig = TaskRig(draw)
    rig.add("in", raw(0, "k", "v"))

    with pytest.raises(ProcessingError, match="node breaks, topic in"):
        rig.process()


def test_the_driver_turns_the_wall_clock() -> None:
    builder = StreamsBuilder()
    made = processor(
        forward,
        lambda c: c.schedule(10, WALL, lambda now: c.forward(Record("t", str(now), now))),
    )
    builder.stream("in").process(made).to("out")
    config = {"default_key_serde": "string", "default_value_serde": "string"}
    with TopologyTestDriver(builder.build(), config, start_ms=100) as driver:
        out = driver.create_output_topic("out")

        driver.advance_wall_clock_time(10)
        driver.advance_wall_clock_time(25)

        assert out.read_key_values_to_list() == [("t", "110"), ("t", "135")]
