"""What a type checker makes of patterns, offset resets and the testing kit."""

import re
from datetime import timedelta
from typing import assert_type

from headwater import (
    AutoOffsetReset,
    KStream,
    OffsetReset,
    Record,
    RecordMetadata,
    Serdes,
    StreamsBuilder,
    Topology,
)
from headwater.testing import CapturedForward, ProcessorTestContext, TopologyTestDriver
from headwater_pytest import Drivers

builder = StreamsBuilder()
hour = AutoOffsetReset.by_duration(timedelta(hours=1))
matched = builder.stream(
    re.compile("orders-.*"),
    key_serde=Serdes.string,
    value_serde=Serdes.long,
    offset_reset=hour,
)
topology = Topology().add_source("s", re.compile("a|b"), offset_reset=OffsetReset.NONE)

assert_type(hour, OffsetReset)
assert_type(hour.duration_ms, int | None)
assert_type(matched, KStream[str, int])
assert_type(topology, Topology)

context: ProcessorTestContext[str, int] = ProcessorTestContext()
context.forward(Record("k", 1, 5))

assert_type(context.forwarded(), list[CapturedForward[str, int]])
assert_type(context.record_metadata(), RecordMetadata | None)
assert_type(Drivers()(topology), TopologyTestDriver)
