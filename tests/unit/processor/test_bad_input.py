"""Every kind of bad record meets its handler: FAIL stops with a named error, CONTINUE drops it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import Serdes, StreamsBuilder
from headwater.errors import (
    ConfigError,
    DeserializationError,
    HeadwaterError,
    InvalidTimestampError,
    ProcessingError,
    SerializationError,
)
from headwater.ids import TopicPartition
from headwater.model import metrics
from headwater.model.metrics import DROPPED_RECORDS
from headwater.ports import Unreadable
from headwater.processor.failures import has_wrong_type
from headwater.processor.handlers import (
    CONTINUE,
    FAIL,
    RETRY,
    ErrorHandlerContext,
    FailedOutput,
    Origin,
    Response,
)
from headwater.testing import TopologyTestDriver
from headwater.wire.dead_letter import DeadLetterRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import KStream
    from headwater.ports import RawRecord
    from headwater.serde import Serde


def numbers(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.long)
    stream.to("out", key_serde=Serdes.string, value_serde=Serdes.long)


def picky(builder: StreamsBuilder) -> None:
    def refuse(value: str) -> str:
        if value == "bad":
            raise ValueError("I do not like it")
        return value

    builder.stream("in").map_values(refuse).to("out")


def too_big(builder: StreamsBuilder) -> None:
    stream = builder.stream("in").map_values(lambda value: 2**40 if value == "bad" else 1)
    stream.to("out", value_serde=Serdes.integer)


def wrong_key(builder: StreamsBuilder) -> None:
    stream = builder.stream("in").select_key(lambda _, value: 7 if value == "bad" else "k")
    stream.to("out")


def too_long(cache: bool = False) -> Callable[[StreamsBuilder], None]:
    """An aggregate that leaves the range of a long at the word "bad"."""

    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        totals = stream.group_by_key().aggregate(
            lambda: 0,
            lambda _, value, total: 2**63 if value == "bad" else total + 1,
            name="totalling",
            store="totals",
            value_serde=Serdes.long,
            caching=cache,
        )
        totals.to_stream().to("out", value_serde=Serdes.long)

    return draw


def torn(builder: StreamsBuilder) -> None:
    """A table whose text is not Unicode any more at the word "bad"."""
    stream = builder.stream("in").map_values(lambda v: "\ud800" if v == "bad" else v)
    stream.to_table(name="keeping", store="kept").to_stream().to("out")


def letters(builder: StreamsBuilder) -> None:
    """A pair, and a text of two letters at the word "bad"."""
    builder.stream("in").map(lambda k, v: "kv" if v == "bad" else (k, v)).to("out")


def regrouped(builder: StreamsBuilder) -> None:
    """A table that gives a number where text is wanted, at the word "bad"."""
    table = builder.table("in", store="rows")
    table.group_by(
        lambda k, v: (k, 5 if v == "bad" else v), name="regrouped", key_serde=Serdes.string
    ).count(store="counts")


class OnProduction:
    """A production handler that always answers the same."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.asked: list[tuple[ErrorHandlerContext, FailedOutput, Origin]] = []

    def on_delivery(
        self,
        context: ErrorHandlerContext,
        record: FailedOutput,
        exception: Exception,
        *,
        retriable: bool,
    ) -> Response:
        return self.response

    def on_serialization(
        self,
        context: ErrorHandlerContext,
        record: FailedOutput,
        exception: Exception,
        origin: Origin,
    ) -> Response:
        self.asked.append((context, record, origin))
        return self.response


LONG = struct.pack(">q", 5)
GOOD = [raw(0, "a", "ok"), raw(2, "b", "ok")]
GOOD_NUMBERS = [raw(0, "a", LONG), raw(2, "b", LONG)]

