import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.SessionStoreWithHeaders;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.TimestampedWindowStoreWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.WindowStore;

/** The processor {@code hold}, and stores of windows and sessions for it. */
final class Holding {
    private Holding() {}

    static StoreBuilder<?> timedStore(JsonNode one) {
        String name = one.get("store").asText();
        Duration kept = Duration.ofMillis(one.get("retention_ms").asLong());
        Serde<Object> string = Options.serde("string");
        StoreBuilder<?> builder = plainStore(one, name, kept, string);
        if (one.path("caching").asBoolean(false)) builder.withCachingEnabled();
        return one.path("logging").asBoolean(true) ? builder : builder.withLoggingDisabled();
    }

    private static StoreBuilder<?> plainStore(
            JsonNode one, String name, Duration kept, Serde<Object> string) {
        boolean persistent = one.path("persistent").asBoolean(true);
        if (one.path("headers").asBoolean(false)) {
            return withHeaders(one, name, kept, string, persistent);
        }
        if (one.get("kind").asText().equals("sessions")) {
            return Stores.sessionStoreBuilder(
                    persistent
                            ? Stores.persistentSessionStore(name, kept)
                            : Stores.inMemorySessionStore(name, kept),
                    string,
                    string);
        }
        Duration size = Duration.ofMillis(one.get("size").asLong());
        boolean stamped = one.path("timestamped").asBoolean(true);
        if (!persistent) {
            var memory = Stores.inMemoryWindowStore(name, kept, size, false);
            return stamped
                    ? Stores.timestampedWindowStoreBuilder(memory, string, string)
                    : Stores.windowStoreBuilder(memory, string, string);
        }
        if (stamped) {
            return Stores.timestampedWindowStoreBuilder(
                    Stores.persistentTimestampedWindowStore(name, kept, size, false), string, string);
        }
        return Stores.windowStoreBuilder(
                Stores.persistentWindowStore(name, kept, size, false), string, string);
    }

    private static StoreBuilder<?> withHeaders(
            JsonNode one, String name, Duration kept, Serde<Object> string, boolean persistent) {
        if (one.get("kind").asText().equals("sessions")) {
            return Stores.sessionStoreWithHeadersBuilder(
                    persistent
                            ? Stores.persistentSessionStoreWithHeaders(name, kept)
                            : Stores.inMemorySessionStore(name, kept),
                    string,
                    string);
        }
        Duration size = Duration.ofMillis(one.get("size").asLong());
        return Stores.timestampedWindowStoreWithHeadersBuilder(
                persistent
                        ? Stores.persistentTimestampedWindowStoreWithHeaders(
                                name, kept, size, false)
                        : Stores.inMemoryWindowStore(name, kept, size, false),
                string,
                string);
    }

    /** As {@code hold}, for a store with headers; null if it is none. */
    @SuppressWarnings("unchecked")
    private static String holdWithHeaders(
            Object store, String key, String held, long timestamp, Headers headers) {
        if (store instanceof SessionStoreWithHeaders<?, ?>) {
            var sessions = (SessionStoreWithHeaders<String, String>) store;
            var old = sessions.fetchSession(key, timestamp, timestamp);
            var session = new Windowed<>(key, new SessionWindow(timestamp, timestamp));
            sessions.put(session, AggregationWithHeaders.makeAllowNullable(held, headers));
            return old == null ? "null" : old.aggregation() + shown(old.headers());
        }
        var made = ValueTimestampHeaders.make(held, timestamp, headers);
        if (store instanceof TimestampedWindowStoreWithHeaders<?, ?>) {
            var windows = (TimestampedWindowStoreWithHeaders<String, String>) store;
            var old = windows.fetch(key, timestamp);
            windows.put(key, made, timestamp);
            return shown(old);
        }
        if (store instanceof TimestampedKeyValueStoreWithHeaders<?, ?>) {
            var values = (TimestampedKeyValueStoreWithHeaders<String, String>) store;
            var old = values.get(key);
            values.put(key, made);
            return shown(old);
        }
        return null;
    }

    private static String shown(ValueTimestampHeaders<String> old) {
        if (old == null) return "null";
        return old.value() + "@" + old.timestamp() + shown(old.headers());
    }

    private static String shown(Headers headers) {
        StringBuilder all = new StringBuilder();
        for (Header header : headers) {
            byte[] value = header.value();
            all.append(" ").append(header.key()).append("=");
            all.append(value == null ? "null" : HexFormat.of().formatHex(value));
        }
        return all.toString();
    }

    /** Put a value, or delete if it is null; tell what was there. */
    @SuppressWarnings("unchecked")
    static String hold(
            Object store, String key, Object value, long timestamp, Headers headers) {
        String held = value == null ? null : Functions.text(value);
        String before = holdWithHeaders(store, key, held, timestamp, headers);
        if (before != null) return before;
        var stamped = ValueAndTimestamp.make(held, timestamp);
        // A timestamped store has the type of a plain one of values with timestamps.
        if (store instanceof SessionStore<?, ?>) {
            var sessions = (SessionStore<String, String>) store;
            String old = sessions.fetchSession(key, timestamp, timestamp);
            sessions.put(new Windowed<>(key, new SessionWindow(timestamp, timestamp)), held);
            return String.valueOf(old);
        }
        if (store instanceof TimestampedWindowStore<?, ?>) {
            var windows = (TimestampedWindowStore<String, String>) store;
            var old = windows.fetch(key, timestamp);
            windows.put(key, stamped, timestamp);
            return shown(old);
        }
        if (store instanceof WindowStore<?, ?>) {
            var windows = (WindowStore<String, String>) store;
            String old = windows.fetch(key, timestamp);
            windows.put(key, held, timestamp);
            return String.valueOf(old);
        }
        if (store instanceof TimestampedKeyValueStore<?, ?>) {
            var values = (TimestampedKeyValueStore<String, String>) store;
            var old = values.get(key);
            values.put(key, stamped);
            return shown(old);
        }
        var values = (KeyValueStore<String, String>) store;
        String old = values.get(key);
        values.put(key, held);
        return String.valueOf(old);
    }

    private static String shown(ValueAndTimestamp<String> old) {
        return old == null ? "null" : old.value() + "@" + old.timestamp();
    }
}
