import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;

/** What a processor of the catalogue does, whether it may change keys or not. */
final class Behaviour {
    /** Where its results go; a processor that keeps keys ignores the key. */
    interface Out {
        void send(Object key, Object value, long timestamp, Headers headers);
    }

    private static final long[] AGO = {-30, 0, 1, 10, 25, 50, 75, 100};
    private static final Duration INTERVAL = Duration.ofMillis(10);
    private static final Instant START = Instant.ofEpochMilli(25);

    private final String fn;
    private final List<StoreBuilder<?>> stores;
    private final JsonNode finds;
    private ProcessingContext context;
    private Out out;

    Behaviour(JsonNode step, List<StoreBuilder<?>> stores) {
        this.fn = step.required("fn").asText();
        this.stores = stores;
        this.finds = step.path("finds");
    }

    void init(ProcessingContext context, Out out) {
        this.context = context;
        this.out = out;
        switch (fn) {
            case "stream_ticks":
                context.schedule(INTERVAL, PunctuationType.STREAM_TIME, this::tick);
                break;
            case "wall_ticks":
                context.schedule(INTERVAL, PunctuationType.WALL_CLOCK_TIME, this::tick);
                break;
            case "anchored_stream_ticks":
                context.schedule(START, INTERVAL, PunctuationType.STREAM_TIME, this::tick);
                break;
            case "anchored_wall_ticks":
                context.schedule(START, INTERVAL, PunctuationType.WALL_CLOCK_TIME, this::tick);
                break;
            case "forward_all":
                context.schedule(INTERVAL, PunctuationType.STREAM_TIME, now -> forwardAll());
                break;
            default:
        }
    }

    void process(Object key, Object value, long timestamp, Headers headers) {
        String text = Functions.text(value);
        switch (fn) {
            case "again":
                out.send(key, text, timestamp, headers);
                out.send(key, text + "+", timestamp + 1, headers);
                break;
            case "turn":
                out.send(text, Functions.text(key), timestamp, headers);
                break;
            case "with_header":
                Headers more = new RecordHeaders(headers);
                more.add("more", new byte[] {1});
                out.send(key, text, timestamp, more);
                break;
            case "place":
                out.send(key, place(), timestamp, headers);
                break;
            case "keep":
                for (StoreBuilder<?> store : stores) {
                    String old = replace(store.name(), Functions.text(key), text, timestamp);
                    out.send(key, old + ">" + text, timestamp, headers);
                }
                break;
            case "hold":
                for (StoreBuilder<?> store : stores) {
                    Object held = context.getStateStore(store.name());
                    String old = Holding.hold(held, Functions.text(key), value, timestamp, headers);
                    out.send(key, old + ">" + text, timestamp, headers);
                }
                break;
            case "versions":
                for (StoreBuilder<?> store : stores) {
                    String told = version(store.name(), Functions.text(key), value, timestamp);
                    out.send(key, told, timestamp, headers);
                }
                break;
            case "windows", "sessions":
                for (StoreBuilder<?> store : stores) {
                    String k = Functions.text(key);
                    String v = value == null ? null : Functions.text(value);
                    String told =
                            fn.equals("windows")
                                    ? TimedScans.windows(context, store.name(), k, v, timestamp)
                                    : TimedScans.sessions(context, store.name(), k, v, timestamp);
                    out.send(key, told, timestamp, headers);
                }
                break;
            case "scan", "scan_forward":
                for (StoreBuilder<?> store : stores) {
                    String told = scan(store.name(), Functions.text(key), value, timestamp);
                    out.send(key, told, timestamp, headers);
                }
                break;
            case "forward_all":
                replace(stores.get(0).name(), Functions.text(key), text, timestamp);
                break;
            case "find":
                for (JsonNode name : finds) {
                    String found = find(name.asText(), text);
                    out.send(key, text + "=" + found, timestamp, headers);
                }
                break;
            case "stream_ticks", "wall_ticks", "anchored_stream_ticks", "anchored_wall_ticks":
                out.send(key, text, timestamp, headers);
                break;
            default: throw new Oracle.BadRequest("no processor is called " + fn);
        }
    }

    private void tick(long now) {
        out.send("tick", now + " " + place(), now, new RecordHeaders());
    }

