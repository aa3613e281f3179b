"""Testing without a broker: ``TopologyTestDriver`` for topologies, a context for processors.

The package ``headwater_pytest`` makes drivers for tests and closes them.
"""

from headwater.testing.clock import ManualClock
from headwater.testing.collector import MemoryCollector, ProducedRecord
from headwater.testing.context import (
    CapturedForward,
    CapturedPunctuator,
    ProcessorTestContext,
)
from headwater.testing.driver import TopologyTestDriver
from headwater.testing.topics import TestInputTopic, TestOutputTopic, TopicRecord

__all__ = [
    "CapturedForward",
    "CapturedPunctuator",
    "ManualClock",
    "MemoryCollector",
    "ProcessorTestContext",
    "ProducedRecord",
    "TestInputTopic",
    "TestOutputTopic",
    "TopicRecord",
    "TopologyTestDriver",
]
