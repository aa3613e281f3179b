"""Sources and sinks: between bytes on a topic and values in the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from headwater.model.processor_api import RecordContext
from headwater.processor.code import call
from headwater.processor.handlers import FailedChange, FailedOutput, Origin
from headwater.processor.timestamps import TimestampExtractor, extractor_of
from headwater.serde.windowed import SessionWindowedSerde, TimeWindowedSerde
from headwater.wire.change import change_deserializer, change_serializer
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from headwater.measuring.task import Arrival
    from headwater.model.topology import SinkNode, SourceNode
    from headwater.ports import Forward, Headers
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.environment import Environment
    from headwater.processor.failures import Fail

Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[[bytes], Any]
_KNOWN_MAX: Final = 100_000
"""Keys whose partitions are remembered."""


class Input(NamedTuple):
    """How records of one topic enter the pipeline."""

    decode_key: Decode
    decode_value: Decode
    extract: TimestampExtractor | None
    """``None``: the record's own timestamp, an error if negative."""
    forward: Forward
    """The nodes below, as one function."""
    emit: Emit
    """The same, to be written into a loop."""
    node: str
    """The name of the source node."""
    arrival: Arrival | None = None
    """Where its records are noted, if they are."""


def compile_source(
    node: SourceNode, topic: str, forward: Forward, emit: Emit, environment: Environment
) -> Input:
    """Bind a source's serdes and extractor to ``topic`` (the broker's name)."""
    decode_key: Decode = environment.serde("key", node.key_serde, node.name).deserializer(topic)
    decode_value: Decode = environment.serde("value", node.value_serde, node.name).deserializer(
        topic
    )
    reference = node.timestamp_extractor or environment.config.default_timestamp_extractor
    return Input(
        decode_key,
        change_deserializer(decode_value) if node.changes else decode_value,
        extractor_of(reference, environment.clock),
        forward,
        emit,
        node.name,
    )


def emit_sink(node: SinkNode, environment: Environment) -> Emit:
    """Encode and send; the topic and the partition may depend on the record."""
    if not isinstance(node.topic, str):
        return call(_dynamic_sink(node, environment), "sink")
    topic = environment.topic_name(node.topic)
    if node.partitioner is not None:
        return call(_partitioned_sink(node, topic, environment), "sink")
    encode_key, encode_value = _encoders(node, topic, environment)
    refuse = _refusal(node, topic, encode_key, environment)
    refused = environment.failures.of_delivery(node.name, topic)
    sender = environment.collector.sender(topic, refused)
    by_key_alone = _partition_of_key_alone(node, topic, environment)
    output = environment.measures.output(node.name, topic, sender)

    def emit(code: Code, names: Names) -> None:
        key, value = names
        to_key, to_value = code.bind(encode_key, "encode_key"), code.bind(encode_value, "encode")
        send = code.bind(sender, "send")
        key_bytes, value_bytes = code.fresh("key_bytes"), code.fresh("value_bytes")
        code.guarded(
            f"{key_bytes} = None if {key} is None else {to_key}({key})\n"
            f"{value_bytes} = None if {value} is None else {to_value}({value})",
            refuse,
            names,
        )
        chosen = "None"
        if by_key_alone is not None:
            chosen = f"{code.bind(by_key_alone, 'partition_of')}({key_bytes})"
        code.line(f"{send}({key_bytes}, {value_bytes}, timestamp, headers, {chosen})")
        if output is not None:
            code.sent(output, key_bytes, value_bytes)

    return emit


def _partition_of_key_alone(
    node: SinkNode, topic: str, environment: Environment
) -> Callable[[bytes | None], int | None] | None:
    """Return what gives the partition of a key within a window: that of the key alone.

    ``None`` where the whole key decides, or a partitioner, or keys are of any other serde.
    """
    if not node.by_key_alone or node.key_serde is None or node.partitioner is not None:
        return None
    serde = environment.serde("key", node.key_serde, node.name)
    if not isinstance(serde, TimeWindowedSerde | SessionWindowedSerde):
        return None
    window_bytes = serde.window_bytes
    count_partitions = environment.collector.partitions
    known: dict[bytes, int] = {}

    def partition_of(key: bytes | None) -> int | None:
        if key is None:
            return None
        alone = key[:-window_bytes]
        found = known.get(alone)
        if found is None:
            if len(known) > _KNOWN_MAX:
                known.clear()
            count = count_partitions(topic)
            found = 0 if count == 1 else partition_for_key(alone, count)
            known[alone] = found
        return found

    return partition_of


