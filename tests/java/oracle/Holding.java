import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
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

    /** Put a value, or delete if it is null; tell what was there. */
    @SuppressWarnings("unchecked")
    static String hold(Object store, String key, Object value, long timestamp) {
        String held = value == null ? null : Functions.text(value);
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