ROWS = [
    pytest.param(
        numbers, raw(1, b"\xff", LONG), {}, DeserializationError,
        ["task 0_0", "in-0 offset 1", "the key cannot be decoded",
         "deserialization.exception.handler"],
        id="undecodable key",
    ),
    pytest.param(
        numbers, raw(1, "a", b"xyz"), {}, DeserializationError, ["the value cannot be decoded"],
        id="undecodable value",
    ),
    pytest.param(
        numbers, raw(1, "a", LONG, -1), {}, InvalidTimestampError,
        ["in-0 offset 1", "(-1)", "default.timestamp.extractor"],
        id="negative timestamp",
    ),
    pytest.param(
        numbers, raw(0, "a", LONG, -1),
        {"default_timestamp_extractor": "use-partition-time-on-invalid"},
        InvalidTimestampError, ["no partition time"],
        id="negative timestamp before any other",
    ),
    pytest.param(
        numbers, raw(1, "a", LONG),
        {"default_timestamp_extractor": lambda record, _: 1 // (1 - record.offset)},
        ProcessingError, ["timestamp extractor raised", "ZeroDivisionError"],
        id="extractor raises",
    ),
    pytest.param(
        picky, raw(1, "a", "bad"), {}, ProcessingError,
        ["task 0_0", "node KSTREAM-MAPVALUES-0000000001", "topic in", "partition 0",
         "offset 1, key 'a'", "ValueError: I do not like it", "processing.exception.handler"],
        id="user function raises",
    ),
    pytest.param(
        too_big, raw(1, "a", "bad"), {}, SerializationError,
        ["the value for topic out cannot be encoded", "it is a int", "offset 1, key 'a'"],
        id="value that cannot be encoded",
    ),
    pytest.param(
        wrong_key, raw(1, "a", "bad"), {}, SerializationError,
        ["the key for topic out cannot be encoded", "it is a int", "Produced",
         "processing.exception.handler"],
        id="key that cannot be encoded",
    ),
    pytest.param(
        regrouped, raw(1, "a", "bad"), {}, SerializationError,
        ["the value for topic regrouped-repartition cannot be encoded",
         "it is a change of a table (new: int, old: str)", "(Grouped, Repartitioned)"],
        id="change of a table that cannot be encoded",
    ),
    pytest.param(
        too_big, raw(1, "a", "bad"), {"production_exception_handler": OnProduction(RETRY)},
        SerializationError, ["cannot be encoded"],
        id="retry does not help an encoder",
    ),
    pytest.param(
        too_long(), raw(1, "a", "bad"), {}, ProcessingError,
        ["node totalling", "offset 1", "store totals", "9223372036854775808",
         "cannot be serialized"],
        id="aggregate out of range",
    ),
    pytest.param(
        too_long(cache=True), raw(1, "a", "bad"), {"statestore_cache_max_bytes": 10_000},
        ProcessingError, ["node totalling", "offset 1", "store totals", "cannot be serialized"],
        id="aggregate out of range, with a record cache",
    ),
    pytest.param(
        torn, raw(1, "a", "bad"), {}, ProcessingError,
        ["node keeping", "offset 1", "store kept", "surrogates not allowed"],
        id="text with lone surrogates",
    ),
    pytest.param(
        torn, raw(1, "a", "bad"), {"statestore_cache_max_bytes": 10_000}, ProcessingError,
        ["node keeping", "offset 1", "store kept", "surrogates not allowed"],
        id="text with lone surrogates, with a record cache",
    ),
    pytest.param(
        picky, raw(1, "a", "bad"), {"processing_exception_handler": lambda *_: 1 // 0},
        ProcessingError, ["the processing exception handler itself raised", "ZeroDivisionError"],
        id="handler raises",
    ),
    pytest.param(
        picky, raw(1, "a", "bad"), {"processing_exception_handler": lambda *_: "fail"},
        ProcessingError, ["returned 'fail', not a Response"],
        id="handler answers nonsense",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "record", "options", "error", "words"), ROWS)
def test_fail_stops_at_the_record_and_says_where_and_what_next(
    draw: Callable[[StreamsBuilder], None],
    record: RawRecord,
    options: dict[str, object],
    error: type[HeadwaterError],
    words: list[str],
) -> None:
    rig = TaskRig(draw, **options)
    before, after = GOOD_NUMBERS if draw is numbers else GOOD
    rig.add("in", *([before] if record[0] else []), record, after)

    with pytest.raises(error) as caught:
        rig.process()

    assert [word for word in words if word not in str(caught.value)] == []
    assert len(rig.sent()) <= record[0]
    assert [offset.offset for offset in rig.task.offsets()] == [record[0]]


def choosing(partition: Any = None, topic: Any = "out") -> Callable[[StreamsBuilder], None]:
    """A sink whose partitioner and topic extractor return this, or raise it, for a bad value."""

    def chosen(value: str, found: Any, good: Any) -> Any:
        if value != "bad":
            return good
        if isinstance(found, Exception):
            raise found
        return found

    def draw(builder: StreamsBuilder) -> None:
        builder.stream("in").filter(lambda key, value: True).to(
            lambda key, value, context: chosen(value, topic, "out"),
            partitioner=lambda topic, key, value, count: chosen(value, partition, None),
        )

    return draw


BAD_CHOICES: dict[str, tuple[Callable[[StreamsBuilder], None], str]] = {
    "partitioner raises": (
        choosing(partition=KeyError("x")),
        "offset 1, key 'a': the processing handler drops the record: KeyError: 'x' (raised by the",
    ),
    "partitioner returns a text": (choosing(partition="x"), "partitioner for topic out returned"),
    "partitioner returns a fraction": (choosing(partition=0.0), "returned 0.0: return a partition"),
    "partitioner returns fractions": (
        choosing(partition=[0.5]),
        "chose partition 0.5 of topic out",
    ),
    "partitioner returns too much": (choosing(partition=9), "chose partition 9 of topic out"),
    "topic extractor raises": (
        choosing(topic=KeyError("x")),
        "offset 1, key 'a': the processing handler drops the record: KeyError: 'x' (raised by the",
    ),
    "topic extractor returns nothing": (choosing(topic=None), "returned None: return a topic's"),
    "topic extractor returns a number": (choosing(topic=5), "extractor returned 5"),
}

CONTINUED = [
    pytest.param(
        numbers, raw(1, b"\xff", LONG), {"deserialization_exception_handler": "log-and-continue"},
        "the key cannot be decoded", id="undecodable key",
    ),
    pytest.param(
        numbers, raw(1, "a", b""), {"deserialization_exception_handler": "log-and-continue"},
        "the value cannot be decoded", id="undecodable value",
    ),
    pytest.param(
        numbers, raw(1, "a", LONG, -1), {"default_timestamp_extractor": "log-and-skip-on-invalid"},
        "negative extracted timestamp", id="negative timestamp",
    ),
    pytest.param(
        picky, raw(1, "a", "bad"), {"processing_exception_handler": "log-and-continue"},
        "the processing handler drops the record", id="user function raises",
    ),
    pytest.param(
        too_long(), raw(1, "a", "bad"), {"processing_exception_handler": "log-and-continue"},
        "the processing handler drops the record", id="aggregate out of range",
    ),
    pytest.param(
        torn, raw(1, "a", "bad"), {"processing_exception_handler": "log-and-continue"},
        "the processing handler drops the record", id="text with lone surrogates",
    ),
    pytest.param(
        too_big, raw(1, "a", "bad"), {"production_exception_handler": OnProduction(CONTINUE)},
        "the value for topic out cannot be encoded", id="value that cannot be encoded",
    ),
    pytest.param(
        wrong_key, raw(1, "a", "bad"), {"processing_exception_handler": "log-and-continue"},
        "the key for topic out cannot be encoded", id="key of the wrong type",
    ),
    pytest.param(
        letters, raw(1, "a", "bad"), {"processing_exception_handler": "log-and-continue"},
        "is no pair", id="a text for a pair",
    ),
    *(
        pytest.param(
            draw, raw(1, "a", "bad"), {"processing_exception_handler": "log-and-continue"},
            words, id=name,
        )
        for name, (draw, words) in BAD_CHOICES.items()
    ),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "record", "options", "warning"), CONTINUED)
@pytest.mark.parametrize("partitions", [1, 2], ids=["one partition", "several"])
def test_continue_drops_counts_warns_and_goes_on(
    draw: Callable[[StreamsBuilder], None],
    record: RawRecord,
    options: dict[str, object],
    warning: str,
    partitions: int,
) -> None:
    def draw_all(builder: StreamsBuilder) -> None:
        draw(builder)
        if partitions == 2:
            builder.stream("in").merge(builder.stream("other"))

    rig = TaskRig(draw if partitions == 1 else draw_all, **options)
    before, after = GOOD_NUMBERS if draw is numbers else GOOD
    rig.add("in", before, record, after)

    taken = rig.process()

    assert taken == 3
    assert [key for key, _, _ in rig.sent()] in ([b"a", b"b"], [b"k", b"k"])
    assert rig.task.statistics().total(DROPPED_RECORDS) == 1
    assert warning in rig.warnings[0]
    assert list(rig.commit().values()) == [3]


def test_continue_drops_the_record_at_its_node_only() -> None:
    def draw(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        stream.map_values(lambda value: 1 // 0).to("never")
        stream.to("out")

    rig = TaskRig(draw, processing_exception_handler="log-and-continue")
    rig.add("in", raw(0, "a", "x"))

    rig.process()

    assert rig.sent("never") == []
    assert rig.sent("out") == [(b"a", b"x", 0)]


def test_a_value_of_the_wrong_type_costs_no_output_beside_it() -> None:
    def draw(builder: StreamsBuilder) -> None:
        words = builder.stream("in").flat_map_values(str.split)
        words.to("never", value_serde=Serdes.long)
        words.to("out")

    asked: list[Any] = []

    def handler(context: ErrorHandlerContext, record: Any, _: Exception) -> Response:
        asked.append((context.node, record.key, record.value))
        return CONTINUE

    rig = TaskRig(draw, processing_exception_handler=handler)
    rig.add("in", raw(0, "a", "x y"))

    rig.process()

    sink = "KSTREAM-SINK-0000000002"
    assert asked == [(sink, "a", "x"), (sink, "a", "y")]
    assert rig.sent("out") == [(b"a", b"x", 0), (b"a", b"y", 0)]


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.string, 5), (Serdes.string, b"x"), (Serdes.long, "5"), (Serdes.long, 5.0),
        (Serdes.integer, None.__class__), (Serdes.double, "5"), (Serdes.bytes, 5),
        (Serdes.bytes, "x"), (Serdes.bytes, [1, 2]), (Serdes.json, {1, 2}),
    ],
)  # fmt: skip
def test_serializers_refuse_other_types_and_it_is_seen(serde: Serde[Any], value: Any) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        serde.serializer("t")(value)

    assert has_wrong_type(caught.value)


