"""Headwater: Kafka Streams applications in Python. The names exported here are the public API."""

from typing import TYPE_CHECKING, Any

from headwater.dsl.branches import BranchedKStream
from headwater.dsl.builder import StreamsBuilder
from headwater.dsl.grouped import KGroupedStream, KGroupedTable
from headwater.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Materialized,
    Named,
    Produced,
    Repartitioned,
)
from headwater.dsl.stream import KStream
from headwater.dsl.table import KTable
from headwater.model.lifecycle import ClientState
from headwater.model.processor_api import (
    Cancellable,
    Processor,
    ProcessorContext,
    ProcessorSupplier,
    PunctuationType,
    Record,
    RecordContext,
    RecordMetadata,
)
from headwater.model.topology import OffsetReset, StoreKind, StoreSpec, Topology
from headwater.processor.handlers import (
    ErrorHandlerContext,
    FailedOutput,
    Origin,
    RawInput,
    Response,
    Result,
)
from headwater.processor.timestamps import ConsumedRecord
from headwater.serde import Serde, Serdes
from headwater.wire.dead_letter import DeadLetterRecord

if TYPE_CHECKING:
    from headwater.service.streams import KafkaStreams

__all__ = [
    "Branched",
    "BranchedKStream",
    "Cancellable",
    "ClientState",
    "Consumed",
    "ConsumedRecord",
    "DeadLetterRecord",
    "ErrorHandlerContext",
    "FailedOutput",
    "Grouped",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KafkaStreams",
    "Materialized",
    "Named",
    "OffsetReset",
    "Origin",
    "Processor",
    "ProcessorContext",
    "ProcessorSupplier",
    "Produced",
    "PunctuationType",
    "RawInput",
    "Record",
    "RecordContext",
    "RecordMetadata",
    "Repartitioned",
    "Response",
    "Result",
    "Serde",
    "Serdes",
    "StoreKind",
    "StoreSpec",
    "StreamsBuilder",
    "Topology",
]


def __getattr__(name: str) -> Any:
    """Import the engine only where it is used: a topology needs no Kafka client."""
    if name == "KafkaStreams":
        from headwater.service.streams import KafkaStreams  # noqa: PLC0415

        return KafkaStreams
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
