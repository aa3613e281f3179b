"""Joins of two tables by a foreign key, run by the test driver on several partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater import Materialized, Serdes, StreamsBuilder, TableJoined
from headwater.errors import ConfigError, DeserializationError, ProcessingError, TopologyError
from headwater.model.metrics import DROPPED_RECORDS
from headwater.model.partitions import plan
from headwater.serde.foreign import (
    Instruction,
    Subscription,
    SubscriptionResponse,
    SubscriptionResponseSerde,
    SubscriptionSerde,
)
from headwater.testing import TopologyTestDriver
from headwater.wire.foreign import murmur3_128
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import KTable

STRINGS: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
COUNTS = {"orders": 2, "customers": 3}
SUBSCRIPTIONS = "app-meet-subscription-registration-topic"
RESPONSES = "app-meet-subscription-response-topic"


def both(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def customer(order: str) -> str | None:
    """An order's value is its customer, a slash, and what was bought; without one of nobody."""
    return order.split("/", maxsplit=1)[0] or None


def tables(builder: StreamsBuilder) -> tuple[KTable[str, str], KTable[str, str]]:
    return builder.table("orders", **STRINGS), builder.table("customers", **STRINGS)


def drawn(
    method: str = "join", extractor: Callable[..., str | None] = customer, **options: Any
) -> StreamsBuilder:
    builder = StreamsBuilder()
    orders, customers = tables(builder)
    options = {"name": "meet", **options}
    joined = getattr(orders, method)(customers, extractor, both, **options)
    joined.to_stream().to("out", **STRINGS)
    return builder


def driven(builder: StreamsBuilder, **config: Any) -> TopologyTestDriver:
    settings = {"application.id": "app", "statestore.cache.max.bytes": "0", **config}
    return TopologyTestDriver(builder.build(), settings, partitions=COUNTS)


def pipe(driver: TopologyTestDriver, *records: tuple[str, str | None, str | None, int]) -> None:
    for topic, key, value, at in records:
        inputs = driver.create_input_topic(topic, Serdes.string, Serdes.string)
        inputs.pipe_input(key, value, at)


def results(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    outputs = driver.create_output_topic("out", Serdes.string, Serdes.string)
    return [(found.key, found.value, found.timestamp) for found in outputs.read_records_to_list()]


def sent(driver: TopologyTestDriver, topic: str) -> list[Any]:
    return [one for one in driver.history if one.topic == topic]


UPDATES = [
    ("orders", "1", "ann/tea", 5),
    ("customers", "ann", "A", 3),
    ("orders", "2", "ann/milk", 2),
    ("customers", "ann", "B", 7),
    ("orders", "1", "bob/tea", 9),
    ("orders", "2", "ann/oats", 8),
    ("orders", "1", None, 10),
    ("orders", "3", "/air", 11),
    ("customers", "ann", None, 12),
    ("orders", "2", None, 13),
]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            "join",
            [
                ("1", "ann/tea+A", 3),
                ("2", "ann/milk+A", 3),
                ("1", "ann/tea+B", 7),
                ("2", "ann/milk+B", 7),
                ("1", None, 9),
                ("2", "ann/oats+B", 8),
                ("1", None, 10),
                ("2", None, 12),
                ("2", None, 13),
            ],
        ),
        (
            "left_join",
            [
                ("1", "ann/tea+None", 5),
                ("1", "ann/tea+A", 3),
                ("2", "ann/milk+A", 3),
                ("1", "ann/tea+B", 7),
                ("2", "ann/milk+B", 7),
                ("1", "bob/tea+None", 9),
                ("2", "ann/oats+B", 8),
                ("1", None, 10),
                ("3", "/air+None", 11),
                ("2", "ann/oats+None", 12),
                ("2", None, 13),
            ],
        ),
    ],
)
@pytest.mark.parametrize("stored", [{}, {"store": "made", "value_serde": Serdes.string}])
def test_an_update_of_either_table_gives_the_results_of_all_rows_that_it_touches(
    method: str, expected: list[Any], stored: dict[str, Any]
) -> None:
    with driven(drawn(method, **stored)) as driver:
        pipe(driver, *UPDATES)

        assert results(driver) == expected
        stores = [driver.get_state_store("meet-subscription-store", at) for at in range(3)]
        left = {key[4:] for store in stores for key, _ in store.all()}
        assert left == set()