@pytest.mark.parametrize(
    ("serde", "value"),
    [(Serdes.long, 2**63), (Serdes.integer, -(2**31) - 1), (Serdes.string, "\ud800")],
)
def test_what_has_the_right_type_and_does_not_fit_is_the_production_handlers(
    serde: Serde[Any], value: Any
) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        serde.serializer("t")(value)

    assert not has_wrong_type(caught.value)


NO_PAIRS = [
    pytest.param("map", lambda k, v: "ab", "a str, 'ab', is no pair", id="text"),
    pytest.param("map", lambda k, v: {k: v, v: k}, "a dict, .* is no pair", id="dict"),
    pytest.param("map", lambda k, v: {k, v}, "a set, .* is no pair", id="set"),
    pytest.param("map", lambda k, v: 5, "an? int, 5, is no pair", id="number"),
    pytest.param("map", lambda k, v: (k, v, 1), "too many values", id="three"),
    pytest.param("flat_map", lambda k, v: {"ab": 1}, r"return its items\(\)", id="dict of pairs"),
    pytest.param("flat_map", lambda k, v: ["ab"], "a str, 'ab', is no pair", id="texts"),
    pytest.param("flat_map", lambda k, v: "ab", "a str, 'ab', is no list of pairs", id="one text"),
    pytest.param("flat_map", lambda k, v: None, "is no list of pairs", id="nothing"),
    pytest.param("flat_map", lambda k, v: (k, v), "a str, .* is no pair", id="one pair"),
]