    private void forwardAll() {
        TimestampedKeyValueStore<String, String> store =
                context.getStateStore(stores.get(0).name());
        try (var rows = store.all()) {
            rows.forEachRemaining(
                    row ->
                            out.send(
                                    row.key,
                                    row.value.value(),
                                    row.value.timestamp(),
                                    new RecordHeaders()));
        }
    }

    private String place() {
        String where =
                context.recordMetadata()
                        .map(m -> (m.topic() == null ? "" : m.topic()) + "-" + m.partition() + "-" + m.offset())
                        .orElse("nowhere");
        return where + " " + context.currentStreamTimeMs();
    }

    /** Put or delete a version, and tell all that can be asked about its neighbours. */
    private String version(String name, String key, Object value, long timestamp) {
        VersionedKeyValueStore<String, String> store = context.getStateStore(name);
        StringBuilder told = new StringBuilder();
        if (value == null) {
            told.append(shown(store.delete(key, timestamp)));
        } else if (Functions.text(value).isEmpty()) {
            told.append(store.put(key, null, timestamp));
        } else {
            told.append(store.put(key, Functions.text(value), timestamp));
        }
        told.append(" ").append(shown(store.get(key)));
        for (long back : AGO) told.append(" ").append(shown(store.get(key, timestamp - back)));
        return told.toString();
    }

    private static String shown(VersionedRecord<String> found) {
        return found == null ? "null" : found.value() + "@" + found.timestamp();
    }

    private String find(String name, String key) {
        Object store = context.getStateStore(name);
        if (store instanceof TimestampedKeyValueStore<?, ?>) {
            TimestampedKeyValueStore<Object, Object> stamped = context.getStateStore(name);
            ValueAndTimestamp<Object> found = stamped.get(key);
            return found == null
                    ? "null"
                    : Functions.text(found.value()) + "@" + found.timestamp();
        }
        KeyValueStore<Object, Object> plain = context.getStateStore(name);
        return Functions.text(plain.get(key));
    }

    private String replace(String name, String key, String value, long timestamp) {
        Object store = context.getStateStore(name);
        if (store instanceof TimestampedKeyValueStore<?, ?>) {
            TimestampedKeyValueStore<String, String> stamped = context.getStateStore(name);
            ValueAndTimestamp<String> old = stamped.get(key);
            stamped.put(key, ValueAndTimestamp.make(value, timestamp));
            return old == null ? "null" : old.value() + "@" + old.timestamp();
        }
        KeyValueStore<String, String> plain = context.getStateStore(name);
        String old = plain.get(key);
        plain.put(key, value);
        return String.valueOf(old);
    }

    /** Put or delete a key, and tell what every scan finds. */
    private String scan(String name, String key, Object value, long timestamp) {
        String text = value == null ? null : Functions.text(value);
        Object store = context.getStateStore(name);
        if (store instanceof TimestampedKeyValueStore<?, ?>) {
            TimestampedKeyValueStore<String, String> stamped = context.getStateStore(name);
            stamped.put(key, ValueAndTimestamp.make(text, timestamp));
            return scanned(stamped, key, found -> found.value() + "@" + found.timestamp());
        }
        KeyValueStore<String, String> plain = context.getStateStore(name);
        plain.put(key, text);
        return scanned(plain, key, found -> found);
    }

    private <V> String scanned(
            KeyValueStore<String, V> store, String key, Function<V, String> shown) {
        String begin = key.substring(0, Math.min(1, key.length()));
        List<KeyValueIterator<String, V>> scans = new ArrayList<>();
        scans.add(store.all());
        scans.add(store.range("b", key));
        scans.add(store.range(key, null));
        scans.add(store.prefixScan(begin, new StringSerializer()));
        // Over a record cache they tell some keys that are deleted there.
        if (fn.equals("scan")) {
            scans.add(store.reverseAll());
            scans.add(store.reverseRange(null, key));
            scans.add(store.reverseRange("a", "m"));
        }
        StringBuilder told = new StringBuilder();
        for (KeyValueIterator<String, V> scan : scans) {
            try (scan) {
                scan.forEachRemaining(
                        row -> told.append(row.key).append(shown.apply(row.value)).append(" "));
            }
            told.append("| ");
        }
        return told.toString();
    }

    // -- suppliers ---------------------------------------------------------------------------

