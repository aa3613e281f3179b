"""Workers on real Kafka with a real schema registry: what they write, and what ends them."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.java.registry import Registry
from tests.java.tool import Answering
from tests.support.creating import create_known
from tests.support.framed import QUOTE, TICKER, TRADE, TRADE_BROKEN, measured
from tests.support.local_cluster import LocalCluster, streamapp
from tests.support.reading import held
from tests.support.registry_guard import Guard
from tests.support.registry_rest import asked
from tests.support.waiting import wait_for

from headwater import AvroSerde, JsonSchemaSerde
from headwater.local import jar_sets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]

URL = "schema.registry.url"
TRADES = [("KO", 1.5), ("IBM", 100.0), ("KO", 3.5), ("KO", 2.0), ("ä€😀", -1.25)]
DEAREST = {"KO": 3.5, "IBM": 100.0, "ä€😀": -1.25}


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with Registry() as running:
        yield running.url


@pytest.fixture(scope="module")
def java() -> Iterator[Answering]:
    running = Answering("avro", "ConfluentFramed", jar_set=jar_sets.AVRO)
    yield running
    running.close()


def application(servers: str, prefix: str, **config: object) -> dict[str, object]:
    return streamapp(
        servers,
        prefix,
        topology={"module": "tests.support.framed:build"},
        config={"commit.interval.ms": 100, **config},
    )


def create(servers: str, prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    ends = ("in", "out", "quotes", "measured")
    create_known(admin, *(NewTopic(f"{prefix}-{end}", 2) for end in ends))


def send(servers: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value, "k")
    assert producer.flush(60) == 0


def newest(servers: str, topic: str) -> dict[bytes, bytes]:
    return {message.key() or b"": message.value() or b"" for message in held(servers, topic)}


def test_a_worker_reads_what_java_writes_and_java_reads_what_it_writes(
    cluster: LocalCluster,
    bootstrap_servers: str,
    topic_prefix: str,
    registry: str,
    java: Answering,
) -> None:
    def by_java(ticker: str, price: float) -> bytes:
        value = {"ticker": ticker, "price": price}
        request = {"registry": registry, "subject": f"{topic_prefix}-in-value", "schema": TRADE}
        return bytes.fromhex(java.ask({**request, "value": value})["bytes"])

    def of_java(data: bytes) -> Any:
        return java.ask({"registry": registry, "bytes": data.hex()})["value"]

    def told() -> dict[str, float]:
        found = newest(bootstrap_servers, f"{topic_prefix}-out")
        return {of_java(key)["of"]: of_java(value)["price"] for key, value in found.items()}

    create(bootstrap_servers, topic_prefix)
    send(bootstrap_servers, f"{topic_prefix}-in", *(by_java(*trade) for trade in TRADES))

    with Guard(registry, "user:hidden-word") as guard:
        settings = {URL: guard.url, "basic.auth.user.info": "user:hidden-word"}
        cluster.up(application(bootstrap_servers, topic_prefix, **settings))
        try:
            wait_for(lambda: told() == DEAREST, what="the dearest trades", timeout_s=120)
        except AssertionError as error:
            raise AssertionError(f"{told()}\n{cluster.output}\n{cluster.worker_logs()}") from error
        said = cluster.output + cluster.worker_logs(10_000)

    assert "hidden-word" not in said
    here = {URL: registry}
    quotes = JsonSchemaSerde[Any](QUOTE, settings=here).deserializer(f"{topic_prefix}-quotes")
    found = newest(bootstrap_servers, f"{topic_prefix}-quotes")
    bids = {key.decode(): quotes(value)["bid"] for key, value in found.items()}
    assert bids == DEAREST
    # Apicurio gives no Protobuf schema back to who has not registered it.
    numbers = measured().FromString
    found = newest(bootstrap_servers, f"{topic_prefix}-measured")
    values = {key.decode(): numbers(value[6:]).value for key, value in found.items()}
    assert values == {name: int(price) for name, price in DEAREST.items()}
    changelog = f"{topic_prefix}-dearest-changelog"
    assert {
        f"{changelog}-key",
        f"{changelog}-value",
        f"{topic_prefix}-dearest-repartition-key",
        f"{topic_prefix}-out-value",
        f"{topic_prefix}-quotes-value",
        f"{topic_prefix}-measured-value",
    } <= set(asked(registry, "GET", "/subjects"))
    key, value = next(iter(newest(bootstrap_servers, changelog).items()))
    assert of_java(key)["of"] in DEAREST
    assert AvroSerde[Any](TICKER, settings=here).deserializer(changelog)(key) == of_java(key)
    assert of_java(value)["ticker"] == of_java(key)["of"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("down", "does not answer"),
        ("no such schema", "has no such schema"),
        ("incompatible", "does not go with those that its subject has"),
    ],
)
@pytest.mark.sampled
def test_a_registry_that_gives_no_schema_ends_the_application_with_the_next_step(
    cluster: LocalCluster,
    bootstrap_servers: str,
    topic_prefix: str,
    registry: str,
    what: str,
    said: str,
) -> None:
    create(bootstrap_servers, topic_prefix)
    config: dict[str, object] = {URL: registry, "schema.registry.max.retries": 0}
    good = {"ticker": "KO", "price": 1.5}
    data = AvroSerde[Any](TRADE, settings=config).serializer(f"{topic_prefix}-in")(good)
    if what == "down":
        with socket.create_server(("127.0.0.1", 0)) as taken:
            config[URL] = f"http://127.0.0.1:{taken.getsockname()[1]}"
    elif what == "no such schema":
        data = b"\0" + (2**30).to_bytes(4) + data[5:]
    else:
        subject = f"{topic_prefix}-dearest-repartition-value"
        asked(registry, "POST", f"/subjects/{subject}/versions", {"schema": TRADE_BROKEN})
        asked(registry, "PUT", f"/config/{subject}", {"compatibility": "FORWARD"})
    send(bootstrap_servers, f"{topic_prefix}-in", data)

    cluster.up(application(bootstrap_servers, topic_prefix, **config))

    assert cluster.wait(180) != 0, cluster.output
    assert said in cluster.output
    assert f"{topic_prefix}-in" in cluster.output
    assert "offset 0" in cluster.output
    assert "Traceback" not in cluster.output


def test_the_schemas_of_these_tests_do_not_go_together(registry: str, unique_name: str) -> None:
    asked(registry, "POST", f"/subjects/{unique_name}/versions", {"schema": TRADE_BROKEN})
    asked(registry, "PUT", f"/config/{unique_name}", {"compatibility": "FORWARD"})

    answer = asked(registry, "POST", f"/subjects/{unique_name}/versions", {"schema": TRADE})

    assert answer["error_code"] == 409, json.dumps(answer)
