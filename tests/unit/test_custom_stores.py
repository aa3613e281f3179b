"""Stores of the user's own, of every kind: under tables, processors and joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_stores import (
    MADE,
    AllOwn,
    OwnKeyValues,
    OwnSessions,
    OwnVersions,
    OwnWindows,
)

from headwater import (
    DslWindowParams,
    EmitStrategy,
    JoinWindows,
    KeyValueBytesStoreSupplier,
    Materialized,
    Record,
    Serdes,
    SessionBytesStoreSupplier,
    SessionWindows,
    StateError,
    Stores,
    StoreSpec,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
    Windowed,
)
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater import ProcessorContext, Topology

TEXTS = {"default.key.serde": "string", "default.value.serde": "string"}
SETTING = "dsl.store.suppliers.class"
WINDOWS = TimeWindows.of(size=10, grace=20)
SESSIONS = SessionWindows.of(inactivity_gap=5, grace=20)
JOIN = JoinWindows.of(before=5, after=5, grace=10)
SIZE, KEPT = 10, 20
"""Of the windows of that join, in milliseconds."""


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()


def own_windows(name: str, **differs: Any) -> OwnWindows:
    options = {"retention_ms": KEPT, "window_size_ms": SIZE, "retain_duplicates": True} | differs
    return OwnWindows(name=name, **options)


def counted(materialized: Materialized[Any, Any]) -> Topology:
    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().count(materialized)
    table.to_stream().to("out", value_serde=Serdes.long)
    return builder.build()


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("by_setting", [True, False])
def test_a_table_is_kept_in_a_store_of_ones_own(*, caching: bool, by_setting: bool) -> None:
    stored: Materialized[Any, Any] = (
        Materialized.as_("counts") if by_setting else Materialized.as_(OwnKeyValues(name="counts"))
    )
    stored = stored if caching else stored.with_caching_disabled()
    config = {**TEXTS, **({SETTING: AllOwn} if by_setting else {})}

    with TopologyTestDriver(counted(stored), config) as driver:
        source = driver.create_input_topic("in", Serdes.string, Serdes.string)
        for key in ("a", "b", "a"):
            source.pipe_input(key, "x", timestamp=5)
        out = driver.create_output_topic("out", Serdes.string, Serdes.long)
        assert out.read_key_values_to_map() == {"a": 2, "b": 1}
        found = driver.get_timestamped_key_value_store("counts")
        assert [(key, told.value) for key, told in found.all()] == [("a", 2), ("b", 1)]
        (made,) = MADE
        held = list(made.range(None, None))
        assert made.flushes == 3
    stamp = (5).to_bytes(8, "big")
    assert held == [(b"a", stamp + (2).to_bytes(8, "big")), (b"b", stamp + (1).to_bytes(8, "big"))]


# ---- every kind, in every way to say it ----------------------------------------------------------


def windowed(builder: StreamsBuilder, stored: Materialized[Any, Any] | None, emit: str) -> None:
    windows = builder.stream("in").group_by_key().windowed_by(WINDOWS)
    windows = windows.emit_strategy(EmitStrategy(emit))
    counts = windows.count(stored or Materialized.as_("kept")).to_stream()
    counts.map(lambda key, count: (str(key), f"{count}")).to("out")


def in_sessions(builder: StreamsBuilder, stored: Materialized[Any, Any] | None, emit: str) -> None:
    sessions = builder.stream("in").group_by_key().windowed_by(SESSIONS)
    sessions = sessions.emit_strategy(EmitStrategy(emit))
    counts = sessions.count(stored or Materialized.as_("kept")).to_stream()
    counts.map(lambda key, count: (str(key), f"{count}")).to("out")


LONGER = 60
"""Than windows or sessions may change: what has closed is read later."""
OWN: dict[Any, Callable[[], Any]] = {
    windowed: lambda: own_windows("kept", retention_ms=LONGER, retain_duplicates=False),
    in_sessions: lambda: OwnSessions(name="kept", retention_ms=LONGER),
}
RECORDS = [("a", 1), ("b", 3), ("a", 12), ("a", 7), ("b", 30), ("a", 2), ("a", 55), ("b", 90)]


def answers(
    draw: Callable[..., None], stored: Materialized[Any, Any] | None, emit: str, **config: Any
) -> list[tuple[Any, ...]]:
    builder = StreamsBuilder()
    draw(builder, stored, emit)
    with TopologyTestDriver(builder.build(), {**TEXTS, **config}) as driver:
        source = driver.create_input_topic("in", Serdes.string, Serdes.string)
        for key, timestamp in RECORDS:
            source.pipe_input(key, "x", timestamp=timestamp)
            # What has closed is looked for once a second.
            driver.advance_wall_clock_time(1_000)
        out = driver.create_output_topic("out", Serdes.string, Serdes.string)
        sent = [(r.key, r.value, r.timestamp) for r in out.read_records_to_list()]
        return [*sent, *((r.topic, r.key, r.value, r.timestamp) for r in driver.history)]


@pytest.mark.parametrize("emit", list(EmitStrategy))
@pytest.mark.parametrize("said_by", ["supplier", "store type", "setting"])
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("draw", OWN)
def test_windows_and_sessions_are_as_those_in_memory(
    draw: Callable[..., None], said_by: str, emit: str, *, caching: bool
) -> None:
    named: Materialized[Any, Any] = Materialized(store="kept", retention=LONGER)
    stored: Materialized[Any, Any] = {
        "supplier": lambda: Materialized.as_(OWN[draw]()),
        "store type": lambda: named.with_store_type(AllOwn()),
        "setting": lambda: named,
    }[said_by]()
    if not caching:
        stored = stored.with_caching_disabled()
    memory: Materialized[Any, Any] = Materialized(
        store="kept", retention=LONGER, persistent=False, caching=caching
    )

    expected = answers(draw, memory, emit)
    config = {SETTING: AllOwn} if said_by == "setting" else {}
    assert answers(draw, stored, emit, **config) == expected
    assert any(len(sent) == 3 for sent in expected)
    assert MADE
    assert MADE[-1].flushes > 0
    assert MADE[-1].closed == 1


@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("said_by", ["suppliers", "store type", "setting"])
def test_both_sides_of_a_join_are_kept_in_stores_of_ones_own(method: str, said_by: str) -> None:
    def joined(settings: StreamJoined[Any, Any, Any], **config: Any) -> list[tuple[Any, ...]]:
        builder = StreamsBuilder()
        left, right = builder.stream("left"), builder.stream("right")
        getattr(left, method)(right, lambda a, b: f"{a}{b}", JOIN, settings).to("out")
        with TopologyTestDriver(builder.build(), {**TEXTS, **config}) as driver:
            for number in range(12):
                topic = ("left", "right")[number % 2]
                at = (0, 1, 4, 4, 4, 9, 20, 12, 21, 60, 61, 90)[number]
                key = b"ab"[number % 3 // 2 :][:1]
                driver.pipe_raw(topic, key, b"%d" % number, at)
            out = driver.create_output_topic("out", Serdes.string, Serdes.string)
            return [(r.key, r.value, r.timestamp) for r in out.read_records_to_list()]

    own = {
        "suppliers": StreamJoined()
        .with_this_store_supplier(own_windows("mine"))
        .with_other_store_supplier(own_windows("yours")),
        "store type": StreamJoined(store="j").with_dsl_store_suppliers(AllOwn()),
        "setting": StreamJoined(store="j"),
    }[said_by]

    expected = joined(StreamJoined(store="j", persistent=False))
    found = joined(own, **({SETTING: AllOwn} if said_by == "setting" else {}))

    assert found == expected
    assert len(found) > 3
    assert MADE


def test_a_table_knows_the_past_in_a_store_of_ones_own() -> None:
    builder = StreamsBuilder()
    own = OwnVersions(name="prices", history_retention_ms=100)
    prices = builder.table("prices", materialized=Materialized.as_(own))
    builder.stream("orders").join(prices, lambda order, price: f"{order}{price}").to("out")

    with TopologyTestDriver(builder.build(), TEXTS) as driver:
        for value, timestamp in (("a", 10), ("c", 30), ("b", 20)):
            driver.pipe_raw("prices", b"k", value.encode(), timestamp)
        driver.pipe_raw("prices", b"k", None, 40)
        for timestamp in (5, 15, 25, 35, 45):
            driver.pipe_raw("orders", b"k", b"x", timestamp)
        out = driver.create_output_topic("out", Serdes.string, Serdes.string)
        assert out.read_values_to_list() == ["xa", "xb", "xc"]
        (made,) = MADE
        assert made.held == {
            (b"k", 10): b"a",
            (b"k", 20): b"b",
            (b"k", 30): b"c",
            (b"k", 40): None,
        }


def test_a_processor_has_stores_of_ones_own_of_every_kind() -> None:
    specs = (
        Stores.key_value_store_builder(OwnKeyValues(name="k"), Serdes.string, Serdes.string),
        Stores.window_store_builder(own_windows("w"), Serdes.string, Serdes.string),
        Stores.timestamped_window_store_builder(
            own_windows("tw", retain_duplicates=False), Serdes.string, Serdes.string
        ),
        Stores.session_store_builder(
            OwnSessions(name="s", retention_ms=50), Serdes.string, Serdes.string
        ),
        Stores.versioned_key_value_store_builder(
            OwnVersions(name="v", history_retention_ms=50), Serdes.string, Serdes.string
        ),
    )
    assert all(spec.make_store and not spec.persistent and not spec.caching for spec in specs)
    assert [spec.retention_ms for spec in specs] == [0, KEPT, KEPT, 50, 50]

    def keep(
        record: Record[str, str], context: ProcessorContext[str, str]
    ) -> Iterator[Record[str, str]]:
        windows, sessions = context.get_state_store("w"), context.get_state_store("s")
        windows.put(record.key, record.value, record.timestamp)
        context.get_state_store("tw").put(record.key, record.value, 7, record.timestamp)
        sessions.put(Windowed(record.key, (1, record.timestamp)), record.value)
        context.get_state_store("v").put(record.key, record.value, record.timestamp)
        seen = (
            list(windows.fetch(record.key, 0, 99)),
            context.get_state_store("tw").fetch(record.key, record.timestamp),
            [value for _, value in sessions.fetch(record.key)],
            context.get_state_store("v").get(record.key, 5),
        )
        yield record.with_value(repr(seen))

    builder = StreamsBuilder()
    for spec in specs:
        builder.add_state_store(spec)
    builder.stream("in").process(keep, *(spec.name for spec in specs)).to("out")
    with TopologyTestDriver(builder.build(), TEXTS) as driver:
        for value, at in ((b"x", 5), (b"y", 5), (b"z", 9)):
            driver.pipe_raw("in", b"a", value, at)
        out = driver.create_output_topic("out", Serdes.string, Serdes.string)
        *_, told = out.read_values_to_list()
    assert told == (
        "([(5, 'x'), (5, 'y'), (9, 'z')], ValueAndTimestamp(value='z', timestamp=7), "
        "['y', 'z'], VersionedRecord(value='y', timestamp=5))"
    )


class Measured(OwnSessions):
    """Has a name for its metrics."""

    @property
    def metrics_scope(self) -> str:
        return "dict-session"


def test_metrics_call_a_store_as_its_supplier_does() -> None:
    builder = StreamsBuilder()
    sessions = builder.stream("in").group_by_key().windowed_by(SESSIONS)
    sessions.count(Materialized.as_(Measured(name="measured", retention_ms=LONGER)))
    sessions.count(Materialized.as_(OwnSessions(name="kept", retention_ms=LONGER)))
    with TopologyTestDriver(builder.build(), TEXTS) as driver:
        tags = [dict(metric.tags) for metric in driver.metrics()]
    assert any(tag.get("dict-session-id") == "measured" for tag in tags)
    assert any(tag.get("in-memory-session-state-id") == "kept" for tag in tags)


# ---- what is refused -----------------------------------------------------------------------------


class Forgetful(AllOwn):
    """Takes no notice of what it is told."""

    def window_store(self, params: DslWindowParams) -> WindowBytesStoreSupplier:
        return own_windows(params.name, retain_duplicates=False)


def any_of(given: object) -> Any:
    """What no type checker lets through."""
    return given


def draw_join(**suppliers: Any) -> None:
    builder = StreamsBuilder()
    settings: StreamJoined[Any, Any, Any] = StreamJoined(**suppliers)
    builder.stream("a").join(builder.stream("b"), lambda a, b: a, JOIN, settings)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: OwnKeyValues(name="kept", persistent=True), "leave out persistent"),
        (lambda: own_windows("kept", persistent=True), "leave out persistent"),
        (lambda: OwnSessions(name="kept", retention_ms=5, persistent=True), "leave out persistent"),
        (lambda: own_windows("kept", retention_ms=9), "shorter than the windows"),
        (lambda: own_windows("kept", window_size_ms=-1), "is negative"),
        (lambda: OwnSessions(name="kept", retention_ms=-1), "is negative"),
        (lambda: OwnVersions(name="kept", history_retention_ms=-1), "is negative"),
        (lambda: Stores.in_memory_key_value_store("kept").get(), "made by the engine"),
        (lambda: Stores.in_memory_window_store("kept", 5, 5).get(), "made by the engine"),
        (lambda: Stores.persistent_session_store("kept", 5).get(), "made by the engine"),
        (
            lambda: draw_join(this_store_supplier=own_windows("kept", retain_duplicates=False)),
            "set retain_duplicates=True",
        ),
        (
            lambda: draw_join(other_store_supplier=own_windows("kept", retention_ms=21)),
            "these JoinWindows need 10 ms and 20 ms",
        ),
        (
            lambda: draw_join(other_store_supplier=own_windows("kept", window_size_ms=9)),
            "these JoinWindows need 10 ms and 20 ms",
        ),
        (
            lambda: draw_join(
                this_store_supplier=own_windows("kept"), other_store_supplier=own_windows("kept")
            ),
            "give each its own name",
        ),
        (lambda: counted(Materialized.as_(own_windows("kept"))), "pass a supplier of Stores"),
        (lambda: Materialized(store_supplier=any_of(Forgetful())), "pass a supplier of Stores"),
        (
            lambda: Stores.key_value_store_builder(any_of(own_windows("kept"))),
            "pass a KeyValueBytesStoreSupplier",
        ),
        (
            lambda: Stores.window_store_builder(any_of(OwnKeyValues(name="kept"))),
            "pass a WindowBytesStoreSupplier",
        ),
        (
            lambda: Stores.session_store_builder(any_of(own_windows("kept"))),
            "pass a SessionBytesStoreSupplier",
        ),
        (
            lambda: Stores.versioned_key_value_store_builder(any_of(OwnKeyValues(name="kept"))),
            "pass a VersionedBytesStoreSupplier",
        ),
        (lambda: draw_join(store_type=Forgetful()), "pass on the retain_duplicates"),
        (
            lambda: draw_join(this_store_supplier=OwnSessions(name="kept", retention_ms=5)),
            "pass a supplier of Stores",
        ),
        (
            lambda: Materialized(store_supplier=OwnKeyValues(name="kept"), history_retention=5),
            "leave out history_retention",
        ),
        (
            lambda: Materialized.as_(
                OwnVersions(name="kept", history_retention_ms=5)
            ).with_store_type(AllOwn()),
            "say the same",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_drawn(
    refused: Callable[[], object], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        refused()


class NoKeyValues(KeyValueBytesStoreSupplier):
    def get(self) -> Any:
        return {}


class NoWindows(WindowBytesStoreSupplier):
    def get(self) -> Any:
        return {}


class NoSessions(SessionBytesStoreSupplier):
    def get(self) -> Any:
        return {}


class NoVersions(VersionedBytesStoreSupplier):
    def get(self) -> Any:
        return {}


@pytest.mark.parametrize(
    ("built", "message"),
    [
        (
            Stores.key_value_store_builder(NoKeyValues(name="kept")),
            "no range, reverse_range, put, .*: a KeyValueBytesStore has",
        ),
        (
            Stores.window_store_builder(NoWindows(name="kept", retention_ms=5, window_size_ms=5)),
            "no fetch, fetch_all, put, .*: a WindowBytesStore has",
        ),
        (
            Stores.session_store_builder(NoSessions(name="kept", retention_ms=5)),
            "no fetch_session, find_sessions, put, .*: a SessionBytesStore has",
        ),
        (
            Stores.versioned_key_value_store_builder(
                NoVersions(name="kept", history_retention_ms=5)
            ),
            "no fetch, all, forget, put, .*: a VersionedBytesStore has",
        ),
    ],
)
def test_what_is_no_store_is_named(built: StoreSpec, message: str) -> None:
    builder = StreamsBuilder()
    builder.add_state_store(built)
    builder.stream("in").process(lambda record: record, "kept")

    with (
        pytest.raises(StateError, match=message),
        TopologyTestDriver(builder.build(), TEXTS),
    ):
        pass