    static ProcessorSupplier<Object, Object, Object, Object> supplier(
            JsonNode step, List<StoreBuilder<?>> stores) {
        return new ProcessorSupplier<>() {
            @Override
            public Processor<Object, Object, Object, Object> get() {
                return new Free(step, stores);
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return brought(step, stores);
            }
        };
    }

    static FixedKeyProcessorSupplier<Object, Object, Object> fixedKeySupplier(
            JsonNode step, List<StoreBuilder<?>> stores) {
        return new FixedKeyProcessorSupplier<>() {
            @Override
            public FixedKeyProcessor<Object, Object, Object> get() {
                return new FixedKey(step, stores);
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return brought(step, stores);
            }
        };
    }

    static boolean brings(JsonNode step) {
        return step.path("brings").asBoolean(false);
    }

    private static Set<StoreBuilder<?>> brought(JsonNode step, List<StoreBuilder<?>> stores) {
        return brings(step) ? new HashSet<>(stores) : null;
    }

    static List<StoreBuilder<?>> stores(JsonNode step) {
        List<StoreBuilder<?>> builders = new ArrayList<>();
        for (JsonNode one : step.path("stores")) {
            String name = one.required("store").asText();
            boolean persistent = one.path("persistent").asBoolean(true);
            boolean stamped = one.path("timestamped").asBoolean(true);
            if (one.has("history_ms") || one.has("kind")) {
                builders.add(one.has("kind") ? Holding.timedStore(one) : versioned(name, one));
                continue;
            }
            boolean headers = one.path("headers").asBoolean(false);
            KeyValueBytesStoreSupplier supplier =
                    one.has("lru")
                            ? Stores.lruMap(name, one.get("lru").asInt())
                            : !persistent
                            ? Stores.inMemoryKeyValueStore(name)
                            : headers
                            ? Stores.persistentTimestampedKeyValueStoreWithHeaders(name)
                            : stamped
                                    ? Stores.persistentTimestampedKeyValueStore(name)
                                    : Stores.persistentKeyValueStore(name);
            Serde<Object> string = Options.serde("string");
            StoreBuilder<?> builder =
                    headers
                            ? Stores.timestampedKeyValueStoreWithHeadersBuilder(
                                    supplier, string, string)
                            : stamped
                            ? Stores.timestampedKeyValueStoreBuilder(supplier, string, string)
                            : Stores.keyValueStoreBuilder(supplier, string, string);
            if (one.path("caching").asBoolean(false)) builder.withCachingEnabled();
            if (!one.path("logging").asBoolean(true)) builder.withLoggingDisabled();
            builders.add(builder);
        }
        return builders;
    }

    private static StoreBuilder<?> versioned(String name, JsonNode one) {
        Duration kept = Duration.ofMillis(one.get("history_ms").asLong());
        StoreBuilder<?> builder =
                Stores.versionedKeyValueStoreBuilder(
                        Stores.persistentVersionedKeyValueStore(name, kept),
                        Options.serde("string"),
                        Options.serde("string"));
        return one.path("logging").asBoolean(true) ? builder : builder.withLoggingDisabled();
    }

    private static final class Free implements Processor<Object, Object, Object, Object> {
        private final Behaviour behaviour;

        Free(JsonNode step, List<StoreBuilder<?>> stores) {
            behaviour = new Behaviour(step, stores);
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            behaviour.init(
                    context,
                    (key, value, timestamp, headers) ->
                            context.forward(new Record<>(key, value, timestamp, headers)));
        }

        @Override
        public void process(Record<Object, Object> record) {
            behaviour.process(record.key(), record.value(), record.timestamp(), record.headers());
        }
    }

    /** Forwards what the last record it was given becomes. */
    private static final class FixedKey implements FixedKeyProcessor<Object, Object, Object> {
        private final Behaviour behaviour;
        private FixedKeyRecord<Object, Object> last;

        FixedKey(JsonNode step, List<StoreBuilder<?>> stores) {
            behaviour = new Behaviour(step, stores);
        }

        @Override
        public void init(FixedKeyProcessorContext<Object, Object> context) {
            behaviour.init(
                    context,
                    (key, value, timestamp, headers) -> {
                        if (last == null) return;
                        context.forward(
                                last.withValue(value).withTimestamp(timestamp).withHeaders(headers));
                    });
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            last = record;
            behaviour.process(record.key(), record.value(), record.timestamp(), record.headers());
        }
    }
}
