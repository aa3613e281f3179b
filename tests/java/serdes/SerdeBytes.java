import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;

/**
 * Answers what Kafka's serdes make of a value or of bytes: one JSON object in a line, one back.
 *
 * <p>A request has "serde" and either "value" or "bytes" (hexadecimal); the answer "bytes", "value",
 * or "error" with the exception's class. A serde is a name, {"string": encoding}, {"list": serde},
 * {"time_windowed": serde, "size": ms} or {"session_windowed": serde}.
 */
public final class SerdeBytes {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final String TOPIC = "t";

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            answers.flush();
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static ObjectNode answer(JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        JsonNode name = request.get("serde");
        try {
            Serde serde = serde(name);
            if (request.has("value")) {
                byte[] data = serde.serializer().serialize(TOPIC, value(name, request.get("value")));
                answer.put("bytes", data == null ? null : HEX.formatHex(data));
            } else {
                JsonNode given = request.get("bytes");
                byte[] data = given.isNull() ? null : HEX.parseHex(given.textValue());
                answer.set("value", shown(name, serde.deserializer().deserialize(TOPIC, data)));
            }
        } catch (Exception error) {
            answer.put("error", error.getClass().getName());
        }
        return answer;
    }

    private static String kind(JsonNode name) {
        return name.isTextual() ? name.textValue() : name.fieldNames().next();
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Serde<?> serde(JsonNode name) {
        return switch (kind(name)) {
            case "bytes" -> Serdes.ByteArray();
            case "wrapped" -> Serdes.Bytes();
            case "buffer" -> Serdes.ByteBuffer();
            case "short" -> Serdes.Short();
            case "integer" -> Serdes.Integer();
            case "long" -> Serdes.Long();
            case "float" -> Serdes.Float();
            case "double" -> Serdes.Double();
            case "boolean" -> Serdes.Boolean();
            case "uuid" -> Serdes.UUID();
            case "void" -> Serdes.Void();
            case "string" -> {
                Serde<String> serde = Serdes.String();
                if (name.isObject()) {
                    serde.configure(
                            Map.of(
                                    "serializer.encoding", name.get("string").textValue(),
                                    "deserializer.encoding", name.get("string").textValue()),
                            false);
                }
                yield serde;
            }
            case "list" -> Serdes.ListSerde(ArrayList.class, (Serde) serde(name.get("list")));
            case "time_windowed" -> {
                Serde<?> inner = serde(name.get("time_windowed"));
                yield Serdes.serdeFrom(
                        new TimeWindowedSerializer(inner.serializer()),
                        new TimeWindowedDeserializer(inner.deserializer(), name.get("size").longValue()));
            }
            case "session_windowed" -> {
                Serde<?> inner = serde(name.get("session_windowed"));
                yield Serdes.serdeFrom(
                        new SessionWindowedSerializer(inner.serializer()),
                        new SessionWindowedDeserializer(inner.deserializer()));
            }
            default -> throw new IllegalArgumentException("no serde " + name);
        };
    }

    private static Object value(JsonNode name, JsonNode node) {
        if (node.isNull()) {
            return null;
        }
        return switch (kind(name)) {
            case "bytes" -> HEX.parseHex(node.textValue());
            case "wrapped" -> Bytes.wrap(HEX.parseHex(node.textValue()));
            case "buffer" -> ByteBuffer.wrap(HEX.parseHex(node.textValue()));
            case "short" -> node.shortValue();
            case "integer" -> node.intValue();
            case "long" -> node.longValue();
            case "float" -> Float.valueOf(node.textValue());
            case "double" -> Double.valueOf(node.textValue());
            case "boolean" -> node.booleanValue();
            case "uuid" -> UUID.fromString(node.textValue());
            case "list" -> {
                List<Object> entries = new ArrayList<>();
                node.forEach(entry -> entries.add(value(name.get("list"), entry)));
                yield entries;
            }
            case "time_windowed" -> new Windowed<>(
                    value(name.get("time_windowed"), node.get("key")),
                    new TimeWindow(node.get("start").longValue(), node.get("end").longValue()));
            case "session_windowed" -> new Windowed<>(
                    value(name.get("session_windowed"), node.get("key")),
                    new SessionWindow(node.get("start").longValue(), node.get("end").longValue()));
            default -> node.textValue();
        };
    }

    private static JsonNode shown(JsonNode name, Object value) {
        if (value == null) {
            return NODES.nullNode();
        }
        if (value instanceof byte[] data) {
            return NODES.textNode(HEX.formatHex(data));
        }
        if (value instanceof Bytes data) {
            return NODES.textNode(HEX.formatHex(data.get()));
        }
        if (value instanceof ByteBuffer data) {
            return NODES.textNode(HEX.formatHex(data.array()));
        }
        if (value instanceof List<?> entries) {
            ArrayNode found = NODES.arrayNode();
            entries.forEach(entry -> found.add(shown(name.get("list"), entry)));
            return found;
        }
        if (value instanceof Windowed<?> windowed) {
            Window window = windowed.window();
            ObjectNode found = NODES.objectNode();
            found.set("key", shown(name.get(kind(name)), windowed.key()));
            return found.put("start", window.start()).put("end", window.end());
        }
        if (value instanceof Boolean flag) {
            return NODES.booleanNode(flag);
        }
        if (value instanceof Short || value instanceof Integer || value instanceof Long) {
            return NODES.numberNode(((Number) value).longValue());
        }
        if (value instanceof Float number) {
            return NODES.textNode(Double.toString(number.doubleValue()));
        }
        return NODES.textNode(value.toString());
    }
}
