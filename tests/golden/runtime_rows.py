"""Rows of ``docs/reference/language.md`` about what runs a topology: Java's name, names here."""

from __future__ import annotations

from typing import Final

RUNTIME: Final = (
    (
        "`KafkaStreams`, `start`, `close`, `KafkaStreams.State`",
        (
            "KafkaStreams KafkaStreams.start KafkaStreams.close KafkaStreams.state "
            "KafkaStreams.wait KafkaStreams.error KafkaStreams.endpoint KafkaStreams.topology"
        ),
        "a `with` block starts and closes; see [embedding](../embedding.md)",
    ),
    (
        "`close(CloseOptions)`: `timeout`, `leaveGroup` (KIP-812, KIP-1153, KIP-1284)",
        "KafkaStreams.close",
        "`timeout`; workers join no group, so there is none to leave or to stay in",
    ),
    (
        "`cleanUp`",
        "KafkaStreams.clean_up",
        "refuses to delete a store that another process has open",
    ),
    ("`setStateListener`", "KafkaStreams.set_state_listener", ""),
    (
        "`setGlobalStateRestoreListener`, `StateRestoreListener`",
        (
            "KafkaStreams.set_global_state_restore_listener StateRestoreListener "
            "StateRestoreListener.on_restore_start StateRestoreListener.on_batch_restored "
            "StateRestoreListener.on_restore_end StateRestoreListener.on_restore_suspended"
        ),
        "called in the program's process; what it raises is logged",
    ),
    (
        "KIP-988, `setStandbyUpdateListener`",
        "",
        (
            "a program is the only instance of its application, so it has no standby tasks; those "
            "of a StreamApp are in `/tasks` and in `stream_task_standby_records_lag`"
        ),
    ),
    (
        "KIP-663, `addStreamThread`, `removeStreamThread`, `metadataForLocalThreads`",
        (
            "KafkaStreams.add_stream_thread KafkaStreams.remove_stream_thread "
            "KafkaStreams.metadata_for_local_threads"
        ),
        "[threads at run time](../threads.md); also `threadsPerWorker`",
    ),
    (
        "KIP-671, `setUncaughtExceptionHandler`, `StreamThreadExceptionResponse`",
        (
            "KafkaStreams.set_uncaught_exception_handler StreamsUncaughtExceptionHandler "
            "StreamThreadExceptionResponse"
        ),
        "or the setting `uncaught.exception.handler`",
    ),
    (
        "KIP-834, `pause`, `resume`, `isPaused`",
        "KafkaStreams.pause KafkaStreams.resume KafkaStreams.is_paused",
        "also `spec.paused` of a StreamApp",
    ),
    ("`metrics`", "KafkaStreams.metrics", "[metrics](../metrics.md)"),
    (
        "KIP-714, KIP-1076, `clientInstanceIds`, telemetry push",
        "",
        (
            "brokers are sent no metrics, so clients have no instance ids; "
            "`metrics.otlp.endpoint` pushes them"
        ),
    ),
    (
        "IQv2: `KafkaStreams.query`, `StateQueryRequest`, `StateQueryResult`, `PositionBound`",
        "KafkaStreams.query StateQueryRequest StateQueryResult QueryResult Position PositionBound",
        "only what is committed is seen; see [queries](../queries.md)",
    ),
    (
        (
            "`inStore`, `withQuery`, `withPartitions`, `withAllPartitions`, `requireActive`, "
            "`withPositionBound`, `enableExecutionInfo`"
        ),
        (
            "StateQueryRequest.in_store StateQueryRequest.with_query "
            "StateQueryRequest.with_partitions StateQueryRequest.with_all_partitions "
            "StateQueryRequest.require_active StateQueryRequest.with_position_bound "
            "StateQueryRequest.enable_execution_info"
        ),
        "",
    ),
    (
        "`FailureReason`",
        "FailureReason QueryResult.failure_reason QueryResult.failure_message",
        "",
    ),
    (
        "`KeyQuery`, `RangeQuery`, `TimestampedKeyQuery`, `TimestampedRangeQuery`",
        "KeyQuery RangeQuery TimestampedKeyQuery TimestampedRangeQuery",
        "",
    ),
    (
        "`WindowKeyQuery`, `WindowRangeQuery`, `VersionedKeyQuery`, `MultiVersionedKeyQuery`",
        "WindowKeyQuery WindowRangeQuery VersionedKeyQuery MultiVersionedKeyQuery",
        "",
    ),
    (
        "IQv1: `KafkaStreams.store(StoreQueryParameters)`, read-only stores",
        (
            "KafkaStreams.store StoreQueryParameters QueryableStoreTypes ReadOnlyKeyValueStore "
            "ReadOnlyWindowStore ReadOnlySessionStore"
        ),
        (
            "of global stores those of keys and values, which a worker keeps once, where queries "
            "read them; of windows, sessions, versions, the entries used last and stores of the "
            "user's own each StreamThread keeps a copy to itself"
        ),
    ),
    (
        "`withPartition`, `enableStaleStores`",
        "StoreQueryParameters.with_partition StoreQueryParameters.enable_stale_stores",
        "",
    ),
    (
        "`InvalidStateStoreException` and its kin",
        (
            "InvalidStateStoreError UnknownStateStoreError StreamsNotStartedError "
            "StreamsRebalancingError StreamsStoppedError StateStoreMigratedError "
            "StateStoreNotAvailableError InvalidStateStorePartitionError"
        ),
        "",
    ),
    (
        "IQv2 queries with headers (KIP-1356)",
        "",
        "of Kafka Streams 4.4; IQv1 reads stores with headers, as in 4.3",
    ),
    (
        (
            "`queryMetadataForKey`, `streamsMetadataForStore`, `metadataForAllStreamsClients`, "
            "`allLocalStorePartitionLags`"
        ),
        (
            "KafkaStreams.query_metadata_for_key KafkaStreams.streams_metadata_for_store "
            "KafkaStreams.all_local_store_partition_lags "
            "KafkaStreams.metadata_for_all_streams_clients"
        ),
        "a program is the only instance of its application; `application.server` is not needed",
    ),
    (
        "an RPC layer of one's own between instances",
        "KafkaStreams.state_token",
        "workers answer over HTTP, to who sends this token; see [queries](../queries.md)",
    ),
    (
        "`processing.guarantee`, `commit.interval.ms`, `task.timeout.ms`, `max.task.idle.ms`",
        "",
        "options of these names, with Java's defaults",
    ),
    (
        "`buffered.records.per.partition`",
        "",
        "an option of this name; 10,000 by default, because a batch here is larger than Java's",
    ),
    (
        "prefixes `main.consumer.`, `restore.consumer.`, `global.consumer.`, `producer.`, `admin.`",
        "",
        "as in Java: the more specific one wins",
    ),
    (
        "KIP-345, `group.instance.id`; KIP-1071, `group.protocol`",
        "",
        "workers join no group: the control loop assigns tasks",
    ),
    (
        "timestamp extractors, exception handlers, dead letters (KIP-1033, KIP-1034)",
        "",
        "options of Java's names; [failure modes](../failure-modes.md)",
    ),
    (
        "`num.standby.replicas`, `max.warmup.replicas`, `acceptable.recovery.lag` (KIP-441)",
        "",
        "fields of `spec.assignment` of a StreamApp; [scaling](../scaling.md)",
    ),
    (
        "KIP-708, KIP-925, `rack.aware.assignment.*`",
        "",
        "`spec.assignment.topologyKeys` of a StreamApp spreads the copies of a task",
    ),
    (
        "KIP-924, `task.assignor.class`; `probing.rebalance.interval.ms`",
        "",
        "the control loop assigns tasks, and moves one as soon as its copy has caught up",
    ),
    (
        "KIP-1035, KIP-1259, checkpoints and the cleaner of the state directory",
        "",
        (
            "a store holds its own position, and none is deleted for its age; volumes go or stay "
            "as `spec.state.retention` says"
        ),
    ),
    ("KIP-892, transactional state stores", "", "of Kafka Streams 4.4; every store here is"),
    (
        "named topologies",
        "",
        "not public in Java either; a StreamApp of its own is another topology",
    ),
)

TOOLS: Final = (
    (
        "`kafka-streams-application-reset` (`StreamsResetter`)",
        "",
        "the command `headwater reset`; on a cluster the annotation `headwater.dev/reset`",
    ),
    (
        "`kafka-consumer-groups`, `kafka-streams-groups`: `--list`, `--describe --offsets`",
        "",
        (
            "the commands `headwater groups` and `headwater lag`; an application's group is a "
            "consumer group without members, so `kafka-consumer-groups` shows it as well"
        ),
    ),
    (
        "`kafka-streams-groups --describe --members`, `--topology`, `--delete`, `--reset-offsets`",
        "",
        (
            "`headwater get`, `headwater describe` and `headwater reset`; Java's tool shows "
            "groups of the streams protocol alone"
        ),
    ),
    (
        "`Topology.describe` (KIP-120)",
        "Topology.describe",
        "also `headwater describe`, which draws pictures",
    ),
    (
        "`TopologyTestDriver` (KIP-470), `MockProcessorContext` (KIP-267)",
        "testing.TopologyTestDriver testing.ProcessorTestContext",
        "[testing](../testing.md)",
    ),
)
