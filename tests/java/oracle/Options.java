import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.FailOnInvalidTimestamp;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.UsePartitionTimeOnInvalidTimestamp;
import org.apache.kafka.streams.processor.WallclockTimestampExtractor;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Reads the option objects of a step: null where a step has none. */
final class Options {
    private Options() {}

    static Named named(JsonNode step) {
        return step.has("name") ? Named.as(step.get("name").asText()) : null;
    }

    static Consumed<Object, Object> consumed(JsonNode step) {
        JsonNode options = step.get("consumed");
        if (options == null) return null;
        Consumed<Object, Object> consumed = Consumed.with(serde(options, "key"), serde(options, "value"));
        if (options.has("timestamps")) {
            consumed = consumed.withTimestampExtractor(extractor(options.get("timestamps").asText()));
        }
        if (options.has("reset")) {
            boolean latest = options.get("reset").asText().equals("latest");
            consumed =
                    consumed.withOffsetResetPolicy(
                            latest ? AutoOffsetReset.latest() : AutoOffsetReset.earliest());
        }
        return options.has("name") ? consumed.withName(options.get("name").asText()) : consumed;
    }

    private static TimestampExtractor extractor(String name) {
        return switch (name) {
            case "fail" -> new FailOnInvalidTimestamp();
            case "skip" -> new LogAndSkipOnInvalidTimestamp();
            case "use_partition_time" -> new UsePartitionTimeOnInvalidTimestamp();
            case "wall_clock" -> new WallclockTimestampExtractor();
            default -> throw new Oracle.BadRequest("no timestamp extractor named " + name);
        };
    }

    static Produced<Object, Object> produced(JsonNode step) {
        JsonNode options = step.get("produced");
        if (options == null) return null;
        Produced<Object, Object> produced = Produced.with(serde(options, "key"), serde(options, "value"));
        return options.has("name") ? produced.withName(options.get("name").asText()) : produced;
    }

    static Grouped<Object, Object> grouped(JsonNode step) {
        JsonNode options = step.get("grouped");
        if (options == null) return null;
        Grouped<Object, Object> grouped = Grouped.with(serde(options, "key"), serde(options, "value"));
        return options.has("name") ? grouped.withName(options.get("name").asText()) : grouped;
    }

    static Joined<Object, Object, Object> joined(JsonNode step) {
        JsonNode options = step.get("joined");
        if (options == null) return null;
        Joined<Object, Object, Object> joined =
                Joined.with(serde(options, "key"), serde(options, "value"), serde(options, "other"));
        if (options.has("grace_ms")) {
            joined = joined.withGracePeriod(Duration.ofMillis(options.get("grace_ms").asLong()));
        }
        return options.has("name") ? joined.withName(options.get("name").asText()) : joined;
    }

    static Suppressed<Object> suppressed(JsonNode step) {
        JsonNode options = step.path("buffer");
        Suppressed.BufferConfig<?> buffer = Suppressed.BufferConfig.unbounded();
        if (options.has("records")) buffer = buffer.withMaxRecords(options.get("records").asLong());
        if (options.has("bytes")) buffer = buffer.withMaxBytes(options.get("bytes").asLong());
        if (options.path("early").asBoolean()) buffer = buffer.emitEarlyWhenFull();
        if (options.has("logging")) {
            buffer =
                    options.get("logging").asBoolean()
                            ? buffer.withLoggingEnabled(new HashMap<>())
                            : buffer.withLoggingDisabled();
        }
        Suppressed<Object> suppressed;
        if (step.has("limit_ms")) {
            Duration limit = Duration.ofMillis(step.get("limit_ms").asLong());
            suppressed = Suppressed.untilTimeLimit(limit, buffer);
        } else {
            suppressed = cast(Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) buffer));
        }
        return step.has("name") ? suppressed.withName(step.get("name").asText()) : suppressed;
    }

    static Repartitioned<Object, Object> repartitioned(JsonNode step) {
        JsonNode options = step.get("repartitioned");
        if (options == null) return null;
        Repartitioned<Object, Object> result =
                Repartitioned.with(serde(options, "key"), serde(options, "value"));
        if (options.has("partitions")) {
            result = result.withNumberOfPartitions(options.get("partitions").asInt());
        }
        return options.has("name") ? result.withName(options.get("name").asText()) : result;
    }

    static <V> Materialized<Object, V, KeyValueStore<Bytes, byte[]>> materialized(JsonNode step) {
        JsonNode options = step.get("materialized");
        if (options == null) return null;
        Serde<Object> key = serde(options, "key");
        Serde<V> value = cast(serde(options, "value"));
        if (options.has("history_ms")) return versioned(options, key, value);
        Materialized<Object, V, KeyValueStore<Bytes, byte[]>> stored =
                options.has("lru")
                        ? Materialized.<Object, V>as(
                                        Stores.lruMap(
                                                options.get("store").asText(),
                                                options.get("lru").asInt()))
                                .withKeySerde(key)
                                .withValueSerde(value)
                        : options.has("store")
                        ? Materialized.<Object, V, KeyValueStore<Bytes, byte[]>>as(
                                        options.get("store").asText())
                                .withKeySerde(key)
                                .withValueSerde(value)
                        : Materialized.with(key, value);
        if (options.has("persistent")) {
            stored =
                    stored.withStoreType(
                            options.get("persistent").asBoolean()
                                    ? BuiltInDslStoreSuppliers.ROCKS_DB
                                    : BuiltInDslStoreSuppliers.IN_MEMORY);
        }
        if (options.has("caching")) {
            stored =
                    options.get("caching").asBoolean()
                            ? stored.withCachingEnabled()
                            : stored.withCachingDisabled();
        }
        if (options.has("logging") && !options.get("logging").asBoolean()) {
            return stored.withLoggingDisabled();
        }
        Map<String, String> config = new HashMap<>();
        if (options.has("topic_config")) {
            options.get("topic_config")
                    .properties()
                    .forEach(e -> config.put(e.getKey(), e.getValue().asText()));
        }
        boolean isSaid = options.has("logging") || options.has("topic_config");
        return isSaid ? stored.withLoggingEnabled(config) : stored;
    }

    private static <V> Materialized<Object, V, KeyValueStore<Bytes, byte[]>> versioned(
            JsonNode options, Serde<Object> key, Serde<V> value) {
        Duration kept = Duration.ofMillis(options.get("history_ms").asLong());
        var supplier =
                Stores.persistentVersionedKeyValueStore(options.get("store").asText(), kept);
        return Materialized.<Object, V>as(supplier).withKeySerde(key).withValueSerde(value);
    }

    static Serde<Object> serde(JsonNode options, String field) {
        return options.has(field) ? serde(options.get(field).asText()) : null;
    }

    static Serde<Object> serde(String name) {
        String[] parts = name.split(" of ", 2);
        if (parts[0].equals("sessions")) {
            return cast(new WindowedSerdes.SessionWindowedSerde<>(serde(parts[1])));
        }
        if (parts[0].startsWith("windows ")) {
            long size = Long.parseLong(parts[0].substring("windows ".length()));
            return cast(new WindowedSerdes.TimeWindowedSerde<>(serde(parts[1]), size));
        }
        return cast(
                switch (name) {
                    case "string" -> Serdes.String();
                    case "integer" -> Serdes.Integer();
                    case "long" -> Serdes.Long();
                    case "double" -> Serdes.Double();
                    case "bytes" -> Serdes.ByteArray();
                    default -> throw new Oracle.BadRequest("no serde named " + name);
                });
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }
}
