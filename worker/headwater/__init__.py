"""Headwater: Kafka Streams applications in Python. The names exported here are the public API."""

from typing import TYPE_CHECKING, Any

from headwater.dsl.aggregate import KGroupedStream, KGroupedTable
from headwater.dsl.builder import StreamsBuilder
from headwater.dsl.cogroup import (
    CogroupedKStream,
    SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream,
)
from headwater.dsl.global_table import GlobalKTable
from headwater.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from headwater.dsl.stateless import BranchedKStream
from headwater.dsl.stream import KStream
from headwater.dsl.table import KTable
from headwater.dsl.window import (
    SessionWindowedKStream,
    SlidingWindowedKStream,
    TimeWindowedKStream,
)
from headwater.errors import (
    BackfillError,
    BackfillUnfinishedError,
    BufferFullError,
    ChangelogLostError,
    ConfigError,
    DeserializationError,
    DiskFullError,
    EngineError,
    EnvironmentProblemError,
    FencedError,
    GroupInUseError,
    HeadwaterError,
    ImportPathError,
    ImportTimeoutError,
    IncompatibleSchemaError,
    InstanceRunningError,
    InvalidTimestampError,
    KafkaAuthError,
    KafkaUnavailableError,
    LocalKafkaError,
    MissingTopicError,
    OffsetsExpiredError,
    PartitionMismatchError,
    ProcessingError,
    ProductionError,
    RecordError,
    RecordTooLargeError,
    SchemaNotFoundError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    SerializationError,
    SpecError,
    StateError,
    StoreCorruptedError,
    StoreFormatError,
    StoreLockedError,
    TopicError,
    TopologyError,
    UserError,
)
from headwater.metrics_settings import RecordingLevel
from headwater.model.custom_stores import KeyValueBytesStore
from headwater.model.dsl_stores import (
    BuiltInDslStoreSuppliers,
    DslKeyValueParams,
    DslSessionParams,
    DslStoreSuppliers,
    DslWindowParams,
)
from headwater.model.lifecycle import ClientState
from headwater.model.metrics.kafka import KafkaMetric, MetricName
from headwater.model.offset_reset import AutoOffsetReset, OffsetReset
from headwater.model.processor_api import (
    Cancellable,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    ProcessingContext,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordContext,
    RecordMetadata,
)
from headwater.model.processors import (
    ConnectedStoreProvider,
    ContextualFixedKeyProcessor,
    ContextualProcessor,
    FixedKeyProcessor,
    FixedKeyProcessorSupplier,
    Processor,
    ProcessorSupplier,
    ValueTransformerWithKey,
)
from headwater.model.rocksdb import RocksDBConfigSetter
from headwater.model.store_suppliers import (
    KeyValueBytesStoreSupplier,
    SessionBytesStoreSupplier,
    Stores,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
)
from headwater.model.suppression import BufferConfig, Suppressed
from headwater.model.topology import (
    StoreKind,
    StoreSpec,
    TimestampExtractors,
    Topology,
)
from headwater.model.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Window,
    Windowed,
)
from headwater.model.wrapping import ProcessorWrapper
from headwater.processor.handlers import (
    ErrorHandlerContext,
    FailedOutput,
    Origin,
    RawInput,
    Response,
    Result,
)
from headwater.processor.stores import (
    KeyValueStore,
    TimestampedKeyValueStore,
    ValueAndTimestamp,
)
from headwater.processor.timestamps import ConsumedRecord
from headwater.processor.versionedstore import VersionedKeyValueStore, VersionedRecord
from headwater.processor.windowstores import SessionStore, TimestampedWindowStore, WindowStore
from headwater.serde import Serde, Serdes
from headwater.wire.dead_letter import DeadLetterRecord

if TYPE_CHECKING:
    from headwater.kafka.registry import AvroSerde, JsonSchemaSerde, ProtobufSerde
    from headwater.service.streams import KafkaStreams

from headwater.model.sensors import Sensor, Stat, StreamsMetrics

__all__ = [
    "AutoOffsetReset",
    "AvroSerde",
    "BackfillError",
    "BackfillUnfinishedError",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "BufferFullError",
    "BuiltInDslStoreSuppliers",
    "Cancellable",
    "ChangelogLostError",
    "ClientState",
    "CogroupedKStream",
    "ConfigError",
    "ConnectedStoreProvider",
    "Consumed",
    "ConsumedRecord",
    "ContextualFixedKeyProcessor",
    "ContextualProcessor",
    "DeadLetterRecord",
    "DeserializationError",
    "DiskFullError",
    "DslKeyValueParams",
    "DslSessionParams",
    "DslStoreSuppliers",
    "DslWindowParams",
    "EmitStrategy",
    "EngineError",
    "EnvironmentProblemError",
    "ErrorHandlerContext",
    "FailedOutput",
    "FencedError",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyProcessorSupplier",
    "FixedKeyRecord",
    "GlobalKTable",
    "GroupInUseError",
    "Grouped",
    "HeadwaterError",
    "ImportPathError",
    "ImportTimeoutError",
    "IncompatibleSchemaError",
    "InstanceRunningError",
    "InvalidTimestampError",
    "JoinWindows",
    "Joined",
    "JsonSchemaSerde",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KafkaAuthError",
    "KafkaMetric",
    "KafkaStreams",
    "KafkaUnavailableError",
    "KeyValueBytesStore",
    "KeyValueBytesStoreSupplier",
    "KeyValueStore",
    "LocalKafkaError",
    "Materialized",
    "MetricName",
    "MissingTopicError",
    "Named",
    "OffsetReset",
    "OffsetsExpiredError",
    "Origin",
    "PartitionMismatchError",
    "ProcessingContext",
    "ProcessingError",
    "Processor",
    "ProcessorContext",
    "ProcessorSupplier",
    "ProcessorWrapper",
    "Produced",
    "ProductionError",
    "ProtobufSerde",
    "PunctuationType",
    "RawInput",
    "Record",
    "RecordContext",
    "RecordError",
    "RecordMetadata",
    "RecordTooLargeError",
    "RecordingLevel",
    "Repartitioned",
    "Response",
    "Result",
    "RocksDBConfigSetter",
    "SchemaNotFoundError",
    "SchemaRegistryError",
    "SchemaRegistryUnavailableError",
    "Sensor",
    "Serde",
    "Serdes",
    "SerializationError",
    "SessionBytesStoreSupplier",
    "SessionStore",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindowedKStream",
    "SlidingWindows",
    "SpecError",
    "Stat",
    "StateError",
    "StoreCorruptedError",
    "StoreFormatError",
    "StoreKind",
    "StoreLockedError",
    "StoreSpec",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsMetrics",
    "Suppressed",
    "TableJoined",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "TimestampExtractors",
    "TimestampedKeyValueStore",
    "TimestampedWindowStore",
    "TopicError",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "UserError",
    "ValueAndTimestamp",
    "ValueTransformerWithKey",
    "VersionedBytesStoreSupplier",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "Window",
    "WindowBytesStoreSupplier",
    "WindowStore",
    "Windowed",
]


def __getattr__(name: str) -> Any:
    """Import the engine only where it is used: a topology needs no Kafka client."""
    if name == "KafkaStreams":
        from headwater.service.streams import KafkaStreams  # noqa: PLC0415

        return KafkaStreams
    if name in {"AvroSerde", "JsonSchemaSerde", "ProtobufSerde"}:
        from headwater.kafka import registry  # noqa: PLC0415

        return getattr(registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