@pytest.mark.parametrize(("method", "mapper", "words"), NO_PAIRS)
def test_what_only_looks_like_pairs_is_not_taken_apart(
    method: str, mapper: Callable[[Any, Any], Any], words: str
) -> None:
    rig = TaskRig(lambda builder: getattr(builder.stream("in"), method)(mapper).to("out"))
    rig.add("in", raw(0, "kk", "vv"))

    with pytest.raises(ProcessingError, match=words):
        rig.process()

    assert rig.sent() == []


def test_a_grouped_tables_pair_is_not_taken_apart_either() -> None:
    rig = TaskRig(
        lambda builder: builder.table("in").group_by(lambda k, v: "ab", name="g").count(store="c")
    )
    rig.add("in", raw(0, "k", "v"))

    with pytest.raises(ProcessingError, match="a str, 'ab', is no pair"):
        rig.process()


@pytest.mark.parametrize("pairs", [lambda k, v: [[k, v]], lambda k, v: iter([(k, v)])])
def test_lists_and_iterators_are_pairs(pairs: Callable[[Any, Any], Any]) -> None:
    rig = TaskRig(lambda b: b.stream("in").flat_map(pairs).map(lambda k, v: [v, k]).to("out"))
    rig.add("in", raw(0, "k", "v"))

    rig.process()

    assert rig.sent() == [(b"v", b"k", 0)]


