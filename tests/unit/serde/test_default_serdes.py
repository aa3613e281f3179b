"""Default serdes are made with Kafka's options, those that are given are not."""

from __future__ import annotations

from typing import Final

import pytest

from headwater import Serdes
from headwater.config import StreamsConfig
from headwater.errors import ConfigError
from headwater.model.windows import Window, Windowed
from headwater.processor.resolving import serde_of

JAVA: Final = "org.apache.kafka.common.serialization."
UTF_16: Final = {"serializer.encoding": "UTF-16", "deserializer.encoding": "UTF-16"}
UTF_8_KEYS: Final = {"key.serializer.encoding": "UTF8", "key.deserializer.encoding": "UTF-8"}
INNER_TEXT: Final = {"windowed.inner.class.serde": f"{JAVA}Serdes$StringSerde"}


def parsed(**options: object) -> StreamsConfig:
    return StreamsConfig.parse({"application.id": "app", **options})


@pytest.mark.parametrize(
    ("name", "options", "value", "data"),
    [
        ("string", {}, "a", b"a"),
        ("string", UTF_16, "a", b"\xfe\xff\0a"),
        (f"{JAVA}Serdes$StringSerde", UTF_16, "a", b"\xfe\xff\0a"),
        ("string", {**UTF_16, **UTF_8_KEYS}, "a", b"a"),
        (
            "list",
            {"default.list.key.serde.inner": "long"},
            [1, None],
            b"\0" + b"".join(n.to_bytes(4) for n in (1, 1, 2)) + (1).to_bytes(8),
        ),
        (
            f"{JAVA}Serdes$ListSerde",
            {
                "default.list.key.serde.type": "java.util.ArrayList",
                "default.list.key.serde.inner": f"{JAVA}Serdes$StringSerde",
            },
            ["a"],
            b"\1" + b"".join(n.to_bytes(4) for n in (1, 1)) + b"a",
        ),
        (
            "org.apache.kafka.streams.kstream.TimeWindowedSerde",
            {**INNER_TEXT, "window.size.ms": "60000"},
            Windowed("a", Window(5, 60_005)),
            b"a" + (5).to_bytes(8),
        ),
        (
            "session_windowed",
            INNER_TEXT,
            Windowed("a", Window(5, 9)),
            b"a" + (9).to_bytes(8) + (5).to_bytes(8),
        ),
    ],
)
def test_a_default_serde_is_made_with_kafkas_options(
    name: str, options: dict[str, object], value: object, data: bytes
) -> None:
    serde = serde_of(parsed(**{"default.key.serde": name}, **options), "key", None, "it")

    assert serde.serializer("t")(value) == data
    assert serde.deserializer("t")(data) == value


def test_a_serde_that_is_given_is_made_without_them() -> None:
    serde = serde_of(parsed(**UTF_16), "key", Serdes.string, "it")

    assert serde.serializer("t")("a") == b"a"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("list", {}, r"default\.list\.key\.serde\.inner is missing: name the serde"),
        (
            "list",
            {"default.list.key.serde.inner": "text"},
            r"default\.list\.key\.serde\.inner: 'text' .* one of",
        ),
        ("session_windowed", {}, r"windowed\.inner\.class\.serde is missing"),
        ("time_windowed", INNER_TEXT, r"window\.size\.ms is missing"),
        ("time_windowed", {**INNER_TEXT, "window.size.ms": "day"}, r"window\.size\.ms: 'day'"),
        ("string", {"serializer.encoding": "klingon"}, "there is no encoding 'klingon'"),
        (
            "string",
            {"serializer.encoding": "UTF-16"},
            r"serializer\.encoding and deserializer\.encoding differ",
        ),
    ],
)
def test_what_a_default_serde_lacks_is_named(
    name: str, options: dict[str, object], words: str
) -> None:
    config = parsed(**{"default.key.serde": name}, **options)

    with pytest.raises(ConfigError, match=words):
        serde_of(config, "key", None, "it")


def test_a_misspelt_option_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"did you mean default\.list\.key\.serde\.inner\?"):
        parsed(**{"default.list.key.serde.iner": "long"})
