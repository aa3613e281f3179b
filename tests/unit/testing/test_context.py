"""``ProcessorTestContext``: a processor without a task, on real stores."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater import (
    FixedKeyProcessor,
    FixedKeyRecord,
    Processor,
    PunctuationType,
    Record,
    RecordMetadata,
    Serdes,
    Stores,
    StoreSpec,
)
from headwater.errors import ConfigError, TopologyError
from headwater.ids import TaskId
from headwater.testing import CapturedForward, ProcessorTestContext

if TYPE_CHECKING:
    from headwater import FixedKeyProcessorContext, ProcessorContext

COUNTS = Stores.key_value_store_builder(
    Stores.in_memory_key_value_store("counts"), Serdes.string, Serdes.long
)


class Counting(Processor[str, str, str, int]):
    """Counts values, tells all counts each second, and asks for a commit then."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.counts = context.get_state_store("counts")
        self.ticking = context.schedule(
            timedelta(seconds=1), PunctuationType.STREAM_TIME, self.tick, start_ms=500
        )

    def process(self, record: Record[str, str]) -> None:
        if record.value == "stop":
            self.ticking.cancel()
            return
        self.counts.put(record.value, (self.counts.get(record.value) or 0) + 1)

    def tick(self, timestamp: int) -> None:
        for word, count in self.counts.all():
            self.context.forward(Record(word, count, timestamp))
        self.context.commit()


def _counting() -> tuple[Counting, ProcessorTestContext[str, int]]:
    context: ProcessorTestContext[str, int] = ProcessorTestContext()
    context.add_state_store(COUNTS)
    processor = Counting()
    processor.init(context)
    return processor, context


def test_what_a_processor_does_can_be_seen() -> None:
    processor, context = _counting()
    for word in ("b", "a", "b"):
        processor.process(Record("k", word, 5))
    (ticking,) = context.scheduled_punctuators
    assert (ticking.interval_ms, ticking.kind) == (1000, PunctuationType.STREAM_TIME)
    assert (ticking.start_ms, ticking.cancelled) == (500, False)
    assert not context.forwarded()
    assert not context.committed()

    ticking.punctuate(1500)

    assert context.forwarded() == [
        CapturedForward(Record("a", 1, 1500)),
        CapturedForward(Record("b", 2, 1500)),
    ]
    assert context.committed()
    assert context.get_state_store("counts").get("b") == 2
    context.reset_forwards()
    context.reset_commit()
    assert not context.forwarded()
    assert not context.committed()
    processor.process(Record("k", "stop", 6))
    assert ticking.cancelled
    context.close()


def test_a_child_has_what_was_forwarded_to_it_and_to_all() -> None:
    context: ProcessorTestContext[str, str] = ProcessorTestContext()
    context.forward(Record("k", "to all", 1))
    context.forward(Record("k", "to one", 2), "one")
    context.forward(Record("k", "to other", 3), "other")

    assert [it.record.value for it in context.forwarded("one")] == ["to all", "to one"]
    assert [it.child for it in context.forwarded()] == [None, "one", "other"]
    with pytest.raises(ValueError, match="negative"):
        context.forward(Record("k", "v", -1))


def test_a_processor_that_keeps_keys_has_the_same_context() -> None:
    class Upper(FixedKeyProcessor[str, str, str]):
        def init(self, context: FixedKeyProcessorContext[str, str]) -> None:
            self.context = context

        def process(self, record: FixedKeyRecord[str, str]) -> None:
            self.context.forward(record.with_value(record.value.upper()))

    context: ProcessorTestContext[str, str] = ProcessorTestContext()
    processor = Upper()
    processor.init(context)

    processor.process(FixedKeyRecord("k", "v", 1))

    assert context.forwarded() == [CapturedForward(FixedKeyRecord("k", "V", 1))]


def test_times_place_and_configuration_are_what_the_test_says() -> None:
    config = {"application.id": "app", "default.key.serde": "string", "own.a": 1, "own.b": "x"}
    context: ProcessorTestContext[Any, Any] = ProcessorTestContext(
        {name: value for name, value in config.items() if not name.startswith("own")},
        task_id=TaskId(1, 2),
        start_ms=7,
    )
    assert (context.application_id, context.task_id) == ("app", TaskId(1, 2))
    assert context.app_configs_with_prefix("default.") == {"key.serde": "string"}
    assert context.key_serde is Serdes.string
    with pytest.raises(ConfigError, match=r"default\.value\.serde"):
        _ = context.value_serde
    assert context.record_metadata() is None
    assert (context.current_stream_time_ms(), context.current_system_time_ms()) == (-1, 7)

    context.set_record_metadata("in", 3, 4)
    context.set_current_stream_time_ms(9)
    context.set_current_system_time_ms(8)

    assert context.record_metadata() == RecordMetadata("in", 3, 4)
    assert (context.current_stream_time_ms(), context.current_system_time_ms()) == (9, 8)


def test_a_store_is_added_once_and_before_it_is_asked_for() -> None:
    context: ProcessorTestContext[Any, Any] = ProcessorTestContext()
    with pytest.raises(TopologyError, match=r"no store 'counts' \(there are: none\)"):
        context.get_state_store("counts")
    context.add_state_store(COUNTS)
    with pytest.raises(TopologyError, match="has a store 'counts' already"):
        context.add_state_store(COUNTS)
    with pytest.raises(ConfigError, match="key serde"):
        context.add_state_store(StoreSpec(name="untyped"))


@pytest.mark.parametrize(("interval", "start"), [(0, None), (-1, None), (1, -1)])
def test_a_punctuation_is_checked_as_in_a_task(interval: int, start: int | None) -> None:
    context: ProcessorTestContext[Any, Any] = ProcessorTestContext()

    with pytest.raises(ValueError, match="punctuation"):
        context.schedule(interval, PunctuationType.STREAM_TIME, print, start_ms=start)
