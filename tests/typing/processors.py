"""What a type checker makes of processors; ``tests/unit/test_typing.py`` has it checked."""

from collections.abc import Iterator
from typing import assert_type

from headwater import (
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    KStream,
    Processor,
    ProcessorContext,
    Record,
    Serdes,
    StoreSpec,
    StreamsBuilder,
)

builder = StreamsBuilder()
stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.long)


class Turning(Processor[str, int, int, str]):
    """Makes keys of values."""

    @classmethod
    def stores(cls) -> list[StoreSpec]:
        """Return what it keeps."""
        return [StoreSpec(name="kept")]

    def init(self, context: ProcessorContext[int, str]) -> None:
        """Keep the context."""
        super().init(context)

    def process(self, record: Record[str, int]) -> None:
        """Turn one record."""
        assert_type(record.with_key(1), Record[int, int])
        self.context.forward(Record(record.value, record.key, record.timestamp))
        self.context.forward(record)  # type: ignore[arg-type]


class Halving(FixedKeyProcessor[str, int, float]):
    """Halves values."""

    def process(self, record: FixedKeyRecord[str, int]) -> None:
        """Halve one record."""
        self.context.forward(record.with_value(record.value / 2))
        record.with_key("other")  # type: ignore[attr-defined]


def turned(record: Record[str, int]) -> Record[int, str]:
    """Turn a record."""
    return Record(record.value, record.key, record.timestamp)


def turned_twice(
    record: Record[str, int], context: ProcessorContext[int, str]
) -> Iterator[Record[int, str]]:
    """Turn a record, twice."""
    context.commit()
    yield turned(record)
    yield turned(record)


def halved(record: FixedKeyRecord[str, int]) -> FixedKeyRecord[str, float] | None:
    """Halve a record, or drop it."""
    return record.with_value(record.value / 2) if record.value else None


def halves(
    record: FixedKeyRecord[str, int], context: FixedKeyProcessorContext[str, float]
) -> list[FixedKeyRecord[str, float]]:
    """Give both halves."""
    context.commit()
    return [record.with_value(record.value / 2)] * 2


assert_type(stream.process(Turning), KStream[int, str])
assert_type(stream.process(turned), KStream[int, str])
assert_type(stream.process(turned_twice, "kept", name="turned"), KStream[int, str])
assert_type(stream.process_values(Halving), KStream[str, float])
assert_type(stream.process_values(halved), KStream[str, float])
assert_type(stream.process_values(halves), KStream[str, float])

stream.process(halved)  # type: ignore[arg-type]
stream.process_values(Turning)  # type: ignore[arg-type]