DEAD_LETTERS = [
    pytest.param(numbers, (7, 3, b"\xff", LONG, [("h", b"1")]), {}, id="undecodable, failing"),
    pytest.param(
        numbers, (7, 3, b"\xff", LONG, [("h", b"1")]),
        {"deserialization_exception_handler": "log-and-continue"}, id="undecodable, continuing",
    ),
    pytest.param(picky, (7, 3, b"k", b"bad", [("h", b"1")]), {}, id="user function raises"),
    pytest.param(too_big, (7, 3, b"k", b"bad", [("h", b"1")]), {}, id="cannot be encoded"),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "record", "options"), DEAD_LETTERS)
def test_built_in_handlers_send_the_source_record_to_the_dead_letter_topic(
    draw: Callable[[StreamsBuilder], None], record: RawRecord, options: dict[str, object]
) -> None:
    rig = TaskRig(draw, errors_dead_letter_queue_topic_name="dead", **options)
    rig.add("in", record)

    if options:
        rig.process()
    else:
        with pytest.raises(HeadwaterError):
            rig.process()

    [letter] = rig.collector.of_topic("dead")
    assert rig.task.statistics().total(metrics.DEAD_LETTERS) == 1
    headers = dict(letter.headers or [])
    assert (letter.key, letter.value, letter.timestamp) == (record[2], record[3], 3)
    assert [name for name, _ in letter.headers or []] == [
        "h",
        "__streams.errors.exception",
        "__streams.errors.message",
        "__streams.errors.stacktrace",
        "__streams.errors.topic",
        "__streams.errors.partition",
        "__streams.errors.offset",
    ]
    assert headers["__streams.errors.topic"] == b"in"
    assert headers["__streams.errors.partition"] == b"0"
    assert headers["__streams.errors.offset"] == b"7"
    assert b"Traceback" in (headers["__streams.errors.stacktrace"] or b"")


