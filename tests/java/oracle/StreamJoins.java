import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/** The steps that join two streams within windows. */
final class StreamJoins {
    private StreamJoins() {}

    static KStream<Object, Object> join(
            String op, KStream<Object, Object> stream, KStream<Object, Object> other, JsonNode step) {
        String name = step.required("fn").asText();
        var windows = windows(step.get("windows"));
        var joined = joined(step);
        var keyed = Functions.JOINERS_WITH_KEY.get(name);
        if (keyed != null) return join(op, stream, other, keyed::apply, windows, joined);
        var plain = Functions.find(Functions.JOINERS, "joiner", name);
        return join(op, stream, other, (key, a, b) -> plain.apply(a, b), windows, joined);
    }

    private static KStream<Object, Object> join(
            String op,
            KStream<Object, Object> stream,
            KStream<Object, Object> other,
            ValueJoinerWithKey<Object, Object, Object, Object> joiner,
            JoinWindows windows,
            StreamJoined<Object, Object, Object> joined) {
        if (joined == null) {
            return switch (op) {
                case "join" -> stream.join(other, joiner, windows);
                case "left_join" -> stream.leftJoin(other, joiner, windows);
                default -> stream.outerJoin(other, joiner, windows);
            };
        }
        return switch (op) {
            case "join" -> stream.join(other, joiner, windows, joined);
            case "left_join" -> stream.leftJoin(other, joiner, windows, joined);
            default -> stream.outerJoin(other, joiner, windows, joined);
        };
    }

    private static JoinWindows windows(JsonNode options) {
        Duration grace = Duration.ofMillis(options.get("grace").asLong());
        return JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(0), grace)
                .before(Duration.ofMillis(Math.max(0, options.get("before").asLong())))
                .after(Duration.ofMillis(options.get("after").asLong()))
                .before(Duration.ofMillis(options.get("before").asLong()));
    }

    private static StreamJoined<Object, Object, Object> joined(JsonNode step) {
        JsonNode options = step.get("stream_joined");
        if (options == null) return null;
        StreamJoined<Object, Object, Object> joined =
                StreamJoined.with(
                        Options.serde(options, "key"),
                        Options.serde(options, "value"),
                        Options.serde(options, "other"));
        if (options.has("name")) joined = joined.withName(options.get("name").asText());
        if (options.has("store")) joined = joined.withStoreName(options.get("store").asText());
        if (!options.path("persistent").asBoolean(true)) {
            joined = joined.withDslStoreSuppliers(BuiltInDslStoreSuppliers.IN_MEMORY);
        }
        if (!options.path("logging").asBoolean(true)) return joined.withLoggingDisabled();
        if (!options.has("topic_config")) return joined;
        Map<String, String> config = new HashMap<>();
        options.get("topic_config")
                .properties()
                .forEach(e -> config.put(e.getKey(), e.getValue().asText()));
        return joined.withLoggingEnabled(config);
    }
}
