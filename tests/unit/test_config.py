"""StreamsConfig takes Kafka's names and defaults, and refuses everything else by name."""

from __future__ import annotations

import pickle

import pytest

from headwater.config import ProcessingGuarantee, StreamsConfig
from headwater.errors import ConfigError
from headwater.processor.handlers import Handlers
from headwater.processor.resolving import resolve_serde
from headwater.references import SERDE_NAMES
from headwater.serde import Serdes

APP = {"application.id": "app"}


def parse(**options: object) -> StreamsConfig:
    return StreamsConfig.parse(APP | options)


def test_defaults_are_kafkas() -> None:
    config = parse()

    assert config.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
    assert config.commit_interval_ms == 30_000
    assert config.statestore_cache_max_bytes == 10 * 1024 * 1024
    assert config.max_task_idle_ms == 0
    assert config.task_timeout_ms == 300_000
    assert config.default_key_serde is None


def test_exactly_once_commits_every_100_ms_unless_told_otherwise() -> None:
    given = {"processing.guarantee": "exactly_once_v2"}

    assert StreamsConfig.parse(APP | given).commit_interval_ms == 100
    assert StreamsConfig.parse(APP | given | {"commit.interval.ms": 7}).commit_interval_ms == 7


def test_kafkas_private_intervals_have_their_names() -> None:
    windows = "__emit.interval.ms.kstreams.windowed.aggregation__"
    joins = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"

    config = StreamsConfig.parse(APP | {windows: 0, joins: "7"})

    assert (config.windows_emit_interval_ms, config.joins_emit_interval_ms) == (0, 7)


@pytest.mark.parametrize("name", ["commit.interval.ms", "commit_interval_ms", "commit-interval-ms"])
def test_dots_and_underscores_mean_the_same(name: str) -> None:
    assert StreamsConfig.parse(APP | {name: "250"}).commit_interval_ms == 250


def test_the_specific_prefix_wins_over_the_general_over_the_bare() -> None:
    config = StreamsConfig.parse(
        APP
        | {
            "main.consumer.fetch.min.bytes": 3,
            "consumer.fetch.min.bytes": 2,
            "fetch.min.bytes": 1,
            "producer.linger.ms": 5,
            "linger.ms": 4,
            "security.protocol": "SSL",
            "topic.segment.bytes": 9,
        }
    )

    assert config.consumer_overrides() == {"fetch.min.bytes": 3, "security.protocol": "SSL"}
    assert config.consumer_overrides("restore")["fetch.min.bytes"] == 2
    assert config.producer_overrides() == {"linger.ms": 5, "security.protocol": "SSL"}
    assert config.admin_overrides() == {"security.protocol": "SSL"}
    assert config.topic_overrides() == {"segment.bytes": 9}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"commit.interval.mss": 1}, ["commit.interval.ms"], id="misspelt"),
        pytest.param({"linger.m": 1}, ["linger.ms"], id="misspelt client setting"),
        pytest.param(
            {"commit.interval.ms": "soon"}, ["commit.interval.ms", "soon"], id="no number"
        ),
        pytest.param({"commit.interval.ms": -1}, ["at least 0"], id="too small"),
        pytest.param({"commit.interval.ms": True}, ["True"], id="boolean for a number"),
        pytest.param({"num.stream.threads": 0}, ["at least 1"], id="no threads"),
        pytest.param({"processing.guarantee": "exactly_once"}, ["exactly_once_v2"], id="old name"),
        pytest.param({"default.key.serde": "strng"}, ["'string'"], id="unknown serde"),
        pytest.param({"default.key.serde": "no.module"}, ["module:attribute"], id="no attribute"),
        pytest.param({"bootstrap.servers": "localhost"}, ["host:port"], id="address without port"),
        pytest.param({"bootstrap.servers": "a:1,b"}, ["host:port"], id="second one without port"),
        pytest.param({"application.id": "a b"}, ["topic names"], id="space in the id"),
        pytest.param({"headwater.native": "maybe"}, ["true, false or auto"], id="no path in C"),
        pytest.param({"upgrade.from": "3.4"}, ["no older version"], id="only Java has it"),
        pytest.param({"application.server": "a:1"}, ["HTTP service"], id="a server of its own"),
        pytest.param(
            {"rack.aware.assignment.tags": "zone"}, ["spec.assignment.topologyKeys"], id="racks"
        ),
        pytest.param({"state.cleanup.delay.ms": 1}, ["clean_up"], id="a cleaner"),
        pytest.param({"state.cleanup.dir.max.age.ms": 1}, ["clean_up"], id="a purge"),
        pytest.param({"allow.os.group.write.access": True}, ["group"], id="files of a group"),
        pytest.param({"group.instance.id": "a"}, ["do not join"], id="a static member"),
        pytest.param(
            {"main.consumer.group.instance.id": "a"}, ["do not join"], id="a prefixed static member"
        ),
        pytest.param(
            {"production.exception.handler": "log-and-continue"},
            ["production.exception.handler", "one of default"],
            id="a handler that Kafka has for other errors only",
        ),
        pytest.param({"poll.ms": 1, "poll_ms": 2}, ["twice"], id="given twice"),
        pytest.param(
            {"enable.auto.commit": "true"}, ["committed with the tasks"], id="auto commit"
        ),
        pytest.param({"producer.enable.idempotence": False}, ["idempotent"], id="no idempotence"),
        pytest.param({"producer.transactional.id": "x"}, ["transactional.id"], id="own id"),
        pytest.param(
            {
                "processing.guarantee": "exactly_once_v2",
                "main.consumer.isolation.level": "read_uncommitted",
            },
            ["committed records only"],
            id="reading uncommitted",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        StreamsConfig.parse(APP | options)

    assert [word for word in words if word not in str(caught.value)] == []


def test_the_application_id_is_required() -> None:
    with pytest.raises(ConfigError, match=r"application\.id"):
        StreamsConfig.parse({})


def test_kafkas_class_names_are_understood() -> None:
    config = StreamsConfig.parse(
        APP
        | {
            "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "deserialization.exception.handler": (
                "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"
            ),
            "default.timestamp.extractor": (
                "org.apache.kafka.streams.processor.WallclockTimestampExtractor"
            ),
        }
    )

    assert config.default_key_serde == "string"
    assert config.deserialization_exception_handler == "log-and-continue"
    assert config.default_timestamp_extractor == "wallclock"


