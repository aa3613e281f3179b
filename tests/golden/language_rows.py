"""The rows of ``docs/reference/language.md``: Java's name, names here, a note or a reason."""

from __future__ import annotations

from typing import Final

DSL_STATELESS: Final = (
    ("`StreamsBuilder.stream`, `Consumed`", "StreamsBuilder.stream Consumed", ""),
    ("`StreamsBuilder.stream(Pattern)`", "StreamsBuilder.stream", "`re.compile(...)` as the topic"),
    ("`StreamsBuilder.table`", "StreamsBuilder.table", ""),
    ("`AutoOffsetReset`, also by duration", "OffsetReset AutoOffsetReset", ""),
    ("`filter`, `filterNot`", "KStream.filter KStream.filter_not", ""),
    ("`map`, `flatMap`, `selectKey`", "KStream.map KStream.flat_map KStream.select_key", ""),
    (
        "`mapValues`, `flatMapValues`",
        "KStream.map_values KStream.flat_map_values",
        "`with_key=True` gives the function the key",
    ),
    ("`peek`, `foreach`, `print`", "KStream.peek KStream.for_each KStream.print", ""),
    (
        "`split`, `branch`, `defaultBranch`, `noDefaultBranch`, `Branched`",
        (
            "KStream.split BranchedKStream.branch BranchedKStream.default_branch "
            "BranchedKStream.no_default_branch Branched"
        ),
        "",
    ),
    ("`merge`", "KStream.merge", ""),
    ("`repartition`, `Repartitioned`", "KStream.repartition Repartitioned", ""),
    (
        "`to`, `Produced`, `TopicNameExtractor`, `StreamPartitioner`",
        "KStream.to Produced",
        "functions as topic and partitioner",
    ),
    ("`toTable`", "KStream.to_table", ""),
    ("`toStream`", "KTable.to_stream", ""),
    ("`process`", "KStream.process", ""),
    ("`processValues`", "KStream.process_values", ""),
    (
        "`Named`, `Grouped`, `Joined`, `Materialized`",
        "Named Grouped Joined Materialized",
        "or keyword arguments",
    ),
    (
        "`as`, `with`, `withKeySerde` and their kin on these objects",
        (
            "Consumed.as_ Consumed.with_ Produced.with_stream_partitioner Grouped.with_ "
            "Joined.with_grace_period StreamJoined.with_ TableJoined.with_other_partitioner "
            "Repartitioned.with_number_of_partitions Materialized.with_ Branched.with_function "
            "Branched.with_consumer Named.as_"
        ),
        "`Grouped.keySerde(serde)` is `Grouped.with_(serde)`, or `Grouped(key_serde=serde)`",
    ),
    ("`Printed`", "KStream.print", "its settings are keyword arguments of `print`"),
)