def test_a_handler_of_ones_own_sees_the_record_and_may_send_dead_letters() -> None:
    seen: list[Any] = []

    def handle(context: ErrorHandlerContext, record: Any, exception: Exception) -> Response:
        seen.append((context.node, context.offset, context.source_value, record.value, exception))
        letter = DeadLetterRecord("mine", context.source_key, b"!", context.timestamp, [])
        return Response(CONTINUE.result, (letter,))

    rig = TaskRig(picky, processing_exception_handler=handle)
    rig.add("in", raw(4, "k", "bad"))

    rig.process()

    [(node, offset, source, value, exception)] = seen
    assert (node, offset, source) == ("KSTREAM-MAPVALUES-0000000001", 4, b"bad")
    assert (value, type(exception)) == ("bad", ValueError)
    assert rig.sent("mine") == [(b"k", b"!", 4)]


def test_the_production_handler_learns_which_half_failed() -> None:
    def draw(builder: StreamsBuilder) -> None:
        builder.stream("in").select_key(lambda _, value: "\ud800").to("out")

    handler = OnProduction(FAIL)
    rig = TaskRig(draw, production_exception_handler=handler)
    rig.add("in", raw(4, "k", "bad"))

    with pytest.raises(SerializationError):
        rig.process()

    [(context, record, origin)] = handler.asked
    assert (origin, record.topic, record.key, record.value) == (
        Origin.KEY,
        "out",
        "\ud800",
        "bad",
    )
    assert context.node == "KSTREAM-SINK-0000000002"


