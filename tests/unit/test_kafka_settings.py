"""Settings in Kafka's words reach the clients in librdkafka's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from headwater.config import StreamsConfig
from headwater.errors import ConfigError, HeadwaterError, KafkaAuthError, StateError
from headwater.kafka.admin import Admin
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.errors import Connection, Refusals, production_error
from headwater.kafka.producer import StreamsProducer
from headwater.kafka.settings import (
    admin_settings,
    batch_records,
    consumer_settings,
    offset_reset,
    producer_settings,
)
from headwater.service.epoch import EpochFile

if TYPE_CHECKING:
    from pathlib import Path


def config(**given: object) -> StreamsConfig:
    return StreamsConfig.parse(
        {"application.id": "app", "bootstrap.servers": "localhost:9092", **given}
    )


def connection() -> Connection:
    return Connection("localhost:9092")


def of_consumer(given: dict[str, object], role: str = "main") -> dict[str, Any]:
    return consumer_settings(config(**given), connection(), client_id="c", role=role)


def of_producer(given: dict[str, object], transactional_id: str | None = None) -> dict[str, Any]:
    return producer_settings(
        config(**given), connection(), client_id="p", transactional_id=transactional_id
    )


@pytest.mark.parametrize(
    ("given", "translated"),
    [
        ({"consumer.fetch.max.wait.ms": 7}, {"fetch.wait.max.ms": 7}),
        ({"max.partition.fetch.bytes": 9}, {"fetch.message.max.bytes": 9}),
        ({"consumer.max.poll.records": 10}, {}),
        ({"request.timeout.ms": 1}, {}),
        ({"receive.buffer.bytes": 5}, {"socket.receive.buffer.bytes": 5}),
        ({"retry.backoff.ms": 50}, {"retry.backoff.ms": 50}),
    ],
    ids=lambda value: next(iter(value), "nothing"),
)
def test_consumer_settings_are_translated(
    given: dict[str, object], translated: dict[str, object]
) -> None:
    plain = of_consumer({})
    found = of_consumer(given)

    differing = {name: value for name, value in found.items() if plain.get(name) != value}
    differing.pop("error_cb")
    assert differing == translated


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, 8_388_608),
        ({"consumer.fetch.max.bytes": 3_000_000}, 3_000_000),
        ({"consumer.message.max.bytes": 20_000_000}, 20_000_000),
        ({"consumer.max.partition.fetch.bytes": "10000000"}, 10_000_000),
        ({"consumer.queued.max.messages.kbytes": 2_048}, 2_097_152),
        ({"consumer.queued.max.messages.kbytes": 1}, 1_000_000),
    ],
)
def test_an_answer_with_records_is_bounded_however_many_partitions_it_is_about(
    given: dict[str, object], wanted: int
) -> None:
    settings = of_consumer(given)

    assert settings["fetch.max.bytes"] == wanted
    PartitionConsumer(settings, connection()).close()  # the client takes it


def test_the_more_specific_prefix_wins() -> None:
    given: dict[str, object] = {
        "fetch.min.bytes": 1,
        "consumer.fetch.min.bytes": 2,
        "main.consumer.fetch.min.bytes": 3,
    }

    assert of_consumer(given)["fetch.min.bytes"] == 3
    assert of_consumer(given, role="restore")["fetch.min.bytes"] == 2


def test_buffer_memory_is_given_in_kilobytes_to_the_client() -> None:
    assert (
        of_producer({"producer.buffer.memory": 10_485_760})["queue.buffering.max.kbytes"] == 10_240
    )


def test_security_reaches_every_client() -> None:
    given: dict[str, object] = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'org.apache...PlainLoginModule required username="u" password="p;w";',
        "ssl.truststore.location": "/etc/ca.pem",
    }
    expected = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p;w",
        "ssl.ca.location": "/etc/ca.pem",
    }

    for settings in (
        of_consumer(given),
        of_consumer(given, role="restore"),
        of_producer(given),
        admin_settings(config(**given), connection(), client_id="a"),
    ):
        assert expected.items() <= settings.items()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"ssl.truststore.location": "/etc/trust.jks"}, "ssl.ca.location"),
        ({"sasl.jaas.config": "KerberosLoginModule required;"}, "sasl.username"),
    ],
    ids=["a Java trust store", "another login module"],
)
def test_what_only_java_understands_is_refused_with_the_alternative(
    given: dict[str, object], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        of_consumer(given)


def test_committed_records_only_are_read_under_exactly_once_and_in_a_restore() -> None:
    once: dict[str, object] = {"processing.guarantee": "exactly_once_v2"}

    assert of_consumer({})["isolation.level"] == "read_uncommitted"
    assert of_consumer(once)["isolation.level"] == "read_committed"
    assert of_consumer({}, role="restore")["isolation.level"] == "read_committed"


def test_the_transaction_times_out_after_ten_seconds_unless_said_otherwise() -> None:
    assert of_producer({}, "id")["transaction.timeout.ms"] == 10_000
    assert of_producer({"transaction.timeout.ms": 5}, "id")["transaction.timeout.ms"] == 5
    assert "transactional.id" not in of_producer({})


def test_the_batch_and_the_reset_policy_are_checked() -> None:
    assert batch_records(config()) == 2_000
    assert batch_records(config(**{"max.poll.records": "50"})) == 50
    assert offset_reset(config()) == "earliest"
    assert offset_reset(config(**{"consumer.auto.offset.reset": "latest"})) == "latest"
    with pytest.raises(ConfigError, match=r"max\.poll\.records"):
        batch_records(config(**{"max.poll.records": 0}))
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        offset_reset(config(**{"auto.offset.reset": "sometimes"}))


def test_an_outage_is_known_from_the_clients_events_until_a_broker_answers() -> None:
    from confluent_kafka import KafkaError

    now = [10.0]
    found = Connection("b:9092", clock=lambda: now[0])
    assert found.lost_for_s == 0

    found.on_error(KafkaError(KafkaError._TRANSPORT, "b:9092: Connect failed: refused"))
    assert found.lost_for_s == 0
    found.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    now[0] = 13.0
    assert found.lost_for_s == 3
    assert "Connect failed" in str(found.problem("committing"))

    found.answered()
    assert found.lost_for_s == 0


def test_a_refusal_explains_why_nobody_answers() -> None:
    from confluent_kafka import KafkaError

    found = Connection("b:9092")
    found.on_error(KafkaError(KafkaError._AUTHENTICATION, "invalid credentials"))

    assert type(found.problem("connecting")).__name__ == "KafkaAuthError"


@pytest.mark.parametrize(
    ("code", "said", "field"),
    [
        ("_AUTHENTICATION", "invalid credentials", "spec.kafka.authentication and its Secret"),
        ("_SSL", "certificate verify failed", "spec.kafka.tls and its Secret"),
        (
            "_TRANSPORT",
            "ssl://b:9092: Receive failed: ssl/tls alert bad certificate: SSL alert number 42",
            "spec.kafka.authentication (type TLS) and its Secret",
        ),
        ("TOPIC_AUTHORIZATION_FAILED", "not authorized", "allow Read on the topic"),
        ("GROUP_AUTHORIZATION_FAILED", "not authorized", "allow Read on the consumer group"),
        (
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "not authorized",
            "allow Write on the transactional ids",
        ),
        ("CLUSTER_AUTHORIZATION_FAILED", "not authorized", "allow IdempotentWrite on the cluster"),
    ],
)
def test_a_refusal_says_what_to_correct(code: str, said: str, field: str) -> None:
    from confluent_kafka import KafkaError

    found = Connection("b:9092")
    found.on_error(KafkaError(getattr(KafkaError, code), said))
    found.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))

    problem = found.problem("connecting")

    assert type(problem).__name__ == "KafkaAuthError"
    assert said in str(problem)
    assert field in str(problem)


@pytest.mark.parametrize(("state", "is_so"), [("UP", True), ("APIVERSION_QUERY", False)])
def test_what_is_no_broker_sends_no_records_that_are_too_large(state: str, is_so: bool) -> None:
    from confluent_kafka import KafkaError

    found = Connection("b:9092")
    said = (
        "b:9092/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000): "
        f"increase receive.message.max.bytes (after 0ms in state {state})"
    )
    found.on_error(KafkaError(KafkaError._BAD_MSG, said))

    assert (found.oversized is not None) is is_so


def test_all_topics_that_are_refused_are_named_together() -> None:
    from confluent_kafka import KafkaError, KafkaException

    def create(**answers: int) -> None:
        with Refusals("creating", "Create") as refusals:
            for topic, code in answers.items():
                refusals.note(topic, KafkaException(KafkaError(code, "no")))

    no = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaAuthError, match=r"creating a, b; allow Create on topic a, b by an"):
        create(b=no, a=no)
    with pytest.raises(KafkaException):
        create(a=no, b=KafkaError.REQUEST_TIMED_OUT)


def test_an_alert_that_is_not_about_certificates_is_an_outage() -> None:
    from confluent_kafka import KafkaError

    found = Connection("b:9092")
    found.on_error(KafkaError(KafkaError._TRANSPORT, "Receive failed: SSL alert number 421"))

    assert type(found.problem("connecting")).__name__ == "KafkaUnavailableError"


# -- advice that can be followed -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("producer.lingr.ms", "producer.linger.ms"),
        ("producer.max.requst.size", "producer.max.request.size"),
        ("consumer.fetch.max.byte", "consumer.fetch.max.bytes"),
        ("restore.consumer.recieve.message.max.bytes", "consumer.receive.message.max.bytes"),
        ("admin.sasl.pasword", "admin.sasl.password"),
    ],
)
def test_a_misspelt_client_setting_is_answered_with_the_name_that_was_meant(
    written: str, meant: str
) -> None:
    given = config(**{written: 1})
    heard = connection()

    def made() -> object:
        if written.startswith("producer."):
            settings = producer_settings(given, heard, client_id="p", transactional_id=None)
            return StreamsProducer(settings, heard)
        if written.startswith("admin."):
            return Admin(admin_settings(given, heard, client_id="a"), heard)
        settings = consumer_settings(given, heard, client_id="c", role="restore")
        return PartitionConsumer(settings, heard)

    with pytest.raises(ConfigError, match=rf"did you mean {re.escape(meant)}\?"):
        made()


def test_an_answer_that_was_cut_off_is_a_problem_only_where_it_has_a_topic() -> None:
    """A connection breaks when an answer is too large, and others that are under way with it."""
    heard = connection()
    consumer = PartitionConsumer(
        consumer_settings(config(), heard, client_id="c", role="restore"), heard
    )
    cut_off = KafkaError(KafkaError._BAD_MSG, "FindCoordinator response error")

    consumer._on_event(cut_off, None, None, None)
    assert consumer.poll(0) == []

    consumer._on_event(cut_off, "orders", None, None)
    with pytest.raises(HeadwaterError, match="reading orders"):
        consumer.poll(0)
    consumer.close()


def test_a_changelog_entry_that_is_too_large_is_not_said_to_be_for_a_handler() -> None:
    error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)

    of_sink = str(production_error(error, "out", 0))
    of_changelog = str(production_error(error, "app-store-changelog", 0, is_optional=False))

    assert "production.exception.handler" in of_sink
    assert "production.exception.handler" not in of_changelog
    for setting in ("producer.max.request.size", "topic.max.message.bytes"):
        assert setting in of_changelog


def test_a_state_directory_that_cannot_be_used_is_named_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    below = tmp_path / "file" / "app"

    for attempt in (
        EpochFile(below / "w.epoch.json").read,
        lambda: EpochFile(below / "w").write(1),
    ):
        with pytest.raises(StateError) as raised:
            attempt()
        said = str(raised.value)
        assert str(below) in said
        assert "Not a directory" in said
        assert "state.dir" in said
        assert "elete" not in said


# -- after an outage -----------------------------------------------------------------------------


def test_a_broker_that_is_back_is_found_within_a_second() -> None:
    heard = connection()
    admin = admin_settings(config(), heard, client_id="a")

    for settings in (of_consumer({}), of_producer({}), of_producer({}, "id"), admin):
        assert settings["reconnect.backoff.max.ms"] == 1_000
    assert of_consumer({"reconnect.backoff.max.ms": 7})["reconnect.backoff.max.ms"] == 7


def test_a_transactional_producer_remembers_its_coordinator_through_an_outage() -> None:
    assert of_producer({}, "id")["metadata.recovery.strategy"] == "none"
