"""Where the stores of the DSL are kept: by application, by operator, by supplier."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater import (
    BuiltInDslStoreSuppliers,
    ConfigError,
    DslKeyValueParams,
    DslSessionParams,
    DslStoreFormat,
    DslStoreSuppliers,
    DslWindowParams,
    EmitStrategy,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StoreKind,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
)
from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.model.partitions import plan
from headwater.model.reporting import configured
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater import Topology

MEMORY = BuiltInDslStoreSuppliers.IN_MEMORY
DISK = BuiltInDslStoreSuppliers.ROCKS_DB
SETTING_SLACK = "windowstore.changelog.additional.retention.ms"
FORMAT = "dsl.store.format"
SETTING = "dsl.store.suppliers.class"
JAVA = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers"
JOIN = JoinWindows.of(before=5, after=5, grace=0)


def every_kind(builder: StreamsBuilder) -> None:
    """A store of each kind that the DSL makes."""
    stream = builder.stream("in")
    group = stream.group_by_key()
    group.count(store="counts")
    group.windowed_by(TimeWindows.of(size=10, grace=0)).count(store="windows")
    group.windowed_by(SessionWindows.of(inactivity_gap=5, grace=0)).count(store="sessions")
    stream.outer_join(builder.stream("other"), lambda a, b: (a, b), JOIN, store="joined")
    customers = builder.table("customers", store="customers")
    builder.table("orders", store="orders").join(
        customers, lambda order: order, lambda order, customer: order, name="bought"
    )


def on_disk(topology: Topology) -> dict[str, bool]:
    return {name: spec.persistent for name, spec in topology.stores.items()}


def drawn(config: Mapping[str, object] | None = None) -> Topology:
    builder = StreamsBuilder()
    every_kind(builder)
    return builder.build(config)


def undecided() -> Topology:
    return drawn()


@pytest.mark.parametrize(
    "config",
    [
        {SETTING: "in-memory"},
        {SETTING: f"{JAVA}$InMemoryDslStoreSuppliers"},
        {SETTING: MEMORY},
        {SETTING: type(MEMORY)},
        {"dsl_store_suppliers_class": "headwater.model.dsl_stores:InMemoryDslStoreSuppliers"},
        {"default.dsl.store": "in_memory"},
        {SETTING: "in-memory", "default.dsl.store": "rocksDB"},
    ],
)
def test_the_application_says_where_all_stores_of_the_dsl_are(config: dict[str, object]) -> None:
    topology = drawn(config)

    assert set(on_disk(topology).values()) == {False}
    assert len(on_disk(topology)) == 9
    assert set(on_disk(drawn()).values()) == {True}


def test_a_topology_that_does_not_know_its_configuration_is_told_by_who_runs_it() -> None:
    serdes = {"default.key.serde": "string", "default.value.serde": "string"}
    config: dict[str, object] = {SETTING: "in-memory", "application.id": "app", **serdes}
    topology = drawn()

    loaded = build_topology(undecided, config=config)
    with TopologyTestDriver(topology, config) as driver:
        run = driver._topology

    assert set(on_disk(loaded).values()) == set(on_disk(run).values()) == {False}
    assert set(on_disk(topology).values()) == {True}
    report = loaded.report("app")
    assert not any(log.persistent for each in report.subtopologies for log in each.changelogs)


def test_an_operator_says_more_than_the_application() -> None:
    builder = StreamsBuilder({SETTING: "in-memory"})
    builder.table("a", store="kept", persistent=True)
    builder.table("b", materialized=Materialized.as_(DISK), store="typed")
    builder.table("c", materialized=Materialized.as_("named").with_store_type(DISK))
    builder.table(
        "d", materialized=Materialized.as_(Stores.persistent_timestamped_key_value_store("own"))
    )
    builder.table("e", store="default")
    disk = StreamJoined(store="j").with_dsl_store_suppliers(DISK)
    builder.stream("f").left_join(builder.stream("g"), lambda a, b: a, JOIN, disk)

    assert on_disk(builder.build()) == {
        "kept": True,
        "typed": True,
        "named": True,
        "own": True,
        "default": False,
        "j-this-join-store": True,
        "j-outer-other-join-store": True,
        "j-left-shared-join-store": True,
    }


def with_headers(topology: Topology) -> set[str]:
    return {name for name, spec in topology.stores.items() if spec.kind.keeps_headers}


@pytest.mark.parametrize("value", ["HEADERS", "headers", " Headers "])
def test_the_format_headers_gives_them_to_tables_and_aggregates(value: str) -> None:
    topology = drawn({FORMAT: value})

    assert with_headers(topology) == {"counts", "windows", "sessions", "customers", "orders"}
    assert with_headers(drawn({FORMAT: "DEFAULT"})) == with_headers(drawn()) == set()
    assert with_headers(drawn({FORMAT: value, SETTING: "in-memory"})) == set()


def test_a_topology_that_does_not_know_its_format_is_told_by_who_runs_it() -> None:
    serdes = {"default.key.serde": "string", "default.value.serde": "string"}
    config: dict[str, object] = {FORMAT: "HEADERS", "application.id": "app", **serdes}

    with TopologyTestDriver(drawn(), config) as driver:
        assert driver.get_timestamped_key_value_store_with_headers("counts") is not None
        assert driver.get_timestamped_window_store_with_headers("windows") is not None
        assert driver.get_session_store_with_headers("sessions") is not None
        assert driver.get_timestamped_key_value_store("counts") is not None
    with TopologyTestDriver(drawn(), serdes) as driver:
        assert driver.get_timestamped_key_value_store_with_headers("counts") is None


def test_the_format_counts_for_operators_that_say_where_their_stores_are() -> None:
    builder = StreamsBuilder({FORMAT: "HEADERS", SETTING: "in-memory"})
    builder.table("a", store="kept", persistent=True)
    builder.table("b", materialized=Materialized.as_(DISK), store="typed")
    builder.table("c", store="default")
    own = Stores.persistent_timestamped_key_value_store("own")
    builder.table("d", materialized=Materialized.as_(own))
    headers = Stores.persistent_timestamped_key_value_store_with_headers("headers")
    builder.table("e", materialized=Materialized.as_(headers))
    versions = Stores.persistent_versioned_key_value_store("versions", 1_000)
    builder.table("f", materialized=Materialized.as_(versions))

    assert with_headers(builder.build()) == {"kept", "typed", "headers"}


def test_a_supplier_with_headers_needs_no_format() -> None:
    builder = StreamsBuilder()
    group = builder.stream("in").group_by_key()
    group.count(
        Materialized.as_(Stores.persistent_timestamped_key_value_store_with_headers("values"))
    )
    windows = Stores.persistent_timestamped_window_store_with_headers("windows", 20, 10)
    tumbling = group.windowed_by(TimeWindows.of(size=10, grace=0))
    tumbling.count(Materialized.as_(windows))
    sessions = Stores.persistent_session_store_with_headers("sessions", 20)
    group.windowed_by(SessionWindows.of(inactivity_gap=5, grace=0)).count(
        Materialized.as_(sessions)
    )

    assert with_headers(builder.build()) == {"values", "windows", "sessions"}


def test_a_class_of_ones_own_is_told_the_format() -> None:
    told = Told()

    topology = drawn({FORMAT: "HEADERS", SETTING: told})

    assert {params.dsl_store_format for params in told.params} == {DslStoreFormat.HEADERS}
    assert with_headers(topology) == {"counts", "sessions", "customers", "orders"}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Stores.timestamped_key_value_store_with_headers_builder(
                Stores.persistent_timestamped_key_value_store("a")
            ),
            r"Stores.persistent_timestamped_key_value_store_with_headers\('a'\)",
        ),
        (
            lambda: Stores.timestamped_key_value_store_builder(
                Stores.persistent_timestamped_key_value_store_with_headers("a")
            ),
            r"Stores.persistent_timestamped_key_value_store\('a'\)",
        ),
        (
            lambda: Stores.timestamped_window_store_with_headers_builder(
                Stores.persistent_timestamped_window_store("a", 10, 10)
            ),
            "Stores.persistent_timestamped_window_store_with_headers",
        ),
        (
            lambda: Stores.session_store_with_headers_builder(
                Stores.persistent_session_store("a", 10)
            ),
            "Stores.persistent_session_store_with_headers",
        ),
    ],
)
def test_a_builder_and_its_supplier_agree_on_headers(
    build: Callable[[], Any], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        build()


class Told(DslStoreSuppliers):
    """Notes what is asked for, and keeps windows in memory."""

    def __init__(self) -> None:
        self.params: list[Any] = []
        self.configs: Mapping[str, object] = {}

    def configure(self, configs: Mapping[str, object]) -> None:
        self.configs = configs

    def key_value_store(self, params: DslKeyValueParams) -> Any:
        self.params.append(params)
        return super().key_value_store(params)

    def window_store(self, params: DslWindowParams) -> Any:
        self.params.append(params)
        return MEMORY.window_store(params)

    def session_store(self, params: DslSessionParams) -> Any:
        self.params.append(params)
        return super().session_store(params)


def test_a_class_of_ones_own_is_told_what_each_operator_needs() -> None:
    told = Told()
    builder = StreamsBuilder()
    every_kind(builder)
    closes = EmitStrategy.on_window_close()
    sliding = (
        builder.stream("s")
        .group_by_key()
        .windowed_by(SlidingWindows.of(time_difference=3, grace=0))
    )
    sliding.emit_strategy(closes).count(store="sliding")

    topology = builder.build({SETTING: told, "mine": 1})

    assert told.configs["mine"] == 1
    assert {params.name: params for params in told.params if "join" not in params.name} == {
        "counts": DslKeyValueParams(name="counts"),
        "windows": DslWindowParams(name="windows", retention_ms=10, window_size_ms=10),
        "sessions": DslSessionParams(name="sessions", retention_ms=5),
        "customers": DslKeyValueParams(name="customers"),
        "orders": DslKeyValueParams(name="orders"),
        "bought-subscription-store": DslKeyValueParams(name="bought-subscription-store"),
        "sliding": DslWindowParams(
            name="sliding",
            retention_ms=6,
            window_size_ms=3,
            emit_strategy=closes,
            is_sliding_window=True,
        ),
    }
    joined = [params for params in told.params if params.name.startswith("joined-outer-this")]
    assert joined == [
        DslWindowParams(
            name="joined-outer-this-join-store",
            retention_ms=10,
            window_size_ms=10,
            retain_duplicates=True,
            is_timestamped=False,
        )
    ]
    in_memory = {name for name, disk in on_disk(topology).items() if not disk}
    assert in_memory == {
        "windows",
        "sliding",
        "joined-outer-this-join-store",
        "joined-outer-other-join-store",
    }


def test_suppliers_say_name_retention_and_size() -> None:
    builder = StreamsBuilder()
    group = builder.stream("in").group_by_key()
    windows = Stores.in_memory_window_store("w", timedelta(seconds=9), timedelta(seconds=3))
    sessions = Stores.persistent_session_store("s", timedelta(seconds=7))
    group.windowed_by(TimeWindows.of(size=timedelta(seconds=3), grace=0)).count(
        Materialized.as_(windows)
    )
    group.windowed_by(SessionWindows.of(inactivity_gap=1, grace=0)).count(
        Materialized.as_(sessions)
    )
    versions = Stores.persistent_versioned_key_value_store("v", timedelta(seconds=5))
    builder.table("t", materialized=Materialized.as_(versions).with_logging_disabled())
    own = Stores.in_memory_window_store("left", 10, 10, retain_duplicates=True)
    joined = StreamJoined().with_this_store_supplier(own)
    builder.stream("a").join(builder.stream("b"), lambda a, b: a, JOIN, joined)

    stores = builder.build().stores

    assert (stores["w"].retention_ms, stores["w"].window_size_ms) == (9_000, 3_000)
    assert not stores["w"].persistent
    assert (stores["s"].retention_ms, stores["s"].persistent) == (7_000, True)
    assert stores["v"].kind is StoreKind.VERSIONED
    assert (stores["v"].retention_ms, stores["v"].logging) == (5_000, False)
    assert not stores["left"].persistent


def table(**options: Any) -> Callable[[StreamsBuilder], Any]:
    return lambda builder: builder.table("t", **options)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (table(persistent=True, store_type=MEMORY), "persistent and store_type say the same"),
        (table(store_type="memory"), "pass a DslStoreSuppliers"),
        (
            table(store="b", store_supplier=Stores.in_memory_key_value_store("a")),
            "leave out store='b'",
        ),
        (
            table(store_supplier=Stores.persistent_key_value_store("a")),
            "persistent_timestamped_key_value_store",
        ),
        (
            table(store_supplier=Stores.in_memory_session_store("a", 5)),
            "pass a supplier of Stores for this kind",
        ),
    ],
)
def test_what_does_not_fit_is_refused(draw: Callable[[StreamsBuilder], Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        draw(StreamsBuilder())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({SETTING: "disk"}, "expected rocksdb, in-memory"),
        ({SETTING: "no.such:Class"}, "cannot import"),
        ({SETTING: "headwater:Stores"}, "is no DslStoreSuppliers"),
        ({"default.dsl.store": "memory"}, "expected rocksDB or in_memory"),
        ({FORMAT: "TIMESTAMPED"}, "expected DEFAULT or HEADERS"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        drawn(config)


@pytest.mark.parametrize(
    ("more", "kept_ms"),
    [({}, "86400010"), ({SETTING_SLACK: 500}, "510"), ({SETTING_SLACK: "0"}, "10")],
)
def test_changelogs_of_windows_are_kept_longer_than_their_stores(
    more: dict[str, object], kept_ms: str
) -> None:
    builder = StreamsBuilder()
    group = builder.stream("in").group_by_key()
    group.windowed_by(TimeWindows.of(size=10, grace=0)).count(store="windows")
    group.windowed_by(TimeWindows.of(size=10, grace=0)).count(
        store="own", topic_config={"retention.ms": "77"}
    )
    group.count(store="counts")
    config = StreamsConfig.parse({"application.id": "app", **more})

    planned = plan(configured(builder.build().report("app"), config), {"in": 1})

    topics = {topic.name: topic.configs for topic in planned.internal_topics}
    assert topics["app-windows-changelog"]["retention.ms"] == kept_ms
    assert topics["app-own-changelog"]["retention.ms"] == "77"
    assert "retention.ms" not in topics["app-counts-changelog"]
