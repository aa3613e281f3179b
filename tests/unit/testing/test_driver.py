"""TopologyTestDriver: pipe records in, read results, look into stores."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from examples.word_count.app import build

from headwater import (
    BufferConfig,
    Repartitioned,
    Serdes,
    Stores,
    StoreSpec,
    StreamsBuilder,
    Suppressed,
)
from headwater.errors import ConfigError, ProcessingError
from headwater.model.metrics import TASK_PROCESS
from headwater.model.stores import StoreKind
from headwater.testing import TopicRecord, TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

STRINGS = {"default_key_serde": "string", "default_value_serde": "string"}


def upper(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values(str.upper).to("out")


@pytest.fixture
def word_count() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    build(builder)
    with TopologyTestDriver(builder.build()) as driver:
        yield driver


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    upper(builder)
    with TopologyTestDriver(builder.build(), STRINGS, start_ms=1_000) as driver:
        yield driver


def test_word_count_counts_words(word_count: TopologyTestDriver) -> None:
    lines = word_count.create_input_topic("TextLinesTopic", Serdes.string, Serdes.string)
    counts = word_count.create_output_topic("WordsWithCountsTopic", Serdes.string, Serdes.long)

    lines.pipe_input(None, "Hello Kafka", 5)
    lines.pipe_input(None, "hello again", 3)

    assert counts.read_records_to_list() == [
        TopicRecord("hello", 1, 5),
        TopicRecord("kafka", 1, 5),
        TopicRecord("hello", 2, 5),
        TopicRecord("again", 1, 3),
    ]
    store = word_count.get_state_store("counts-store")
    assert list(store.all()) == [("again", (1, 3)), ("hello", (2, 5)), ("kafka", (1, 5))]
    assert word_count.get_state_store("nothing") is None
    assert list(word_count.get_all_state_stores()) == ["counts-store"]


def test_every_record_written_is_kept_in_order(word_count: TopologyTestDriver) -> None:
    lines = word_count.create_input_topic("TextLinesTopic", Serdes.string, Serdes.string)

    lines.pipe_input(None, "a b", 1)

    assert [(record.topic, record.key) for record in word_count.history] == [
        ("test-counts-store-repartition", b"a"),
        ("test-counts-store-repartition", b"b"),
        ("WordsWithCountsTopic", b"a"),
        ("test-counts-store-changelog", b"a"),
        ("WordsWithCountsTopic", b"b"),
        ("test-counts-store-changelog", b"b"),
    ]
    assert "test-counts-store-changelog" in word_count.produced_topic_names


def test_timestamps_come_from_the_record_the_topic_or_the_clock(driver: TopologyTestDriver) -> None:
    out = driver.create_output_topic("out")
    driver.create_input_topic("in").pipe_input("k", "a")
    stepping = driver.create_input_topic("in", start_ms=5, auto_advance=10)
    stepping.pipe_key_value_list([("k", "b"), ("k", "c")])
    stepping.advance_time(100)
    stepping.pipe_value_list(["d"])
    stepping.pipe_input("k", "e", 7, [("h", b"1")])

    records = out.read_records_to_list()

    assert [record.timestamp for record in records] == [1_000, 5, 15, 125, 7]
    assert records[-1].headers == [("h", b"1")]
    assert out.is_empty()


def test_outputs_are_read_once_in_many_shapes(driver: TopologyTestDriver) -> None:
    lines = driver.create_input_topic("in")
    out = driver.create_output_topic("out")
    lines.pipe_record_list([TopicRecord("k", letter, 0) for letter in "abcdefg"])

    assert out.queue_size() == 7
    assert out.read_value() == "A"
    assert out.read_key_value() == ("k", "B")
    assert out.read_record() == TopicRecord("k", "C", 0)
    lines.pipe_input("j", "x")
    assert out.read_key_values_to_map() == {"k": "G", "j": "X"}
    lines.pipe_input(None, "y")
    with pytest.raises(ValueError, match="without a key"):
        out.read_key_values_to_map()
    with pytest.raises(LookupError, match="nothing left to read from topic out"):
        out.read_value()


def test_a_topic_that_is_not_read_is_refused(driver: TopologyTestDriver) -> None:
    with pytest.raises(ValueError, match="does not read topic 'out'; it reads in"):
        driver.create_input_topic("out").pipe_input("k", "v")


def test_serdes_are_needed_from_somewhere(word_count: TopologyTestDriver) -> None:
    with pytest.raises(ConfigError, match=r"default\.key\.serde"):
        word_count.create_input_topic("TextLinesTopic")


def test_time_does_not_go_back(driver: TopologyTestDriver) -> None:
    with pytest.raises(ValueError, match="only moves forward"):
        driver.advance_wall_clock_time(-1)
    with pytest.raises(ValueError, match="only moves forward"):
        driver.create_input_topic("in").advance_time(-1)


def test_what_is_written_to_a_topic_that_is_read_comes_back() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.filter(lambda _, value: len(value) < 3).map_values(lambda v: v + "!").to("in")
    stream.to("out")

    with TopologyTestDriver(builder.build(), STRINGS) as driver:
        driver.create_input_topic("in").pipe_input("k", "a")

        assert driver.create_output_topic("out").read_values_to_list() == ["a", "a!", "a!!"]


def test_an_error_reaches_the_test_with_its_place(driver: TopologyTestDriver) -> None:
    with pytest.raises(ProcessingError, match="node KSTREAM-MAPVALUES-0000000001, topic in"):
        driver.create_input_topic("in").pipe_input("k", None)


def test_topics_have_as_many_partitions_as_are_asked_for() -> None:
    builder = StreamsBuilder()
    build(builder)
    with TopologyTestDriver(builder.build(), partitions={"TextLinesTopic": 3}) as driver:
        lines = driver.create_input_topic("TextLinesTopic", Serdes.string, Serdes.string)
        counts = driver.create_output_topic("WordsWithCountsTopic", Serdes.string, Serdes.long)
        for key in ("x", "y", "z"):
            lines.pipe_input(key, "to be or not to be")
        words = {"to", "be", "or", "not"}
        held = [
            {word for word, _ in store.all()}
            for number in range(3)
            if (store := driver.get_key_value_store("counts-store", number)) is not None
        ]
        read = [
            task.task_id.partition for task in driver.tasks if task.statistics().total(TASK_PROCESS)
        ]

    assert counts.read_key_values_to_map() == {"to": 6, "be": 6, "or": 3, "not": 3}
    assert set.union(*held) == words
    assert sum(map(len, held)) == len(words), "each word is counted in one partition"
    assert len(set(read)) > 1
    assert len(driver.tasks) == 6


def test_a_record_goes_to_the_partition_it_is_written_to() -> None:
    builder = StreamsBuilder()
    upper(builder)
    with TopologyTestDriver(builder.build(), STRINGS, partitions={"in": 2}) as driver:
        driver.pipe_raw("in", b"k", b"v", 0, partition=1)

        assert [task.statistics().total(TASK_PROCESS) for task in driver.tasks] == [0, 1]


def test_of_two_sub_topologies_the_one_with_the_earlier_record_goes_first() -> None:
    """As in Java, whose driver has one task: the lowest timestamp of all its partitions is next."""
    builder = StreamsBuilder()
    source = builder.stream("in")
    for name in ("one", "two"):
        source.flat_map_values(str.split).repartition(Repartitioned(name=name)).to("out")
    with TopologyTestDriver(builder.build(), STRINGS) as driver:
        driver.create_input_topic("in").pipe_input("k", "a b")

        written = [record.value for record in driver.history if record.topic == "out"]

    assert written == [b"a", b"a", b"b", b"b"]
    assert len(driver.tasks) == 3


def test_times_of_lists_are_given_with_a_start_and_a_step() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    driver = TopologyTestDriver(builder.build(), STRINGS)
    source = driver.create_input_topic("in", start_ms=100, auto_advance=timedelta(seconds=1))

    source.pipe_key_value_list([("a", "1"), ("b", "2")], 5, timedelta(milliseconds=10))
    source.pipe_value_list(["3", "4"], start_ms=50, advance=2)
    source.advance_time(timedelta(milliseconds=7))
    source.pipe_value_list(["5", "6"])
    source.pipe_record(TopicRecord("c", "7", 1, [("h", b"x")]))

    records = driver.create_output_topic("out").read_records_to_list()
    assert [record.timestamp for record in records] == [5, 15, 50, 52, 107, 1107, 1]
    assert records[-1].headers == [("h", b"x")]
    with pytest.raises(ValueError, match="forward"):
        source.pipe_value_list(["8"], 5, timedelta(seconds=-1))


STORES: dict[str, StoreSpec] = {
    "plain": StoreSpec(name="plain", kind=StoreKind.KEY_VALUE),
    "timestamped": StoreSpec(name="timestamped"),
    "versioned": Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("versioned", 1_000), Serdes.string, Serdes.long
    ),
    "windows": Stores.window_store_builder(
        Stores.in_memory_window_store("windows", 1_000, 10), Serdes.string, Serdes.long
    ),
    "timestamped-windows": Stores.timestamped_window_store_builder(
        Stores.persistent_timestamped_window_store("timestamped-windows", 1_000, 10),
        Serdes.string,
        Serdes.long,
    ),
    "sessions": Stores.session_store_builder(
        Stores.persistent_session_store("sessions", 1_000), Serdes.string, Serdes.long
    ),
}
GETTERS = {
    "get_key_value_store": {"plain", "timestamped"},
    "get_timestamped_key_value_store": {"timestamped"},
    "get_versioned_key_value_store": {"versioned"},
    "get_window_store": {"windows", "timestamped-windows"},
    "get_timestamped_window_store": {"timestamped-windows"},
    "get_session_store": {"sessions"},
    "get_state_store": set(STORES),
}
"""What each gives in Kafka Streams, too; for the others it gives null."""


@pytest.mark.parametrize("getter", GETTERS)
def test_a_getter_gives_stores_of_its_kind(getter: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(lambda record: record, *STORES.values())
    config = {"default.key.serde": "string", "default.value.serde": "long"}

    with TopologyTestDriver(builder.build(), config) as driver:
        given = {name for name in STORES if getattr(driver, getter)(name) is not None}

        assert given == GETTERS[getter]
        assert getattr(driver, getter)("nothing") is None
        assert driver.get_all_state_stores().keys() == STORES.keys()


def test_the_buffer_of_a_suppression_is_no_key_value_store() -> None:
    builder = StreamsBuilder()
    late = Suppressed.until_time_limit(1, BufferConfig.unbounded()).with_name("late")
    builder.table("in").suppress(late)
    config = {"default.key.serde": "string", "default.value.serde": "long"}

    with TopologyTestDriver(builder.build(), config) as driver:
        assert driver.get_key_value_store("late-store") is None
