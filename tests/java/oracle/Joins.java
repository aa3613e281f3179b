import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;

/** The steps that join: a stream with a table, a table with a table. */
final class Joins {
    private Joins() {}

    static KStream<Object, Object> ofStream(
            String op, KStream<Object, Object> stream, KTable<Object, Object> table, JsonNode step) {
        var joined = Options.joined(step);
        boolean left = op.equals("left_join");
        var keyed = Functions.JOINERS_WITH_KEY.get(fn(step));
        if (keyed != null) {
            ValueJoinerWithKey<Object, Object, Object, Object> joiner = keyed::apply;
            if (joined == null) return left ? stream.leftJoin(table, joiner) : stream.join(table, joiner);
            return left
                    ? stream.leftJoin(table, joiner, joined)
                    : stream.join(table, joiner, joined);
        }
        var joiner = joiner(step);
        if (joined == null) return left ? stream.leftJoin(table, joiner) : stream.join(table, joiner);
        return left ? stream.leftJoin(table, joiner, joined) : stream.join(table, joiner, joined);
    }

    static KTable<Object, Object> ofTable(
            String op, KTable<Object, Object> table, KTable<Object, Object> other, JsonNode step) {
        var joiner = joiner(step);
        var named = Options.named(step);
        var stored = Options.<Object>materialized(step);
        if (stored == null && named == null) {
            return switch (op) {
                case "join" -> table.join(other, joiner);
                case "left_join" -> table.leftJoin(other, joiner);
                default -> table.outerJoin(other, joiner);
            };
        }
        if (stored == null) {
            return switch (op) {
                case "join" -> table.join(other, joiner, named);
                case "left_join" -> table.leftJoin(other, joiner, named);
                default -> table.outerJoin(other, joiner, named);
            };
        }
        if (named == null) {
            return switch (op) {
                case "join" -> table.join(other, joiner, stored);
                case "left_join" -> table.leftJoin(other, joiner, stored);
                default -> table.outerJoin(other, joiner, stored);
            };
        }
        return switch (op) {
            case "join" -> table.join(other, joiner, named, stored);
            case "left_join" -> table.leftJoin(other, joiner, named, stored);
            default -> table.outerJoin(other, joiner, named, stored);
        };
    }

    private static ValueJoiner<Object, Object, Object> joiner(JsonNode step) {
        return Functions.find(Functions.JOINERS, "joiner", fn(step))::apply;
    }

    private static String fn(JsonNode step) {
        return step.required("fn").asText();
    }
}