def test_an_error_below_an_aggregation_is_reported_where_it_happened() -> None:
    def draw(builder: StreamsBuilder) -> None:
        counted = builder.stream("in").group_by_key().count()
        counted.to_stream().map_values(lambda count: 1 // 0).to("out", value_serde=Serdes.long)

    rig = TaskRig(draw)
    rig.add("in", raw(0, "a", "x"))

    with pytest.raises(ProcessingError, match="node KSTREAM-MAPVALUES"):
        rig.process()


def test_what_a_record_cache_lets_go_of_has_the_place_of_its_own_record() -> None:
    seen: list[ErrorHandlerContext] = []

    def handle(context: ErrorHandlerContext, record: Any, exception: Exception) -> Response:
        seen.append(context)
        return CONTINUE

    def refuse(key: str, count: int) -> int:
        if key == "a":
            raise ValueError(key)
        return count

    def draw(builder: StreamsBuilder) -> None:
        counted = builder.stream("in").group_by_key().count(store="counts")
        refused = counted.to_stream().map_values(refuse, with_key=True)
        refused.to("out", value_serde=Serdes.long)

    rig = TaskRig(draw, statestore_cache_max_bytes=300, processing_exception_handler=handle)
    rig.add("in", *[raw(3 + number, chr(ord("a") + number), "x") for number in range(20)])

    rig.process()

    [context] = seen
    assert rig.sent("out")
    assert (context.topic, context.partition, context.offset) == ("in", 0, 3)
    assert (context.source_key, context.source_value) == (None, None)
    assert "topic in, partition 0, offset 3" in rig.warnings[0]
    assert list(rig.commit().values()) == [23]


def test_an_aggregator_that_raises_leaves_the_aggregate_as_it_was() -> None:
    def draw(builder: StreamsBuilder) -> None:
        def add(_: str, value: str, total: int) -> int:
            return total + int(value)

        grouped = builder.stream("in").group_by_key()
        summed = grouped.aggregate(lambda: 0, add, value_serde=Serdes.long, store="sums")
        summed.to_stream().to("out", value_serde=Serdes.long)

    rig = TaskRig(draw, processing_exception_handler="log-and-continue")
    rig.add("in", raw(0, "a", "1"), raw(1, "a", "one"), raw(2, "a", "2"))

    rig.process()

    assert rig.stores["sums"].get("a") == (3, 2)
    assert rig.task.statistics().total(DROPPED_RECORDS) == 1
    assert "KSTREAM-AGGREGATE" in rig.warnings[0]


@pytest.mark.parametrize(
    ("extractor", "expected"),
    [
        ("use-partition-time-on-invalid", 9),
        ("wallclock", 1_000_000),
        (lambda record, time: record.offset * 100 + time, 109),
    ],
    ids=["partition time", "wall clock", "own function"],
)
def test_extractors_give_the_timestamp(extractor: Any, expected: int) -> None:
    rig = TaskRig(numbers)
    rig.add("in", raw(0, "a", LONG, 9))
    rig.process()
    other = TaskRig(numbers, default_timestamp_extractor=extractor)
    other.task.restore_metadata({other.task.partitions[0]: (1, rig.task.offsets()[0].metadata)})
    other.add("in", raw(1, "b", LONG, -1))

    other.process()

    assert [timestamp for _, _, timestamp in other.sent()] == [expected]


# -- what the client could not unpack ------------------------------------------------------------

BOMB = Unreadable(1, "its batch cannot be unpacked; raise consumer.receive.message.max.bytes")


def two_topics(builder: StreamsBuilder) -> None:
    builder.stream("in").merge(builder.stream("other")).to("out")


def with_bomb(draw: Callable[[StreamsBuilder], None], **options: object) -> TaskRig:
    rig = TaskRig(draw, **options)
    rig.add("in", raw(0, "a", "x"))
    rig.task.add_records(TopicPartition("in", 0), BOMB)
    rig.add("in", raw(2, "c", "z"))
    return rig


@pytest.mark.parametrize("draw", [picky, two_topics], ids=["one topic", "two topics"])
def test_a_record_that_the_client_could_not_unpack_meets_the_deserialization_handler(
    draw: Callable[[StreamsBuilder], None],
) -> None:
    rig = with_bomb(draw)
    for _ in range(2):  # it stays the next one
        with pytest.raises(DeserializationError, match=r"in-0 offset 1: .*receive.*log-and"):
            rig.process()
    assert [key for key, _, _ in rig.sent()] == [b"a"]
    assert rig.commit()[TopicPartition("in", 0)] == 1

    rig = with_bomb(
        draw,
        deserialization_exception_handler="log-and-continue",
        errors_dead_letter_queue_topic_name="letters",
    )
    rig.process()
    assert [key for key, _, _ in rig.sent()] == [b"a", b"c"]
    assert rig.task.statistics().total(DROPPED_RECORDS) == 1
    assert rig.task.buffered(TopicPartition("in", 0)) == 0
    assert rig.commit()[TopicPartition("in", 0)] == 3
    (letter,) = rig.collector.of_topic("letters")
    assert (letter.key, letter.value, letter.timestamp) == (None, None, 0)
    assert ("__streams.errors.offset", b"1") in (letter.headers or ())


@pytest.mark.parametrize(
    ("draw", "node"),
    [
        (lambda b: b.select_key(lambda _key, value: value).group_by_key().count(), "KSTREAM-SINK-"),
        (lambda b: b.map(lambda key, value: (value, key)).repartition(name="apart"), "apart"),
        (lambda b: b.group_by(lambda _key, value: value, name="by").count(), "by-repartition-sink"),
    ],
)
def test_a_serde_that_a_repartition_lacks_is_named_with_its_node(
    draw: Callable[[KStream[str, str]], object], node: str
) -> None:
    builder = StreamsBuilder()
    draw(builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string))

    with pytest.raises(
        ConfigError, match=rf"node .*{node}.* has no key serde and default\.key\.serde is not set"
    ):
        TopologyTestDriver(builder.build())