DSL_STATEFUL: Final = (
    ("`groupByKey`, `groupBy`", "KStream.group_by_key KStream.group_by", ""),
    ("`KTable.groupBy`", "KTable.group_by", ""),
    (
        "`KGroupedStream.count`, `reduce`, `aggregate`",
        "KGroupedStream.count KGroupedStream.reduce KGroupedStream.aggregate",
        "",
    ),
    (
        "`KGroupedStream.cogroup`, `CogroupedKStream`",
        "KGroupedStream.cogroup CogroupedKStream.cogroup CogroupedKStream.aggregate",
        "",
    ),
    (
        "`windowedBy`, `TimeWindows`, `UnlimitedWindows`",
        (
            "KGroupedStream.windowed_by CogroupedKStream.windowed_by TimeWindows UnlimitedWindows "
            "Windowed Window"
        ),
        "tumbling and hopping by `advance_by`",
    ),
    (
        "`TimeWindowedKStream.count`, `reduce`, `aggregate`",
        (
            "TimeWindowedKStream.count TimeWindowedKStream.reduce TimeWindowedKStream.aggregate "
            "TimeWindowedCogroupedKStream.aggregate"
        ),
        "",
    ),
    (
        "`SlidingWindows`",
        "SlidingWindows SlidingWindowedKStream",
        "",
    ),
    (
        "`SessionWindows`, `SessionWindowedKStream`",
        (
            "SessionWindows SessionWindowedKStream.count SessionWindowedKStream.reduce "
            "SessionWindowedKStream.aggregate SessionWindowedCogroupedKStream.aggregate"
        ),
        "",
    ),
    (
        "`emitStrategy`, `EmitStrategy`",
        "TimeWindowedKStream.emit_strategy SessionWindowedKStream.emit_strategy EmitStrategy",
        "",
    ),
    (
        "`KGroupedTable.count`, `reduce`, `aggregate`",
        "KGroupedTable.count KGroupedTable.reduce KGroupedTable.aggregate",
        "",
    ),
    ("`KStream.join`, `leftJoin` with a table", "KStream.join KStream.left_join", ""),
    (
        "`KStream.join`, `leftJoin`, `outerJoin` with a stream, `JoinWindows`, `StreamJoined`",
        "KStream.join KStream.left_join KStream.outer_join JoinWindows StreamJoined",
        "",
    ),
    (
        "`KStream.join`, `leftJoin` with a `GlobalKTable`",
        "KStream.join KStream.left_join GlobalKTable StreamsBuilder.global_table",
        "the key selector comes before the joiner",
    ),
    (
        "`KTable.join`, `leftJoin`, `outerJoin`",
        "KTable.join KTable.left_join KTable.outer_join",
        "",
    ),
    (
        "`KTable.join`, `leftJoin` by a foreign key, `TableJoined`",
        "KTable.join KTable.left_join TableJoined",
        "the extractor comes before the joiner",
    ),
    (
        "`KTable.suppress`, `Suppressed`, `BufferConfig`",
        "KTable.suppress Suppressed BufferConfig",
        "",
    ),
    (
        "joins with a versioned table, `Joined.withGracePeriod`",
        "KStream.join KStream.left_join Joined",
        "`grace=`",
    ),
    (
        "tables over versioned stores",
        "Materialized VersionedBytesStoreSupplier",
        "`history_retention=` of `Materialized`",
    ),
    (
        "null keys in left and outer joins (KIP-962)",
        "KStream.left_join KStream.outer_join KTable.left_join",
        "by default, as in Kafka Streams",
    ),
    (
        "topology optimisation, also of a stream that is joined with itself (KIP-862)",
        "",
        "the option `topology.optimization`, as in Kafka Streams",
    ),
    (
        "explicit naming (KIP-1111)",
        "",
        "the option `ensure.explicit.internal.resource.naming`, as in Kafka Streams",
    ),
    ("`KTable.filter`, `filterNot`", "KTable.filter KTable.filter_not", ""),
    ("`KTable.mapValues`", "KTable.map_values", ""),
    ("`KTable.transformValues`", "KTable.transform_values ValueTransformerWithKey", ""),
    (
        "`queryableStoreName`",
        "KTable.queryable_store_name GlobalKTable.queryable_store_name",
        "for [queries](../queries.md), processors and `TopologyTestDriver`",
    ),
    (
        "stores with headers (`dsl.store.format`, KIP-1285)",
        "DslStoreFormat",
        (
            "the option `dsl.store.format`, as in Kafka Streams 4.3: tables and aggregates in "
            "RocksDB, not versioned ones; see [stores](../stores.md#headers-beside-values)"
        ),
    ),
)

