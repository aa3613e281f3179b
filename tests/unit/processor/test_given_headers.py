"""Headers of the user's that no record of Kafka can have: the error names them and the cure."""

from __future__ import annotations

from typing import Any

import pytest

from headwater import (
    FixedKeyRecord,
    Processor,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Windowed,
)
from headwater.errors import ProcessingError
from headwater.model.windows import Window
from headwater.testing import TopologyTestDriver

TEXTS: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
GIVEN: list[tuple[Any, str]] = [
    ([("h", "text")], r"header 'h' has the text 'text' as its value; give bytes: encode it"),
    ([("h", b"1"), ("i", 5)], r"header 'i' has a value of type int; give bytes or None"),
    ([(b"h", b"1")], r"header b'h' has a name of type bytes; give text"),
    ([("\ud800", b"1")], r"header '\\ud800' has a name that is not UTF-8"),
    ({"h": b"1"}, r"headers {'h': b'1'} are a dict; give pairs: list\(headers.items\(\)\)"),
    ("text", r"headers 'text' are of type str; give a list of pairs"),
    (["hi"], r"header 'hi' is no pair; give a tuple"),
    ([("h", b"1", 2)], r"header \('h', b'1', 2\) is no pair; give a tuple"),
]
TAKEN: list[Any] = [None, [], [("h", b"1"), ("h", b""), ("none", None)]]
VALUES = Stores.timestamped_key_value_store_with_headers_builder(
    Stores.persistent_timestamped_key_value_store_with_headers("kept"), **TEXTS
)
WINDOWS = Stores.timestamped_window_store_with_headers_builder(
    Stores.persistent_timestamped_window_store_with_headers("kept", 10_000, 1_000), **TEXTS
)
SESSIONS = Stores.session_store_with_headers_builder(
    Stores.persistent_session_store_with_headers("kept", 10_000), **TEXTS
)


def forwarding(headers: Any) -> Any:
    class Forwarding(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_headers(headers))

    return Forwarding


def keeping(headers: Any, *where: Any) -> Any:
    """Put a record into the store, at the place that its kind has beside the key."""

    class Keeping(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.get_state_store("kept")
            if where and isinstance(where[0], Windowed):
                store.put(where[0], record.value, headers)
            else:
                store.put(record.key, record.value, record.timestamp, *where, headers)

    return Keeping


def to_topic(builder: StreamsBuilder, headers: Any) -> None:
    builder.stream("in", **TEXTS).process(forwarding(headers)).to("out", **TEXTS)


def to_repartition(builder: StreamsBuilder, headers: Any) -> None:
    builder.stream("in", **TEXTS).process(forwarding(headers)).repartition(**TEXTS).to(
        "out", **TEXTS
    )


def returned(builder: StreamsBuilder, headers: Any) -> None:
    def function(record: Record[str, str]) -> Record[str, str]:
        return record.with_headers(headers)

    builder.stream("in", **TEXTS).process(function).to("out", **TEXTS)


def awaited(builder: StreamsBuilder, headers: Any) -> None:
    async def function(record: FixedKeyRecord[str, str]) -> FixedKeyRecord[str, str]:
        return record.with_headers(headers)

    builder.stream("in", **TEXTS).process_values_async(function).to("out", **TEXTS)


def values(builder: StreamsBuilder, headers: Any) -> None:
    builder.stream("in", **TEXTS).process(keeping(headers), VALUES)


def windows(builder: StreamsBuilder, headers: Any) -> None:
    builder.stream("in", **TEXTS).process(keeping(headers, 0), WINDOWS)


def sessions(builder: StreamsBuilder, headers: Any) -> None:
    session = Windowed("k", Window(0, 5))
    builder.stream("in", **TEXTS).process(keeping(headers, session), SESSIONS)


WAYS = [to_topic, to_repartition, returned, awaited, values, windows, sessions]


def run(draw: Any, headers: Any) -> None:
    builder = StreamsBuilder()
    draw(builder, headers)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", Serdes.string, Serdes.string).pipe_input("k", "v", 1)


@pytest.mark.parametrize("draw", WAYS)
@pytest.mark.parametrize(("headers", "message"), GIVEN)
def test_headers_that_no_record_can_have_are_named_with_the_cure(
    draw: Any, headers: Any, message: str
) -> None:
    with pytest.raises(ProcessingError, match=message) as raised:
        run(draw, headers)

    place = "store kept: " if draw in {values, windows, sessions} else "node KSTREAM-PROCESS"
    assert place in str(raised.value)
    assert "offset 0, key 'k'" in str(raised.value)


@pytest.mark.parametrize("draw", WAYS)
@pytest.mark.parametrize("headers", TAKEN)
def test_headers_that_a_record_can_have_are_taken(draw: Any, headers: Any) -> None:
    run(draw, headers)
