import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.internals.VersionedKeyValueToBytesStoreAdapter;
import org.apache.kafka.streams.state.internals.WrappedStateStore;

/** What versioned stores tell of each key as of each time that an input record has. */
final class Versions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private Versions() {}

    static ObjectNode contents(TopologyTestDriver driver, JsonNode inputs)
            throws ReflectiveOperationException {
        Set<Long> times = new TreeSet<>(Set.of(Long.MAX_VALUE));
        for (JsonNode input : inputs) {
            if (!input.has("timestamp")) continue;
            times.add(input.get("timestamp").asLong());
            times.add(input.get("timestamp").asLong() + 1);
        }
        ObjectNode all = JSON.createObjectNode();
        for (Map.Entry<String, StateStore> entry : driver.getAllStateStores().entrySet()) {
            StateStore store = entry.getValue();
            while (store instanceof WrappedStateStore<?, ?, ?> wrapper) store = wrapper.wrapped();
            if (store instanceof VersionedKeyValueToBytesStoreAdapter) {
                all.set(entry.getKey(), contents(store, times));
            }
        }
        return all;
    }

    /** A row where the answer is another one than as of the time before. */
    private static ArrayNode contents(StateStore adapter, Set<Long> times)
            throws ReflectiveOperationException {
        VersionedKeyValueStore<Bytes, byte[]> store =
                Oracle.field(adapter, adapter.getClass(), "inner");
        ArrayNode shown = JSON.createArrayNode();
        for (Bytes key : keys(store)) {
            VersionedRecord<byte[]> before = null;
            for (long time : times) {
                VersionedRecord<byte[]> found = store.get(key, time);
                if (!isSame(before, found)) {
                    ArrayNode row = shown.addArray().add(HEX.formatHex(key.get())).add(time);
                    if (found == null) row.addNull().addNull();
                    else row.add(HEX.formatHex(found.value())).add(found.timestamp());
                }
                before = found;
            }
        }
        return shown;
    }

    private static Set<Bytes> keys(Object store) throws ReflectiveOperationException {
        Set<Bytes> keys = new TreeSet<>(Comparator.comparing(Bytes::get, Arrays::compareUnsigned));
        addKeys(Oracle.field(store, store.getClass(), "latestValueStore"), keys);
        Object segments = Oracle.field(store, store.getClass(), "segmentStores");
        Map<Long, Object> each =
                Oracle.field(segments, segments.getClass().getSuperclass(), "segments");
        for (Object segment : each.values()) addKeys(segment, keys);
        return keys;
    }

    @SuppressWarnings("unchecked")
    private static void addKeys(Object segment, Set<Bytes> keys) {
        try (var all = ((KeyValueStore<Bytes, byte[]>) segment).all()) {
            all.forEachRemaining(row -> keys.add(row.key));
        }
    }

    private static boolean isSame(VersionedRecord<byte[]> one, VersionedRecord<byte[]> other) {
        if (one == null || other == null) return one == other;
        return one.timestamp() == other.timestamp() && Arrays.equals(one.value(), other.value());
    }
}