def test_what_an_extractor_gives_may_depend_on_the_key() -> None:
    with driven(drawn(extractor=lambda key, _value: key.upper(), with_key=True)) as driver:
        pipe(driver, ("customers", "A", "x", 1), ("orders", "a", "y", 2))

        assert results(driver) == [("a", "y+x", 2)]


def test_a_row_without_a_foreign_key_is_dropped_and_counted_by_an_inner_join_alone() -> None:
    for method, dropped in (("join", 1), ("left_join", 0)):
        with driven(drawn(method)) as driver:
            pipe(driver, ("orders", "3", "/air", 11))

            total = sum(task.statistics().total(DROPPED_RECORDS) for task in driver.tasks)
            assert total == dropped
            assert len(driver.warnings) == dropped
            if dropped:
                assert driver.warnings[0] == (
                    "task 0_1, node meet-subscription-registration-processor: Skipping record "
                    "due to null foreign key. topic=[orders] partition=[1] offset=[0]"
                )


def test_a_response_to_a_former_value_is_dropped_and_counted() -> None:
    with driven(drawn()) as driver:
        pipe(driver, ("orders", "1", "ann/tea", 5))
        partition = partition_for_key(b"1", 2)
        for value in (b"ann/tea", b"ann/old"):
            answer = b"\x00" + murmur3_128(value) + b"X"
            driver.pipe_raw(RESPONSES, b"1", answer, 9, partition=partition)

        assert results(driver) == [("1", "ann/tea+X", 9)]
        assert sum(task.statistics().total(DROPPED_RECORDS) for task in driver.tasks) == 1


# ---- topics ----------------------------------------------------------------------------------