PROCESSOR_API: Final = (
    (
        (
            "`Topology.addSource`, `addProcessor`, `addSink`, `addStateStore`, "
            "`connectProcessorAndStateStores`"
        ),
        (
            "Topology.add_source Topology.add_processor Topology.add_sink Topology.add_state_store "
            "Topology.connect_processor_and_state_stores"
        ),
        "",
    ),
    (
        "`Topology.addGlobalStore`, `StreamsBuilder.addGlobalStore`",
        "Topology.add_global_store StreamsBuilder.add_global_store",
        "",
    ),
    ("`Topology.addReadOnlyStateStore`", "Topology.add_read_only_state_store", ""),
    ("`StreamsBuilder.addStateStore`", "StreamsBuilder.add_state_store", ""),
    ("`Topology.describe`", "Topology.describe", "also `headwater describe`"),
    (
        "`Processor`, `ContextualProcessor`",
        "Processor ContextualProcessor ProcessorSupplier",
        "a function or a generator is a processor, too",
    ),
    (
        "`FixedKeyProcessor`, `FixedKeyRecord`",
        "FixedKeyProcessor ContextualFixedKeyProcessor FixedKeyProcessorSupplier FixedKeyRecord",
        "",
    ),
    (
        "`Record`",
        "Record Record.with_key Record.with_value Record.with_timestamp Record.with_headers",
        "",
    ),
    ("`RecordMetadata`", "RecordMetadata ProcessorContext.record_metadata", ""),
    ("`ProcessorContext.forward`", "ProcessorContext.forward", ""),
    ("`ProcessorContext.commit`", "ProcessorContext.commit", ""),
    (
        "`ProcessorContext.schedule`, `PunctuationType`, `Cancellable`",
        "ProcessorContext.schedule PunctuationType Cancellable",
        "",
    ),
    ("`ProcessorContext.getStateStore`", "ProcessorContext.get_state_store", ""),
    (
        "`currentSystemTimeMs`, `currentStreamTimeMs`",
        "ProcessorContext.current_system_time_ms ProcessorContext.current_stream_time_ms",
        "",
    ),
    (
        "`appConfigs`, `appConfigsWithPrefix`",
        "ProcessorContext.app_configs ProcessorContext.app_configs_with_prefix",
        "",
    ),
    (
        "`taskId`, `applicationId`, `stateDir`",
        "ProcessorContext.task_id ProcessorContext.application_id ProcessorContext.state_dir",
        "",
    ),
    ("`keySerde`, `valueSerde`", "ProcessorContext.key_serde ProcessorContext.value_serde", ""),
    (
        "`ProcessorContext.metrics`",
        "ProcessorContext.metrics StreamsMetrics Sensor Sensor.add Stat",
        "`addSensor` and its kin in snake_case; see [Metrics](../metrics.md)",
    ),
    ("`ConnectedStoreProvider.stores`", "ConnectedStoreProvider", ""),
    (
        "`StoreBuilder`",
        (
            "StoreSpec StoreSpec.with_caching_enabled StoreSpec.with_caching_disabled "
            "StoreSpec.with_logging_enabled StoreSpec.with_logging_disabled"
        ),
        "",
    ),
    ("`ProcessorWrapper`", "ProcessorWrapper", ""),
    (
        (
            "`StateStore.init`, `ProcessorContext.register`, `StateRestoreCallback`, "
            "`BatchingStateRestoreCallback`, `CommitCallback`"
        ),
        "",
        (
            "the engine fills a store of the user's own from its changelog, by its `put`, and "
            "flushes it at a commit"
        ),
    ),
    (
        "`StateStore.flush`, `close`, `name`, `persistent`, `isOpen`",
        (
            "KeyValueBytesStore.flush KeyValueBytesStore.close StoreSpec.name StoreSpec.persistent "
            "KeyValueStore.name"
        ),
        (
            "the engine opens, flushes and closes stores; a processor is never given a closed one, "
            "so there is no `isOpen`"
        ),
    ),
    (
        "`StateStore.query`, `getPosition` (KIP-796)",
        "KafkaStreams.query QueryResult.position StateQueryResult.position",
        "the engine answers queries, of stores of the user's own, too, and keeps their positions",
    ),
    (
        "`StateStore.managesOffsets`, `commit`, `committedOffset` (KIP-1035)",
        "",
        (
            "the engine writes a store's position with its entries, in one batch; a store of the "
            "user's own is filled from its changelog at every start"
        ),
    ),
)