@pytest.mark.parametrize(
    ("java", "name"),
    [
        ("ShortSerde", "short"), ("FloatSerde", "float"), ("BooleanSerde", "boolean"),
        ("UUIDSerde", "uuid"), ("VoidSerde", "void"), ("ByteBufferSerde", "bytes"),
    ],
)  # fmt: skip
def test_kafkas_serdes_are_understood(java: str, name: str) -> None:
    given = f"org.apache.kafka.common.serialization.Serdes${java}"

    assert StreamsConfig.parse(APP | {"default.value.serde": given}).default_value_serde == name


def test_every_built_in_serde_resolves_and_the_lists_are_equal() -> None:
    assert [resolve_serde("s", name) for name in SERDE_NAMES] == [
        Serdes.by_name(name) for name in SERDE_NAMES
    ]
    with pytest.raises(KeyError, match=", ".join(SERDE_NAMES)):
        Serdes.by_name("no such serde")


@pytest.mark.parametrize(
    ("option", "reference"),
    [
        ("default_key_serde", "no_such_module_anywhere:serde"),
        ("default_key_serde", "headwater.serde:Nothing"),
        ("default_key_serde", "json:dumps"),
    ],
    ids=["no module", "no attribute", "not a serde"],
)
def test_a_serde_that_cannot_be_had_is_named(option: str, reference: str) -> None:
    config = parse(default_key_serde=reference)

    with pytest.raises(ConfigError, match=reference.partition(":")[2]):
        resolve_serde(option, config.default_key_serde)


@pytest.mark.parametrize(
    "options",
    [
        {"processing_exception_handler": "no_such_module_anywhere:handler"},
        {"deserialization_exception_handler": "math:pi"},
        {"production_exception_handler": "json:dumps"},
    ],
    ids=["no module", "not callable", "without the two methods"],
)
def test_a_handler_that_cannot_be_had_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="handler"):
        Handlers.of(parse(**options))


def test_a_configuration_travels_to_another_process() -> None:
    config = parse(default_key_serde="string", commit_interval_ms=5)

    assert pickle.loads(pickle.dumps(config)) == config


def test_a_session_longer_than_the_longest_pause_between_polls_is_refused() -> None:
    longest = {"application.id": "a", "consumer.max.poll.interval.ms": "400000"}
    StreamsConfig.parse({**longest, "session.timeout.ms": "400000"})

    with pytest.raises(ConfigError, match=r"session\.timeout\.ms: 400001 .* raise max\.poll"):
        StreamsConfig.parse({**longest, "session.timeout.ms": "400001"})
    with pytest.raises(ConfigError, match=r"session\.timeout\.ms: 300001 .* 300000"):
        StreamsConfig.parse({"application.id": "a", "session.timeout.ms": 300_001})
