"""Every count is told at each second of stream time, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.word_count_processor.app import (
    COUNTS,
    INPUT,
    OUTPUT,
    WordCountProcessor,
    WordCountSupplier,
    build,
)

from headwater import Record, Serdes
from headwater.testing import ProcessorTestContext

if TYPE_CHECKING:
    from headwater_pytest import Drivers


def test_all_counts_come_out_at_each_second_of_stream_time(headwater: Drivers) -> None:
    driver = headwater(build)
    lines = driver.create_input_topic(INPUT, Serdes.string, Serdes.string)
    counts = driver.create_output_topic(OUTPUT, Serdes.string, Serdes.string)

    lines.pipe_input(None, "Hello streams", timestamp=0)
    # Stream time is known for the first time.
    assert counts.read_key_values_to_map() == {"hello": "1", "streams": "1"}
    lines.pipe_input(None, "hello again", timestamp=999)
    assert counts.is_empty()
    lines.pipe_input(None, "late", timestamp=1_000)

    told = [(it.key, it.value, it.timestamp) for it in counts.read_records_to_list()]
    assert told == [
        ("again", "1", 1_000), ("hello", "2", 1_000), ("late", "1", 1_000), ("streams", "1", 1_000),
    ]  # fmt: skip
    assert driver.get_state_store(COUNTS).get("late") == 1


def test_it_asks_for_a_commit_when_it_has_told_all() -> None:
    context: ProcessorTestContext[str, str] = ProcessorTestContext()
    for store in WordCountSupplier().stores():
        context.add_state_store(store)
    processor = WordCountProcessor()
    processor.init(context)
    processor.process(Record(None, "one one", 5))
    assert not context.committed()

    context.scheduled_punctuators[0].punctuate(1_000)

    assert [it.record for it in context.forwarded()] == [Record("one", "2", 1_000)]
    assert context.committed()
    context.close()
