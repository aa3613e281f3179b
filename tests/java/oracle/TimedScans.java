import java.time.Instant;
import java.util.function.Function;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;

/** What every read of a store of windows or of sessions finds. */
final class TimedScans {
    private TimedScans() {}

    static String windows(
            ProcessingContext context, String name, String key, String value, long timestamp) {
        long start = timestamp / 10 * 10;
        if (context.getStateStore(name) instanceof TimestampedWindowStore<?, ?>) {
            TimestampedWindowStore<String, String> stamped = context.getStateStore(name);
            stamped.put(key, ValueAndTimestamp.make(value, timestamp), start);
            return found(stamped, key, start, v -> v == null ? "null" : v.value() + "@" + v.timestamp());
        }
        WindowStore<String, String> plain = context.getStateStore(name);
        plain.put(key, value, start);
        return found(plain, key, start, String::valueOf);
    }

    private static <V> String found(
            WindowStore<String, V> store, String key, long start, Function<V, String> shown) {
        Instant from = Instant.ofEpochMilli(Math.max(0, start - 30));
        Instant to = Instant.ofEpochMilli(start + 10);
        StringBuilder told = new StringBuilder(shown.apply(store.fetch(key, start)));
        all(told, store.fetch(key, from, to), String::valueOf, shown);
        all(told, store.backwardFetch(key, from, to), String::valueOf, shown);
        all(told, store.fetch("a", key, from, to), TimedScans::window, shown);
        all(told, store.backwardFetch("a", key, from, to), TimedScans::window, shown);
        all(told, store.fetchAll(from, to), TimedScans::window, shown);
        all(told, store.backwardFetchAll(from, to), TimedScans::window, shown);
        all(told, store.all(), TimedScans::window, shown);
        all(told, store.backwardAll(), TimedScans::window, shown);
        return told.toString();
    }

    static String sessions(
            ProcessingContext context, String name, String key, String value, long timestamp) {
        SessionStore<String, String> store = context.getStateStore(name);
        long start = timestamp - timestamp % 7;
        Windowed<String> session = new Windowed<>(key, new SessionWindow(start, timestamp));
        if (value == null) store.remove(session);
        else store.put(session, value);
        long from = Math.max(0, timestamp - 20);
        long to = timestamp + 5;
        // Over a record cache a backward read misses what ends after the latest start.
        long late = 1_000_000;
        StringBuilder told =
                new StringBuilder(String.valueOf(store.fetchSession(key, start, timestamp)));
        Function<String, String> shown = String::valueOf;
        all(told, store.fetch(key), TimedScans::window, shown);
        all(told, store.backwardFetch(key), TimedScans::window, shown);
        all(told, store.fetch("a", key), TimedScans::window, shown);
        all(told, store.backwardFetch("a", key), TimedScans::window, shown);
        all(told, store.findSessions(key, from, to), TimedScans::window, shown);
        all(told, store.backwardFindSessions(key, from, late), TimedScans::window, shown);
        all(told, store.findSessions("a", key, from, to), TimedScans::window, shown);
        all(told, store.backwardFindSessions("a", key, from, late), TimedScans::window, shown);
        return told.toString();
    }

    private static String window(Windowed<String> found) {
        return found.key() + found.window().start();
    }

    private static <K, V> void all(
            StringBuilder told,
            KeyValueIterator<K, V> rows,
            Function<K, String> key,
            Function<V, String> value) {
        told.append(" |");
        try (rows) {
            rows.forEachRemaining(
                    row ->
                            told.append(" ")
                                    .append(key.apply(row.key))
                                    .append(value.apply(row.value)));
        }
    }
}