STORES: Final = (
    (
        "`Stores.persistentKeyValueStore`, `persistentTimestampedKeyValueStore`",
        "Stores.persistent_key_value_store Stores.persistent_timestamped_key_value_store",
        "",
    ),
    ("`Stores.inMemoryKeyValueStore`", "Stores.in_memory_key_value_store", ""),
    (
        "`Stores.keyValueStoreBuilder`, `timestampedKeyValueStoreBuilder`",
        "Stores.key_value_store_builder Stores.timestamped_key_value_store_builder",
        "",
    ),
    (
        "`KeyValueStore`",
        (
            "KeyValueStore.get KeyValueStore.put KeyValueStore.put_if_absent KeyValueStore.put_all "
            "KeyValueStore.delete KeyValueStore.approximate_num_entries TimestampedKeyValueStore "
            "ValueAndTimestamp"
        ),
        "",
    ),
    (
        "`range`, `reverseRange`, `all`, `reverseAll`, `prefixScan`",
        (
            "KeyValueStore.range KeyValueStore.reverse_range KeyValueStore.all "
            "KeyValueStore.reverse_all KeyValueStore.prefix_scan"
        ),
        "",
    ),
    (
        "`Stores.persistentWindowStore`, `persistentTimestampedWindowStore`, `inMemoryWindowStore`",
        (
            "Stores.persistent_window_store Stores.persistent_timestamped_window_store "
            "Stores.in_memory_window_store WindowBytesStoreSupplier"
        ),
        "",
    ),
    (
        "`retainDuplicates` of windows",
        "StoreSpec.retain_duplicates WindowBytesStoreSupplier.retain_duplicates",
        "`retain_duplicates=True` of the suppliers of windows",
    ),
    (
        "`Stores.windowStoreBuilder`, `timestampedWindowStoreBuilder`, `sessionStoreBuilder`",
        (
            "Stores.window_store_builder Stores.timestamped_window_store_builder "
            "Stores.session_store_builder"
        ),
        "",
    ),
    (
        "`WindowStore`, `TimestampedWindowStore`",
        (
            "WindowStore.put WindowStore.fetch WindowStore.backward_fetch WindowStore.fetch_all "
            "WindowStore.backward_fetch_all WindowStore.all WindowStore.backward_all "
            "TimestampedWindowStore"
        ),
        "",
    ),
    (
        "`Stores.persistentSessionStore`, `inMemorySessionStore`",
        "Stores.persistent_session_store Stores.in_memory_session_store SessionBytesStoreSupplier",
        "",
    ),
    (
        "`SessionStore`",
        (
            "SessionStore.put SessionStore.remove SessionStore.fetch SessionStore.backward_fetch "
            "SessionStore.fetch_session SessionStore.find_sessions "
            "SessionStore.backward_find_sessions"
        ),
        "",
    ),
    (
        (
            "`Stores.persistentTimestampedKeyValueStoreWithHeaders`, "
            "`persistentTimestampedWindowStoreWithHeaders`, `persistentSessionStoreWithHeaders`"
        ),
        (
            "Stores.persistent_timestamped_key_value_store_with_headers "
            "Stores.persistent_timestamped_window_store_with_headers "
            "Stores.persistent_session_store_with_headers"
        ),
        "there is none for versions, as in Kafka Streams (KIP-1271)",
    ),
    (
        (
            "`Stores.timestampedKeyValueStoreWithHeadersBuilder`, "
            "`timestampedWindowStoreWithHeadersBuilder`, `sessionStoreWithHeadersBuilder`"
        ),
        (
            "Stores.timestamped_key_value_store_with_headers_builder "
            "Stores.timestamped_window_store_with_headers_builder "
            "Stores.session_store_with_headers_builder"
        ),
        "",
    ),
    (
        (
            "`TimestampedKeyValueStoreWithHeaders`, `TimestampedWindowStoreWithHeaders`, "
            "`SessionStoreWithHeaders`"
        ),
        (
            "TimestampedKeyValueStoreWithHeaders TimestampedWindowStoreWithHeaders "
            "SessionStoreWithHeaders ValueTimestampHeaders AggregationWithHeaders"
        ),
        "",
    ),
    (
        "`Stores.persistentVersionedKeyValueStore`, `versionedKeyValueStoreBuilder`",
        (
            "Stores.persistent_versioned_key_value_store Stores.versioned_key_value_store_builder "
            "VersionedBytesStoreSupplier"
        ),
        "",
    ),
    (
        "`VersionedKeyValueStore`, `VersionedRecord`",
        (
            "VersionedKeyValueStore.get VersionedKeyValueStore.put VersionedKeyValueStore.delete "
            "VersionedKeyValueStore.VALID_TO_UNDEFINED VersionedKeyValueStore.NOT_PUT "
            "VersionedRecord"
        ),
        "",
    ),
    ("`Stores.lruMap`", "Stores.lru_map", ""),
    (
        "order of the layers of a store: metered, caching, change-logging, inner",
        "StoreSpec.with_caching_enabled StoreSpec.with_logging_enabled",
        (
            "the same: serdes and metrics, record cache, changelog, store; what is not committed "
            "waits above the store"
        ),
    ),
    (
        "`dsl.store.suppliers.class`, `DslStoreSuppliers`, `BuiltInDslStoreSuppliers`",
        (
            "DslStoreSuppliers BuiltInDslStoreSuppliers DslKeyValueParams DslWindowParams "
            "DslSessionParams"
        ),
        "`default.dsl.store` is read, too",
    ),
    (
        "`Materialized.as`, `withStoreType`, `StreamJoined.withDslStoreSuppliers`",
        (
            "Materialized.as_ Materialized.with_store_type StreamJoined.with_dsl_store_suppliers "
            "StreamJoined.with_this_store_supplier StreamJoined.with_other_store_supplier"
        ),
        "or `store_supplier=`, `store_type=`, `persistent=`",
    ),
    (
        "custom stores: `StoreSupplier.get` of each kind",
        (
            "KeyValueBytesStoreSupplier.get KeyValueBytesStore WindowBytesStoreSupplier.get "
            "WindowBytesStore SessionBytesStoreSupplier.get SessionBytesStore "
            "VersionedBytesStoreSupplier.get VersionedBytesStore"
        ),
        "[what the engine asks of them](../stores.md#a-store-of-your-own)",
    ),
    (
        "`StoreSupplier.metricsScope`, `segmentIntervalMs`",
        (
            "KeyValueBytesStoreSupplier.metrics_scope WindowBytesStoreSupplier.metrics_scope "
            "SessionBytesStoreSupplier.metrics_scope VersionedBytesStoreSupplier.metrics_scope"
        ),
        "of custom stores; segments are the engine's",
    ),
    (
        "`rocksdb.config.setter`, `RocksDBConfigSetter`",
        "RocksDBConfigSetter RocksDBConfigSetter.set_config RocksDBConfigSetter.close",
        "options are those of `rocksdict`",
    ),
)

OUR_OWN: Final = (
    (
        "no such thing: functions that wait",
        "KStream.map_values_async KStream.process_values_async KStream.for_each_async",
        "[many calls at once](../functions-that-wait.md)",
    ),
    (
        "no such thing: many values in one call",
        "KStream.map_batch",
        "[a batch for a model](../functions-that-wait.md)",
    ),
)
