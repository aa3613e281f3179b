"""Testing a topology without a broker: ``TopologyTestDriver`` and what it needs."""

from headwater.testing.collector import MemoryCollector, ProducedRecord
from headwater.testing.driver import ManualClock, TopologyTestDriver
from headwater.testing.topics import TestInputTopic, TestOutputTopic, TopicRecord

__all__ = [
    "ManualClock",
    "MemoryCollector",
    "ProducedRecord",
    "TestInputTopic",
    "TestOutputTopic",
    "TopicRecord",
    "TopologyTestDriver",
]