def test_each_topic_has_as_many_partitions_as_the_table_behind_it() -> None:
    report = drawn().build().report("app")

    planned = {topic.name: topic for topic in plan(report, COUNTS).internal_topics}

    assert planned[SUBSCRIPTIONS].partitions == 3
    assert planned[RESPONSES].partitions == 2
    assert planned[RESPONSES].configs == {
        "cleanup.policy": "delete",
        "segment.bytes": "52428800",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    assert planned["app-meet-subscription-store-changelog"].partitions == 3
    assert planned["app-meet-subscription-store-changelog"].configs["cleanup.policy"] == "compact"


def test_a_response_goes_where_the_subscription_came_from() -> None:
    with driven(drawn()) as driver:
        driver.pipe_raw("orders", b"1", b"ann/tea", 1, partition=0)
        driver.pipe_raw("orders", b"1", b"ann/oats", 1, partition=1)
        pipe(driver, ("customers", "ann", "A", 2))

        assert [one.partition for one in sent(driver, SUBSCRIPTIONS)] == [None, None]
        assert [one.partition for one in sent(driver, RESPONSES)] == [1]


@pytest.mark.parametrize("as_object", [True, False])
def test_tables_with_partitioners_of_their_own_are_joined_where_their_rows_are(
    *, as_object: bool
) -> None:
    chosen: dict[str, Any] = {
        "partitioner": lambda _topic, _key, _value, partitions: partitions - 1,
        "other_partitioner": lambda _topic, _key, _value, _partitions: [0],
    }
    builder = StreamsBuilder()
    orders, customers = tables(builder)
    if as_object:
        settings: TableJoined[str, str] = TableJoined(name="meet", **chosen)
        kept: Materialized[str, str] = Materialized(store="made", value_serde=Serdes.string)
        orders.join(customers, customer, both, settings, kept)
    else:
        orders.join(customers, customer, both, name="meet", store="made", **STRINGS, **chosen)

    with driven(builder) as driver:
        driver.pipe_raw("customers", b"ann", b"A", 1, partition=0)
        driver.pipe_raw("orders", b"1", b"ann/tea", 2, partition=1)

        assert driver.get_state_store("made", 1).get("1") == ("ann/tea+A", 2)


def test_a_partitioner_that_gives_several_partitions_is_an_error() -> None:
    def several(_topic: str, _key: str, _value: None, partitions: int) -> list[int]:
        return [*range(partitions)]

    with (
        driven(drawn(other_partitioner=several)) as driver,
        pytest.raises(ProcessingError, match="it gave 3 partitions"),
    ):
        pipe(driver, ("orders", "1", "ann/tea", 5))


# ---- what is refused -------------------------------------------------------------------------


def test_functions_settings_and_builders_that_do_not_fit_are_refused() -> None:
    orders, customers = tables(StreamsBuilder())
    _, others = tables(StreamsBuilder())
    untyped: Any = orders

    with pytest.raises(TopologyError, match="another builder"):
        orders.join(others, customer, both)
    with pytest.raises(TopologyError, match="foreign_key"):
        untyped.join(customers, foreign_key=3, joiner=both)
    with pytest.raises(TopologyError, match="comes a TableJoined or a Materialized, not 'made'"):
        untyped.join(customers, customer, both, "made")
    with pytest.raises(TopologyError, match="no such setting"):
        untyped.join(customers, customer, both, shop="x")


def test_what_an_extractor_raises_is_decided_at_its_node() -> None:
    def fails(_value: str) -> str:
        raise ValueError("a bad extractor")

    node = "meet-subscription-registration-processor"
    with (
        driven(drawn(extractor=fails)) as driver,
        pytest.raises(ProcessingError, match=f"node {node}, topic orders, partition 1, offset 0"),
    ):
        pipe(driver, ("orders", "1", "ann/tea", 5))


def test_a_serde_that_is_missing_is_named() -> None:
    builder = StreamsBuilder()
    orders = builder.table("orders", value_serde=Serdes.string)
    customers = builder.table("customers", **STRINGS)
    orders.join(customers, customer, both, name="meet")

    with pytest.raises(ConfigError, match=r"has no key serde and default\.key\.serde is not set"):
        driven(builder)


# ---- bytes -----------------------------------------------------------------------------------

PLAIN = SubscriptionSerde("t", Serdes.string)
HASH = bytes(range(16))


@pytest.mark.parametrize(
    ("subscription", "encoded"),
    [
        (Subscription(2, HASH, "pk", 7), "0102" + HASH.hex() + "706b00000007"),
        (Subscription(1, None, "pk", 0), "8101706b00000000"),
        (Subscription(3, HASH, "", None, 0), "0003" + HASH.hex()),
        (Subscription(0, None, "pk", None, 0), "8000706b"),
    ],
)
def test_a_subscription_has_java_s_bytes_also_of_the_version_before(
    subscription: Subscription, encoded: str
) -> None:
    assert PLAIN.serializer("x")(subscription).hex() == encoded
    assert PLAIN.deserializer("x")(bytes.fromhex(encoded)) == subscription
    assert subscription.instruction in [*Instruction]


@pytest.mark.parametrize(
    ("response", "encoded"),
    [
        (SubscriptionResponse(HASH, "v"), "00" + HASH.hex() + "76"),
        (SubscriptionResponse(HASH, None), "00" + HASH.hex()),
        (SubscriptionResponse(None, None), "80"),
    ],
)
def test_a_response_has_java_s_bytes(response: SubscriptionResponse, encoded: str) -> None:
    serde = SubscriptionResponseSerde(Serdes.string)

    assert serde.serializer("x")(response).hex() == encoded
    assert serde.deserializer("x")(bytes.fromhex(encoded)) == response


@pytest.mark.parametrize("data", ["", "01", "0102", "8104" + "00" * 8, "0200" + "00" * 20, "8101"])
def test_other_bytes_are_no_subscription(data: str) -> None:
    with pytest.raises(DeserializationError, match="no subscription"):
        PLAIN.deserializer("x")(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "00", "01" + "00" * 16, "81"])
def test_other_bytes_are_no_response(data: str) -> None:
    with pytest.raises(DeserializationError, match="no response"):
        SubscriptionResponseSerde(Serdes.string).deserializer("x")(bytes.fromhex(data))
