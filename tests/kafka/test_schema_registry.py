"""Serdes of a schema registry against a real one, Apicurio with Confluent's REST API; and Java."""

from __future__ import annotations

import json
import pickle
import socket
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.java.registry import Registry
from tests.java.tool import Answering
from tests.support.framed import QUOTE, TRADE, TRADE_BROKEN, TRADE_LATER, measured
from tests.support.registry_guard import Guard
from tests.support.registry_rest import asked

from headwater import (
    AvroSerde,
    ConfigError,
    IncompatibleSchemaError,
    JsonSchemaSerde,
    ProtobufSerde,
    SchemaNotFoundError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    Serdes,
    SerializationError,
    StreamsBuilder,
)
from headwater.local import jar_sets
from headwater.processor.failures import has_wrong_type
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.java, pytest.mark.processes]

URL = "schema.registry.url"


@dataclass
class Trade:
    ticker: str
    price: float


def trade_of(plain: dict[str, Any]) -> Trade:
    return Trade(plain["ticker"], plain["price"])


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with Registry() as running:
        yield running.url


def test_avro_is_written_in_confluent_s_frame_and_read(registry: str, unique_name: str) -> None:
    serde = AvroSerde[Any](TRADE, settings={URL: registry})

    data = serde.serializer(unique_name)({"ticker": "KO", "price": 1.5})

    found = asked(registry, "GET", f"/subjects/{unique_name}-value/versions/1")
    assert data[:5] == b"\0" + found["id"].to_bytes(4)
    assert data[5:] == b"\x04KO" + bytes.fromhex("000000000000f83f")
    assert serde.deserializer(unique_name)(data) == {"ticker": "KO", "price": 1.5}


def test_values_may_be_objects_and_readers_have_a_later_schema(
    registry: str, unique_name: str
) -> None:
    old = AvroSerde(TRADE, to_dict=asdict, from_dict=trade_of, settings={URL: registry})
    new = AvroSerde[Any](TRADE_LATER, settings={URL: registry})

    data = old.serializer(unique_name)(Trade("KO", 1.5))

    assert old.deserializer(unique_name)(data) == Trade("KO", 1.5)
    assert new.deserializer(unique_name)(data) == {"ticker": "KO", "price": 1.5, "size": 1}
    without = AvroSerde[Any](settings={URL: registry})
    assert without.deserializer(unique_name)(data) == {"ticker": "KO", "price": 1.5}


def test_json_schema_and_protobuf_are_written_and_read(registry: str, unique_name: str) -> None:
    quotes = JsonSchemaSerde[Any](QUOTE, settings={URL: registry})
    data = quotes.serializer(unique_name)({"ticker": "KO", "bid": 1.5})
    assert data[0] == 0
    assert json.loads(data[5:]) == {"ticker": "KO", "bid": 1.5}
    assert quotes.deserializer(unique_name)(data) == {"ticker": "KO", "bid": 1.5}
    with pytest.raises(Exception, match="ticker"):
        quotes.serializer(unique_name)({"bid": 1})

    of = measured()
    numbers = ProtobufSerde(of, settings={URL: registry})
    data = numbers.serializer(f"{unique_name}-p")(of(sensor="s", value=-3))
    assert data[0] == 0
    assert numbers.deserializer(f"{unique_name}-p")(data) == of(sensor="s", value=-3)
    with pytest.raises(TypeError, match="a str is no Measured"):
        numbers.serializer(unique_name)("s")


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (None, "{topic}-key"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "tests.Trade"),
        ("TopicRecordNameStrategy", "{topic}-tests.Trade"),
    ],
)
def test_subjects_are_named_as_in_java(
    registry: str, unique_name: str, strategy: str | None, subject: str
) -> None:
    settings = {URL: registry} | (
        {} if strategy is None else {"key.subject.name.strategy": strategy}
    )
    serde = AvroSerde[Any](TRADE, settings=settings, is_key=True)

    serde.serializer(unique_name)({"ticker": "KO", "price": 1.5})

    assert subject.format(topic=unique_name) in asked(registry, "GET", "/subjects")


def test_an_application_configures_its_serdes(registry: str, unique_name: str) -> None:
    trades = AvroSerde[Any](TRADE)
    builder = StreamsBuilder()
    (
        builder.stream("in", key_serde=Serdes.string, value_serde=trades)
        .group_by_key()
        .reduce(lambda _old, new: new, store="last")
        .to_stream()
        .to("out", value_serde=Serdes.list(trades))
    )
    config = {"application.id": unique_name, "schema.registry.url": registry}

    with TopologyTestDriver(builder.build(), config) as driver:
        given = driver.create_input_topic("in", Serdes.string, trades)
        with pytest.raises(SerializationError, match="out cannot be encoded"):
            given.pipe_input("k", {"ticker": "KO", "price": 1.5})

    subjects = asked(registry, "GET", "/subjects")
    assert {"in-value", f"{unique_name}-last-changelog-value"} <= set(subjects)


def test_what_an_application_writes_is_read_with_the_same_serde(
    registry: str, unique_name: str
) -> None:
    trades = AvroSerde(TRADE, to_dict=asdict, from_dict=trade_of)
    builder = StreamsBuilder()
    builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.double).map_values(
        lambda price: Trade("KO", price)
    ).to(unique_name, value_serde=trades)
    config = {"application.id": unique_name, "schema.registry.url": registry}

    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("in", Serdes.string, Serdes.double).pipe_input("k", 2.5)
        output = driver.create_output_topic(unique_name, Serdes.string, trades)
        found = output.read_value()

    assert found == Trade("KO", 2.5)


