import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Instant;
import java.util.Iterator;
import java.util.Optional;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.TimestampedKeyQuery;
import org.apache.kafka.streams.query.TimestampedRangeQuery;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedRecord;

/** What stores answer to interactive queries (IQv2), as text. */
final class Queries {
    private Queries() {}

    static ArrayNode answers(TopologyTestDriver driver, JsonNode queries) {
        ArrayNode answers = new ObjectMapper().createArrayNode();
        for (JsonNode query : queries) {
            ObjectNode shown = answers.addObject();
            StateStore store = driver.getAllStateStores().get(query.required("store").asText());
            try {
                QueryResult<?> result =
                        store.query(query(query), PositionBound.unbounded(), new QueryConfig(false));
                if (result.isFailure()) shown.put("failure", result.getFailureReason().name());
                else show(shown.putArray("found"), result.getResult());
            } catch (UnsupportedOperationException error) {
                shown.put("raises", error.getClass().getSimpleName());
            }
        }
        return answers;
    }

    private static Query<?> query(JsonNode query) {
        String key = query.path("key").isTextual() ? query.get("key").asText() : null;
        Optional<String> low = text(query, "low");
        Optional<String> high = text(query, "high");
        Instant from = Instant.ofEpochMilli(query.path("from").asLong(0));
        Instant to = Instant.ofEpochMilli(query.path("to").asLong(0));
        boolean isDescending = query.path("descending").asBoolean(false);
        switch (query.required("query").asText()) {
            case "key":
                return KeyQuery.withKey(key);
            case "timestamped_key":
                return TimestampedKeyQuery.withKey(key);
            case "range":
                RangeQuery<String, Object> range = range(low, high);
                return isDescending ? range.withDescendingKeys() : range;
            case "timestamped_range":
                TimestampedRangeQuery<String, Object> timed =
                        TimestampedRangeQuery.withRange(low.orElse(null), high.orElse(null));
                return isDescending ? timed.withDescendingKeys() : timed;
            case "window_key":
                return WindowKeyQuery.withKeyAndWindowStartRange(key, from, to);
            case "window_range":
                return WindowRangeQuery.withWindowStartRange(from, to);
            case "sessions":
                return WindowRangeQuery.withKey(key);
            case "version":
                VersionedKeyQuery<String, Object> version = VersionedKeyQuery.withKey(key);
                return query.has("as_of")
                        ? version.asOf(Instant.ofEpochMilli(query.get("as_of").asLong()))
                        : version;
            case "versions":
                MultiVersionedKeyQuery<String, Object> versions =
                        MultiVersionedKeyQuery.withKey(key);
                if (query.has("from")) versions = versions.fromTime(from);
                if (query.has("to")) versions = versions.toTime(to);
                return isDescending ? versions.withDescendingTimestamps() : versions.withAscendingTimestamps();
            default:
                throw new Oracle.BadRequest("unknown query " + query);
        }
    }

    private static RangeQuery<String, Object> range(Optional<String> low, Optional<String> high) {
        return RangeQuery.withRange(low.orElse(null), high.orElse(null));
    }

    private static Optional<String> text(JsonNode query, String name) {
        return query.path(name).isTextual() ? Optional.of(query.get(name).asText()) : Optional.empty();
    }

    private static void show(ArrayNode found, Object result) {
        if (!(result instanceof Iterator<?> rows)) {
            found.add(shown(result));
            return;
        }
        while (rows.hasNext()) found.add(shown(rows.next()));
    }

    private static String shown(Object value) {
        if (value instanceof KeyValue<?, ?> row) return shown(row.key) + "=" + shown(row.value);
        if (value instanceof ValueAndTimestamp<?> stamped) {
            return shown(stamped.value()) + "@" + stamped.timestamp();
        }
        if (value instanceof VersionedRecord<?> version) {
            String until = version.validTo().map(String::valueOf).orElse("");
            return shown(version.value()) + "@" + version.timestamp() + ".." + until;
        }
        if (value instanceof Windowed<?> windowed) {
            return shown(windowed.key())
                    + "[" + windowed.window().start() + "," + windowed.window().end() + "]";
        }
        return String.valueOf(value);
    }
}