def _encoders(node: SinkNode, topic: str, environment: Environment) -> tuple[Encode, Encode]:
    encode_key: Encode = environment.serde("key", node.key_serde, node.name).serializer(topic)
    encode: Encode = environment.serde("value", node.value_serde, node.name).serializer(topic)
    return encode_key, change_serializer(encode) if node.changes else encode


def _partitioned_sink(node: SinkNode, topic: str, environment: Environment) -> Forward:
    """A sink that asks its partitioner; without one, where keys within windows belong."""
    encode_key, encode_value = _encoders(node, topic, environment)
    refuse = _refusal(node, topic, encode_key, environment)
    refused = environment.failures.of_delivery(node.name, topic)
    send = environment.collector.sender(topic, refused)
    partitions_of = _partitioner(node, topic, environment)
    fail = environment.failures.of_node(node.name)
    by_key_alone = _partition_of_key_alone(node, topic, environment)
    drop = environment.dropping()
    output = environment.measures.output(node.name, topic, send)

    def sink(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            partitions = partitions_of(key, value)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        if not partitions:
            drop()
            return
        try:
            key_bytes = None if key is None else encode_key(key)
            value_bytes = None if value is None else encode_value(value)
        except Exception as error:
            refuse(error, key, value, timestamp, headers)
            return
        if by_key_alone is not None:
            partitions = (by_key_alone(key_bytes),)
        for partition in partitions:
            send(key_bytes, value_bytes, timestamp, headers, partition)
            if output is None:
                continue
            if output.is_exact:
                output(key_bytes, value_bytes, headers)
            else:
                output.key, output.value = key_bytes, value_bytes

    return sink


def _refusal(node: SinkNode, topic: str, encode_key: Encode, environment: Environment) -> Fail:
    """Return what to call when a key or value cannot be encoded: it finds out which, and asks."""
    name, unencodable = node.name, environment.failures.unencodable
    kind = FailedChange if node.changes else FailedOutput

    def refuse(error: Exception, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        output = kind(topic, None, key, value, timestamp, headers)
        try:
            if key is not None:
                encode_key(key)
        except Exception:
            unencodable(name, Origin.KEY, output, error)
        else:
            unencodable(name, Origin.VALUE, output, error)

    return refuse


def _partitioner(
    node: SinkNode, topic: str, environment: Environment
) -> Callable[[Any, Any], Collection[int | None]]:
    """Return a function that gives the partitions of a record: ``(None,)`` for the default."""
    choose = node.partitioner
    count_partitions = environment.collector.partitions
    default: tuple[None] = (None,)
    if choose is None:
        return lambda key, value: default  # noqa: ARG005 - the shape of a partitioner

    def partitions_of(key: Any, value: Any) -> Collection[int | None]:
        count = count_partitions(topic)
        chosen = _called(f"the partitioner for topic {topic}", choose, topic, key, value, count)
        if chosen is None:
            return default
        wanted = (chosen,) if isinstance(chosen, int) else chosen
        if isinstance(wanted, str | bytes) or not isinstance(wanted, Collection):
            raise TypeError(
                f"the partitioner for topic {topic} returned {chosen!r}: return a partition, a "
                "collection of partitions, or None for the default"
            )
        for partition in wanted:
            if not isinstance(partition, int) or not 0 <= partition < count:
                raise ValueError(
                    f"the partitioner chose partition {partition!r} of topic {topic}, which has "
                    f"{count}"
                )
        return wanted

    return partitions_of


def _called(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user's; its exception gets a note that says which function it was."""
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(f"raised by {what}")
        raise


def _dynamic_sink(node: SinkNode, environment: Environment) -> Forward:
    extract = node.topic
    assert not isinstance(extract, str)
    current = environment.current
    fail = environment.failures.of_node(node.name)
    sinks: dict[str, Forward] = {}

    def dynamic_sink(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        context = RecordContext(
            current.source_topic or "", current.source_partition, current.offset, timestamp, headers
        )
        try:
            topic = _a_topic(_called("the topic extractor", extract, key, value, context))
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        if topic not in sinks:
            sinks[topic] = _partitioned_sink(node, topic, environment)
        sinks[topic](key, value, timestamp, headers)

    return dynamic_sink


def _a_topic(topic: object) -> str:
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"the topic extractor returned {topic!r}: return a topic's name")
    return topic
