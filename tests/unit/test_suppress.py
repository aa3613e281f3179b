"""Suppression: which updates wait, how long, in which order they go on, and what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import (
    BufferConfig,
    BufferFullError,
    Serdes,
    StoreKind,
    StoreSpec,
    StreamsBuilder,
    Suppressed,
    Topology,
)
from headwater.errors import DeserializationError, TopologyError
from headwater.ids import TaskId, TopicPartition
from headwater.model.nodes import SinkNode, SourceNode
from headwater.model.operators.suppress import TableSuppress
from headwater.model.operators.table import TableSource, TableToStream
from headwater.model.windows import Window, Windowed
from headwater.ports import NOW
from headwater.state import ChangelogFacts, MemoryBackend, StoreRestorer, open_store
from headwater.testing import TopologyTestDriver
from headwater.testing.collector import MemoryCollector
from headwater.wire.buffer import BufferValue, decode, encode, size_bytes

if TYPE_CHECKING:
    from headwater.ports import Backend
    from headwater.state.buffer import SuppressionBuffer

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}


def drawn(suppressed: Suppressed, topic: str = "t") -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.table(topic, **STRINGS).suppress(suppressed).to_stream().to("out", **STRINGS)
    return builder


def driven(topology: Topology, **config: Any) -> TopologyTestDriver:
    settings = {"application.id": "app", "statestore.cache.max.bytes": "0", **config}
    return TopologyTestDriver(topology, settings)


def pipe(driver: TopologyTestDriver, *records: tuple[str, str | None, int]) -> None:
    inputs = driver.create_input_topic("t", Serdes.string, Serdes.string)
    for key, value, at in records:
        inputs.pipe_input(key, value, at)


def results(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    outputs = driver.create_output_topic("out", Serdes.string, Serdes.string)
    return [(found.key, found.value, found.timestamp) for found in outputs.read_records_to_list()]


UNBOUNDED = BufferConfig.unbounded()
TEN = Suppressed.until_time_limit(10, UNBOUNDED)


# ---- time --------------------------------------------------------------------------------------


def test_of_several_updates_of_a_key_the_last_one_goes_on_when_the_first_has_waited() -> None:
    with driven(drawn(TEN).build()) as driver:
        pipe(driver, ("b", "1", 3), ("a", "1", 3), ("b", "2", 9), ("a", None, 12))
        assert results(driver) == []

        pipe(driver, ("c", "1", 13))

        assert results(driver) == [("a", None, 12), ("b", "2", 9)]


def test_an_update_out_of_order_takes_its_place_by_time_and_may_go_on_at_once() -> None:
    limit = Suppressed.until_time_limit(timedelta(milliseconds=10), UNBOUNDED)
    with driven(drawn(limit).build()) as driver:
        pipe(driver, ("a", "1", 20), ("b", "1", 15), ("c", "1", 10))
        assert results(driver) == [("c", "1", 10)]

        pipe(driver, ("d", "1", 30))

        assert results(driver) == [("b", "1", 15), ("a", "1", 20)]


def test_without_a_limit_everything_goes_on_with_its_own_headers() -> None:
    now = Suppressed.until_time_limit(0, UNBOUNDED)
    with driven(drawn(now).build()) as driver:
        driver.pipe_raw("t", b"a", b"1", 5, [("h", b"1")])

        assert [(one.value, one.headers) for one in driver.output_queue("out")] == [
            (b"1", [("h", b"1")])
        ]


def test_what_is_looked_up_is_what_has_gone_on() -> None:
    builder = StreamsBuilder()
    kept = builder.table("t", **STRINGS).suppress(TEN)
    builder.stream("s", **STRINGS).left_join(kept, lambda s, t: f"{s}+{t}").to("out", **STRINGS)
    with driven(builder.build()) as driver:
        stream = driver.create_input_topic("s", Serdes.string, Serdes.string)
        pipe(driver, ("a", "1", 5))
        stream.pipe_input("a", "x", 6)
        pipe(driver, ("b", "1", 15), ("a", "2", 16))
        stream.pipe_input("a", "y", 17)

        assert [value for _, value, _ in results(driver)] == ["x+None", "y+1"]


# ---- room --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "buffer",
    [
        BufferConfig.max_records(2),
        UNBOUNDED.emit_early_when_full().with_max_records(2),
        # A change takes 8 + 1 for time and key, 20 + 1 for its context, 1 for each of its values.
        BufferConfig.max_bytes(63),
        BufferConfig.max_records(1).with_no_bound().with_max_bytes(63).emit_early_when_full(),
    ],
)
def test_a_full_buffer_lets_its_oldest_updates_go(buffer: BufferConfig) -> None:
    with driven(drawn(Suppressed.until_time_limit(100, buffer)).build()) as driver:
        pipe(driver, ("b", "1", 4), ("a", "1", 5), ("b", "2", 6))
        assert results(driver) == []

        pipe(driver, ("c", "1", 7))

        assert results(driver) == [("b", "2", 6)]


@pytest.mark.parametrize(
    ("buffer", "said"),
    [
        (UNBOUNDED.with_max_records(1), "2 of at most 1 records"),
        (BufferConfig.max_bytes(40).shut_down_when_full(), "62 of at most 40 bytes"),
    ],
)
def test_a_full_buffer_that_must_not_let_go_is_an_error(buffer: BufferConfig, said: str) -> None:
    limit = Suppressed.until_time_limit(100, buffer).with_name("quiet")
    with driven(drawn(limit).build()) as driver:
        pipe(driver, ("a", "1", 4))
        with pytest.raises(BufferFullError, match=f"task 0_0, node quiet: .*{said}"):
            pipe(driver, ("b", "1", 4))


# ---- windows -----------------------------------------------------------------------------------


def windowed(duration_ms: int) -> Topology:
    key_serde = Serdes.time_windowed(Serdes.string, 10)
    buffer = StoreSpec(
        name="b",
        kind=StoreKind.SUPPRESSION_BUFFER,
        persistent=False,
        caching=False,
        key_serde=key_serde,
        value_serde=Serdes.string,
    )
    suppress = TableSuppress(
        buffer="b", duration_ms=duration_ms, of_window=True, bounds=UNBOUNDED, send_old=True
    )
    topology = Topology()
    topology.add_source_node(
        SourceNode(name="s", topics=("t",), key_serde=key_serde, value_serde=Serdes.string)
    )
    topology.add_operator("table", TableSource(), ("s",))
    topology.add_operator("suppress", suppress, ("table",))
    topology.add_state_store(buffer, "suppress")
    topology.add_operator("stream", TableToStream(), ("suppress",))
    sink = SinkNode(name="o", parents=("stream",), topic="out", key_serde=key_serde)
    topology.add_sink_node(sink)
    return topology


def test_until_its_window_and_grace_are_over_a_result_waits_and_a_deletion_is_not_told() -> None:
    with driven(windowed(5), **{"default.value.serde": "string"}) as driver:
        serde = Serdes.time_windowed(Serdes.string, 10)
        inputs = driver.create_input_topic("t", serde, Serdes.string)
        for start, key, value, at in (
            (0, "b", "1", 2), (0, "a", "1", 9), (10, "a", "2", 14), (0, "a", "3", 14),
            (0, "c", None, 14),
        ):  # fmt: skip
            inputs.pipe_input(Windowed(key, Window(start, start + 10)), value, at)
        outputs = driver.create_output_topic("out", serde, Serdes.string)
        assert outputs.is_empty()

        inputs.pipe_input(Windowed("d", Window(10, 20)), "4", 15)

        found = [(r.key.key, r.value, r.timestamp) for r in outputs.read_records_to_list()]
        assert found == [("a", "3", 14), ("b", "1", 2)]


# ---- what is refused ---------------------------------------------------------------------------


def test_a_table_without_windows_cannot_wait_for_their_end() -> None:
    with pytest.raises(TopologyError, match="no windows that could close"):
        drawn(Suppressed.until_window_closes(UNBOUNDED))


def test_limits_that_make_no_sense_are_refused() -> None:
    untyped: Any = Suppressed

    with pytest.raises(TopologyError, match="would not be final"):
        Suppressed.until_window_closes(BufferConfig.max_records(3))
    with pytest.raises(TopologyError, match="less than nothing"):
        Suppressed.until_time_limit(-1, UNBOUNDED)
    with pytest.raises(TopologyError, match="at most -1 records"):
        BufferConfig.max_records(-1)
    with pytest.raises(TopologyError, match="no BufferConfig"):
        untyped.until_time_limit(1, 5)
    with pytest.raises(TopologyError, match="says nothing"):
        drawn(untyped)


def test_a_name_is_the_node_s_and_the_buffer_s() -> None:
    topology = drawn(TEN.with_name("quiet")).build()

    assert "quiet" in topology.nodes
    assert topology.stores["quiet-store"].kind is StoreKind.SUPPRESSION_BUFFER
    unlogged = Suppressed.until_time_limit(1, UNBOUNDED.with_logging_disabled()).with_name("n")
    assert not drawn(unlogged).build().stores["n-store"].logging
    configured = UNBOUNDED.with_logging_disabled().with_logging_enabled({"a": "b"})
    [group] = drawn(Suppressed.until_time_limit(1, configured)).build().report("app").subtopologies
    [changelog] = [one for one in group.changelogs if "SUPPRESS" in one.store]
    assert (changelog.configs, changelog.persistent) == ({"a": "b"}, False)


# ---- the buffer --------------------------------------------------------------------------------

SPEC = StoreSpec(
    name="b", kind=StoreKind.SUPPRESSION_BUFFER, persistent=False, caching=False, **STRINGS
)
SOURCE = TopicPartition("t", 0)


def opened(backend: Backend, sent: MemoryCollector) -> SuppressionBuffer:
    store: Any = open_store(
        SPEC,
        task=TaskId(0, 0),
        changelog_topic="app-b-changelog",
        backend=backend,
        cache=None,
        changelog_send=sent.sender("app-b-changelog"),
        **STRINGS,
    )
    store.load()
    found: SuppressionBuffer = store
    return found


def commit(store: SuppressionBuffer) -> None:
    store.flush_cache()
    store.flush_changelog()
    store.commit(None)


def order(store: SuppressionBuffer) -> list[tuple[str, Any]]:
    found = []
    while store.count:
        key, change, _ = store.first()
        found.append((key, change))
        store.remove_first()
    return found


def test_what_waits_is_in_the_changelog_after_a_commit_and_what_has_gone_on_is_not() -> None:
    sent = MemoryCollector()
    store = opened(MemoryBackend(), sent)
    store.buffer(5, "a", ("2", "1"), (7, 0, SOURCE, [("h", None)]))
    store.buffer(4, "b", ("1", None), (4, 1, SOURCE, None))
    store.remove_first()
    assert sent.records == []

    commit(store)

    first, second = sent.records
    assert (first.key, first.timestamp, first.headers) == (b"a", NOW, [("v", b"\x03")])
    assert first.value is not None
    assert decode(first.value) == BufferValue(5, b"1", b"1", b"2", 7, 0, "t", 0, [("h", None)])
    assert (second.key, second.value, second.headers) == (b"b", None, None)


def test_an_abort_forgets_what_is_not_committed() -> None:
    store = opened(MemoryBackend(), MemoryCollector())
    store.buffer(5, "a", ("1", None), (5, 0, SOURCE, None))
    store.buffer(6, "b", ("1", None), (6, 1, SOURCE, None))
    commit(store)
    store.remove_first()
    store.buffer(5, "b", ("2", "1"), (8, 2, SOURCE, None))
    store.buffer(1, "c", ("1", None), (8, 2, SOURCE, None))

    store.abort()
    store.load()

    assert (store.count, store.min_time) == (2, 5)
    assert order(store) == [("a", ("1", None)), ("b", ("1", None))]
    assert (store.count, store.size_bytes) == (0, 0)


def test_a_restore_from_the_changelog_brings_back_order_and_sizes() -> None:
    sent = MemoryCollector()
    store = opened(MemoryBackend(), sent)
    for number, (time, key) in enumerate([(5, "z"), (5, "a"), (3, "m"), (9, "b")]):
        store.buffer(time, key, (f"{number}", None), (time, number, SOURCE, [("h", b"1")]))
    commit(store)
    facts = ChangelogFacts(topic_id="t", log_start=0, log_end=4, delete_retention_ms=1)
    restorer = StoreRestorer(SPEC, None, facts, now_ms=0, holder="test")
    rows = [(one.key or b"", one.timestamp, one.value) for one in sent.records]
    restorer.write(restorer.entries_of(rows), 4, records=4)

    restored = opened(restorer.take(), MemoryCollector())

    assert restored.size_bytes == store.size_bytes
    assert [key for key, _ in order(restored)] == ["m", "a", "z", "b"]


PART = st.none() | st.binary(max_size=4)
VALUES = st.builds(
    BufferValue,
    st.integers(-(2**63), 2**63 - 1),
    PART,
    PART,
    PART,
    st.integers(0, 2**40),
    st.integers(-1, 2**40),
    st.text(max_size=5).filter(str.isascii),
    st.integers(-1, 9),
    st.none() | st.lists(st.tuples(st.text(max_size=3), PART), min_size=1, max_size=3),
)


@given(VALUES)
def test_a_change_comes_out_of_its_bytes_as_it_was(value: BufferValue) -> None:
    assert decode(encode(value)) == value
    assert size_bytes(b"k", value) <= len(encode(value)) + 1


@pytest.mark.parametrize("data", ["", "00" * 20, "00" * 60 + "ff"])
def test_other_bytes_are_no_change(data: str) -> None:
    with pytest.raises(DeserializationError, match="version 3"):
        decode(bytes.fromhex(data))
