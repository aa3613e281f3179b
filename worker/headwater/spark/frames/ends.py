"""Where a sub-topology begins and ends: what is known of a source's records, and of a sink's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.processor.timestamps import (
    fail_on_invalid,
    log_and_skip_on_invalid,
    use_partition_time_on_invalid,
)
from headwater.spark.frames.flow import Flow, merged
from headwater.spark.frames.kinds import Kind, Refused, kind_of, written_as
from headwater.spark.frames.plan import HasKey, Path, Read, Shuffle

if TYPE_CHECKING:
    from headwater.model.nodes import SinkNode, SourceNode, Subtopology
    from headwater.spark.frames.flow import Surroundings

_OWN_TIMESTAMP: Final = (
    "fail-on-invalid",
    "log-and-skip-on-invalid",
    "use-partition-time-on-invalid",
    fail_on_invalid,
    log_and_skip_on_invalid,
    use_partition_time_on_invalid,
)
"""All take the record's own timestamp unless it is negative, which the guard looks for."""


def of_source(node: SourceNode, group: Subtopology, around: Surroundings) -> tuple[Flow, str]:
    """Return what a source reads, and a sentence about how it is read.

    Raises:
        Refused: it cannot be computed as a DataFrame.
    """
    if node.changes:
        raise Refused("takes back and adds rows in the order in which a table changes")
    if node.pattern is not None:
        raise Refused("which topics match a pattern is found out by StreamTasks")
    extractor = node.timestamp_extractor or around.config.default_timestamp_extractor
    if extractor not in _OWN_TIMESTAMP:
        raise Refused("a timestamp extractor of its own may depend on what was read before")
    key = kind_of(around.serde("key", node.key_serde), "key")
    value = kind_of(around.serde("value", node.value_serde), "value")
    if key is Kind.DOUBLE:
        raise Refused("equal numbers with a fraction may have different bytes, so no keys are made")
    fused = [around.written[topic] for topic in node.topics if topic in around.written]
    if fused:
        found = merged(fused)
        if len(fused) != len(node.topics) or (found.key, found.value) != (key, value):
            raise Refused("reads with other serdes what was sent, or more than that")
        return found, "comes by a shuffle in place of the repartition topic"
    reads = [Read(topic=t, subtopology=group.id, key=key, value=value) for t in node.topics]
    flow = Flow(key=key, value=value, paths=tuple(Path(read) for read in reads))
    return flow, f"{key.value} keys and {value.value} values, decoded in bulk"


def of_sink(node: SinkNode, flow: Flow, around: Surroundings) -> str:
    """Return a sentence about what becomes of the records that a sink would send.

    Raises:
        Refused: they have to be sent one by one.
    """
    if node.changes:
        raise Refused("sends every change of a table on")
    if not isinstance(node.topic, str):
        raise Refused("a Python function names the topic of each record")
    if node.partitioner is not None:
        raise Refused("a partitioner of its own is a Python function")
    is_internal = node.topic in around.repartition_topics
    if is_internal and flow.table:
        raise Refused("how many updates of a table flow on depends on commits and caches")
    if is_internal and any(path.shuffle for path in flow.paths):
        raise Refused("sends on what has come by a shuffle, to another one")
    key = written_as(flow.key, around.serde("key", node.key_serde), "key")
    value = written_as(flow.value, around.serde("value", node.value_serde), "value")
    if is_internal:
        if node.topic in around.shuffled:
            raise Refused("is the second one that sends to its repartition topic")
        if not all(path.steps and isinstance(path.steps[-1], HasKey) for path in flow.paths):
            raise Refused("spreads records without a key over the partitions")
        around.written[node.topic] = flow.then(Shuffle(node.topic), key=key, value=value)
        around.shuffled.append(node.topic)
        return "a shuffle by murmur2 of the key"
    if around.wants_outputs:
        raise Refused("its outputs are asked for, every one and in order")
    if flow.overflow:
        raise Refused("a number on the way to it may not fit in 64 bits, and nobody looks")
    return "its outputs are not asked for, and nothing on the way to it can fail"