def test_an_address_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url is missing: set it in"):
        AvroSerde[Any](TRADE).serializer("t")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"value.subject.name.strategy": "Mine"}, "'Mine' is none of TopicNameStrategy"),
        ({"auto.register.schemas": "maybe"}, "'maybe' is neither true nor false"),
        ({"schema.registry.no.such": 1}, "no.such"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "set USER_INFO"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        AvroSerde[Any](TRADE, settings={URL: "http://localhost:1"} | settings).serializer("t")


def test_a_registry_that_does_not_answer_is_named_without_its_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    settings = {URL: f"http://user:hidden@{address}", "schema.registry.max.retries": 0}

    with pytest.raises(
        SchemaRegistryUnavailableError, match=f"{address} does not answer"
    ) as caught:
        AvroSerde[Any](TRADE, settings=settings).serializer("t")({"ticker": "KO", "price": 1.5})

    assert address in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert not has_wrong_type(caught.value)


def test_a_schema_that_is_not_there_is_named(registry: str, unique_name: str) -> None:
    settings = {URL: registry, "auto.register.schemas": "false"}
    with pytest.raises(SchemaNotFoundError, match=r"set auto\.register\.schemas"):
        AvroSerde[Any](TRADE, settings=settings).serializer(unique_name)(
            {"ticker": "KO", "price": 1.5}
        )
    with pytest.raises(SchemaNotFoundError, match=f"cannot read a value of {unique_name}: "):
        AvroSerde[Any](settings={URL: registry}).deserializer(unique_name)(
            b"\0" + (2**30).to_bytes(4) + b"x"
        )


def test_a_schema_that_does_not_go_with_the_others_is_named(
    registry: str, unique_name: str
) -> None:
    level = {"compatibility": "BACKWARD"}
    old, new = (AvroSerde[Any](one, settings={URL: registry}) for one in (TRADE, TRADE_BROKEN))
    old.serializer(unique_name)({"ticker": "KO", "price": 1.5})
    asked(registry, "PUT", f"/config/{unique_name}-value", level)

    with pytest.raises(IncompatibleSchemaError, match="give new fields a default"):
        new.serializer(unique_name)({"ticker": "KO", "price": 1.5, "size": 2})


@pytest.mark.parametrize(
    "wrong", ["text", 5, [], {"ticker": "KO"}, {"ticker": 5, "price": 1.0}, Trade("KO", 1.0)]
)
@pytest.mark.sampled
def test_values_that_the_schema_does_not_take_are_refused(
    registry: str, unique_name: str, wrong: Any
) -> None:
    with pytest.raises((TypeError, ValueError)):
        AvroSerde[Any](TRADE, settings={URL: registry}).serializer(unique_name)(wrong)


@pytest.mark.parametrize("data", [b"", b"\0", b"text of another kind", b'{"a":1}'])
def test_bytes_without_the_frame_are_refused(registry: str, data: bytes) -> None:
    with pytest.raises(Exception, match=r"framing|magic|Magic"):
        AvroSerde[Any](TRADE, settings={URL: registry}).deserializer("t")(data)


def test_schemas_are_asked_for_once(registry: str, unique_name: str) -> None:
    with Guard(registry, "user:word") as guard:
        settings = {URL: guard.url, "basic.auth.user.info": "user:word"}
        serde = AvroSerde[Any](TRADE, settings=settings)
        write, read = serde.serializer(unique_name), serde.deserializer(unique_name)
        first = write({"ticker": "KO", "price": 1.5})
        read(first)
        asked_at_first = guard.asked

        for _ in range(20):
            read(write({"ticker": "KO", "price": 1.5}))

        assert 0 < asked_at_first == guard.asked


def test_a_wrong_password_is_told_with_the_setting_to_correct(
    registry: str, unique_name: str
) -> None:
    with Guard(registry, "user:word") as guard:
        settings = {URL: guard.url, "basic.auth.user.info": "user:other"}
        with pytest.raises(SchemaRegistryError, match=r"correct basic\.auth\.user\.info") as caught:
            AvroSerde[Any](TRADE, settings=settings).serializer(unique_name)(
                {"ticker": "KO", "price": 1.5}
            )

    assert "other" not in str(caught.value)


def test_a_serde_travels_to_another_process(registry: str, unique_name: str) -> None:
    serde = AvroSerde(TRADE, to_dict=asdict, from_dict=trade_of, settings={URL: registry})
    data = serde.serializer(unique_name)(Trade("KO", 1.5))

    sent = pickle.loads(pickle.dumps(serde))

    assert sent.deserializer(unique_name)(data) == Trade("KO", 1.5)


@pytest.fixture(scope="module")
def java() -> Iterator[Answering]:
    running = Answering("avro", "ConfluentFramed", jar_set=jar_sets.AVRO)
    yield running
    running.close()


def test_java_reads_what_we_write_and_we_read_java_s(
    registry: str, java: Answering, unique_name: str
) -> None:
    serde = AvroSerde[Any](TRADE, settings={URL: registry})
    value = {"ticker": "ä€😀", "price": -1.25}

    ours = serde.serializer(unique_name)(value)
    theirs = java.ask(
        {
            "registry": registry,
            "subject": f"{unique_name}-value",
            "schema": TRADE,
            "value": value,
        }
    )

    assert theirs == {"bytes": ours.hex()}
    assert java.ask({"registry": registry, "bytes": ours.hex()}) == {"value": value}
    assert serde.deserializer(unique_name)(bytes.fromhex(theirs["bytes"])) == value
