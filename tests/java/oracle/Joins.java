import com.fasterxml.jackson.databind.JsonNode;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.state.KeyValueStore;

/** The steps that join: a stream with a table, a table with a table, by key or by foreign key. */
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
        if (step.has("foreign_key")) return ofForeignKey(op, table, other, step);
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

    private static KTable<Object, Object> ofForeignKey(
            String op, KTable<Object, Object> table, KTable<Object, Object> other, JsonNode step) {
        var joiner = joiner(step);
        String name = step.get("foreign_key").asText();
        Function<Object, Object> plain = null;
        BiFunction<Object, Object, Object> keyed = null;
        if (Functions.VALUE_MAPPERS.containsKey(name)) plain = Functions.VALUE_MAPPERS.get(name)::apply;
        else keyed = Functions.find(Functions.KEY_MAPPERS, "foreign key", name)::apply;
        boolean left = op.equals("left_join");
        TableJoined<Object, Object> joined = tableJoined(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> stored = Options.materialized(step);
        if (joined == null && stored == null) {
            if (plain == null) {
                return left ? table.leftJoin(other, keyed, joiner) : table.join(other, keyed, joiner);
            }
            return left ? table.leftJoin(other, plain, joiner) : table.join(other, plain, joiner);
        }
        if (stored == null) {
            if (plain == null) {
                return left
                        ? table.leftJoin(other, keyed, joiner, joined)
                        : table.join(other, keyed, joiner, joined);
            }
            return left
                    ? table.leftJoin(other, plain, joiner, joined)
                    : table.join(other, plain, joiner, joined);
        }
        if (joined == null) {
            if (plain == null) {
                return left
                        ? table.leftJoin(other, keyed, joiner, stored)
                        : table.join(other, keyed, joiner, stored);
            }
            return left
                    ? table.leftJoin(other, plain, joiner, stored)
                    : table.join(other, plain, joiner, stored);
        }
        if (plain == null) {
            return left
                    ? table.leftJoin(other, keyed, joiner, joined, stored)
                    : table.join(other, keyed, joiner, joined, stored);
        }
        return left
                ? table.leftJoin(other, plain, joiner, joined, stored)
                : table.join(other, plain, joiner, joined, stored);
    }

    private static TableJoined<Object, Object> tableJoined(JsonNode step) {
        JsonNode options = step.get("table_joined");
        if (options == null) return null;
        TableJoined<Object, Object> joined = TableJoined.with(null, null);
        if (options.path("partitioner").asBoolean()) joined = joined.withPartitioner(last());
        if (options.path("other_partitioner").asBoolean()) {
            joined = joined.withOtherPartitioner(last());
        }
        return options.has("name") ? joined.withName(options.get("name").asText()) : joined;
    }

    private static StreamPartitioner<Object, Void> last() {
        return (topic, key, value, partitions) -> Optional.of(Set.of(partitions - 1));
    }

    private static ValueJoiner<Object, Object, Object> joiner(JsonNode step) {
        return Functions.find(Functions.JOINERS, "joiner", fn(step))::apply;
    }

    private static String fn(JsonNode step) {
        return step.required("fn").asText();
    }
}
