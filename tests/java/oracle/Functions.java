import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.BinaryOperator;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.processor.TopicNameExtractor;

/** The catalogue of user functions, as FORMAT.md defines them; its twin is tests/oracle/functions.py. */
final class Functions {
    private static final int CONCAT_CHARACTERS = 16;
    private static final int APPEND_CHARACTERS = 24;
    private static final int JOIN_CHARACTERS = 24;

    /** A function of three values. */
    interface Three {
        Object apply(Object k, Object a, Object b);
    }

    private Functions() {}

    static String text(Object x) {
        if (x == null) return "null";
        if (x instanceof Double d) return Long.toString(d.longValue());
        if (x instanceof byte[] bytes) return HexFormat.of().formatHex(bytes);
        if (x instanceof Windowed<?> windowed) {
            Window window = windowed.window();
            return "[" + text(windowed.key()) + "@" + window.start() + "/" + window.end() + "]";
        }
        return x.toString();
    }

    private static String orNull(Object x) {
        return x == null ? null : text(x);
    }

    private static boolean isEvenLength(Object x) {
        return text(x).length() % 2 == 0;
    }

    private static boolean keyBeforeM(Object k) {
        return k != null && text(k).compareTo("m") < 0;
    }

    private static String firstLetter(Object v) {
        return v == null ? null : text(v).substring(0, Math.min(1, text(v).length()));
    }

    private static Long length(Object v) {
        return v == null ? null : (long) text(v).length();
    }

    private static List<Object> words(Object v) {
        List<Object> words = new ArrayList<>();
        if (v != null) for (String word : text(v).split(" ")) if (!word.isEmpty()) words.add(word);
        return words;
    }

    private static String last(String s, int characters) {
        return s.substring(Math.max(0, s.length() - characters));
    }

    private static String reverse(Object v) {
        return v == null ? null : new StringBuilder(text(v)).reverse().toString();
    }

    private static KeyValue<Object, Object> pair(Object k, Object v) {
        return KeyValue.pair(k, v);
    }

    private static List<Object> twoOf(Object v) {
        List<Object> both = new ArrayList<>();
        both.add(v);
        both.add(v);
        return both;
    }

    private static long count(Object aggregate) {
        return aggregate == null ? 0L : (Long) aggregate;
    }

    private static String string(Object aggregate) {
        return aggregate == null ? "" : (String) aggregate;
    }

    private static Object arithmetic(Object a, Object b, int sign) {
        if (a instanceof Integer i) return i + sign * ((Number) b).intValue();
        return ((Number) a).longValue() + sign * ((Number) b).longValue();
    }

    @SuppressWarnings("unchecked")
    private static int compare(Object a, Object b) {
        return ((Comparable<Object>) a).compareTo(b);
    }

    private static String remove(Object aggregate, Object v) {
        String from = string(aggregate);
        int at = from.indexOf(text(v));
        return at < 0 ? from : from.substring(0, at) + from.substring(at + text(v).length());
    }

    static final Map<String, Predicate<Object, Object>> PREDICATES =
            Map.of(
                    "always", (k, v) -> true,
                    "never", (k, v) -> false,
                    "key_not_null", (k, v) -> k != null,
                    "value_not_null", (k, v) -> v != null,
                    "even_length", (k, v) -> isEvenLength(v),
                    "key_before_m", (k, v) -> keyBeforeM(k),
                    "is_odd",
                            (k, v) ->
                                    (v instanceof Integer || v instanceof Long)
                                            && ((Number) v).longValue() % 2 != 0);

    static final Map<String, Function<Object, Object>> VALUE_MAPPERS =
            Map.of(
                    "identity", v -> v,
                    "upper", v -> v == null ? null : text(v).toUpperCase(java.util.Locale.ROOT),
                    "reverse", Functions::reverse,
                    "to_text", Functions::orNull,
                    "length", Functions::length,
                    "null_if_even_length", v -> isEvenLength(v) ? null : v);

    static final Map<String, BiFunction<Object, Object, Object>> VALUE_MAPPERS_WITH_KEY =
            Map.of(
                    "with_key", (k, v) -> text(k) + ":" + text(v),
                    "null_unless_key_before_m", (k, v) -> keyBeforeM(k) ? v : null);

    static final Map<String, Supplier<ValueTransformerWithKey<Object, Object, Object>>>
            TRANSFORMERS =
                    Map.of(
                            "nth", Nth::new,
                            "with_key", () -> new Behind(VALUE_MAPPERS_WITH_KEY.get("with_key")),
                            "null_unless_key_before_m",
                                    () ->
                                            new Behind(
                                                    VALUE_MAPPERS_WITH_KEY.get(
                                                            "null_unless_key_before_m")));

    static final Map<String, BiFunction<Object, Object, Object>> KEY_MAPPERS =
            Map.of(
                    "same_key", (k, v) -> k,
                    "value_as_key", (k, v) -> orNull(v),
                    "first_letter", (k, v) -> firstLetter(v),
                    "length_key", (k, v) -> length(v),
                    "key_text", (k, v) -> orNull(k));

    static final Map<String, BiFunction<Object, Object, KeyValue<Object, Object>>> PAIR_MAPPERS =
            Map.of(
                    "identity_pair", (k, v) -> pair(k, v),
                    "swap", (k, v) -> pair(orNull(v), orNull(k)),
                    "first_letter_pair", (k, v) -> pair(firstLetter(v), v),
                    "length_pair", (k, v) -> pair(length(v), orNull(v)));

    static final Map<String, BiFunction<Object, Object, List<KeyValue<Object, Object>>>>
            FLAT_PAIR_MAPPERS =
                    Map.of(
                            "word_pairs",
                            (k, v) -> words(v).stream().map(w -> pair(w, length(w))).toList(),
                            "twice",
                            (k, v) -> List.of(pair(k, v), pair(k, v)),
                            "none",
                            (k, v) -> List.of(),
                            "pair_if_odd_length",
                            (k, v) -> isEvenLength(v) ? List.of() : List.of(pair(k, v)));

    static final Map<String, Function<Object, List<Object>>> FLAT_VALUE_MAPPERS =
            Map.of(
                    "words", Functions::words,
                    "twice_values", Functions::twoOf,
                    "no_values", v -> List.of());

    static final Map<String, BiFunction<Object, Object, List<Object>>> FLAT_VALUE_MAPPERS_WITH_KEY =
            Map.of("key_and_value", (k, v) -> List.of(text(k), text(v)));

    private static String both(Object a, Object b) {
        return last(text(a) + "+" + text(b), JOIN_CHARACTERS);
    }

    private static long totalLength(Object a, Object b) {
        return (long) text(a).length() + text(b).length();
    }

    static final Map<String, BinaryOperator<Object>> JOINERS =
            Map.of(
                    "both", (a, b) -> both(a, b),
                    "left_value", (a, b) -> a,
                    "right_value", (a, b) -> b,
                    "total_length", (a, b) -> totalLength(a, b),
                    "null_if_even_together",
                            (a, b) -> totalLength(a, b) % 2 == 0 ? null : both(a, b));

    static final Map<String, Three> JOINERS_WITH_KEY =
            Map.of("both_with_key", (k, a, b) -> text(k) + "=" + both(a, b));

    static final Map<String, BinaryOperator<Object>> REDUCERS =
            Map.of(
                    "concat", (a, b) -> last(text(a) + text(b), CONCAT_CHARACTERS),
                    "add", (a, b) -> arithmetic(a, b, 1),
                    "subtract", (a, b) -> arithmetic(a, b, -1),
                    "first", (a, b) -> a,
                    "last", (a, b) -> b,
                    "longer", (a, b) -> text(b).length() > text(a).length() ? b : a,
                    "forget_equal", (a, b) -> text(a).equals(text(b)) ? null : b,
                    "smallest", (a, b) -> compare(a, b) <= 0 ? a : b,
                    "largest", (a, b) -> compare(a, b) >= 0 ? a : b);

    static final Map<String, Supplier<Object>> INITIALIZERS =
            Map.of("zero", () -> 0L, "empty", () -> "", "nothing", () -> null);

    static final Map<String, Merger<Object, Object>> MERGERS =
            Map.of(
                    "sum", (k, a, b) -> count(a) + count(b),
                    "join_text", (k, a, b) -> last(string(a) + string(b), APPEND_CHARACTERS),
                    "join_with_key",
                            (k, a, b) ->
                                    last(string(a) + text(k) + string(b), APPEND_CHARACTERS));

    static final Map<String, Aggregator<Object, Object, Object>> AGGREGATORS =
            Map.of(
                    "add_length", (k, v, agg) -> count(agg) + text(v).length(),
                    "subtract_length", (k, v, agg) -> count(agg) - text(v).length(),
                    "append", (k, v, agg) -> last(string(agg) + text(v), APPEND_CHARACTERS),
                    "remove", (k, v, agg) -> remove(agg, v),
                    "count_or_forget", (k, v, agg) -> isEvenLength(v) ? null : count(agg) + 1,
                    "with_key_text",
                            (k, v, agg) ->
                                    last(string(agg) + text(k) + text(v), APPEND_CHARACTERS));

    /** A transformer that keeps nothing and asks nothing of its context. */
    private abstract static class Transformer
            implements ValueTransformerWithKey<Object, Object, Object> {
        @Override
        public void init(ProcessorContext context) {}

        @Override
        public void close() {}
    }

    /** The transformer "nth": tells how often it has been called. */
    private static final class Nth extends Transformer {
        private int calls = 0;

        @Override
        public Object transform(Object k, Object v) {
            calls += 1;
            return v == null ? null : text(v) + "#" + calls;
        }
    }

    /** A transformer that returns what a mapper with a key returns. */
    private static final class Behind extends Transformer {
        private final BiFunction<Object, Object, Object> mapper;

        Behind(BiFunction<Object, Object, Object> mapper) {
            this.mapper = mapper;
        }

        @Override
        public Object transform(Object k, Object v) {
            return mapper.apply(k, v);
        }
    }

    /** A transformer with a store: what it made of the key's value before, and now. */
    static final class Before extends Transformer {
        private final ValueTransformerWithKey<Object, Object, Object> inner;
        private final String name;
        private KeyValueStore<String, String> store;

        Before(ValueTransformerWithKey<Object, Object, Object> inner, String name) {
            this.inner = inner;
            this.name = name;
        }

        @Override
        public void init(ProcessorContext context) {
            store = context.getStateStore(name);
        }

        @Override
        public Object transform(Object k, Object v) {
            Object made = inner.transform(k, v);
            String told = (text(store.get(text(k))) + "|" + text(made));
            store.put(text(k), made == null ? null : text(made));
            return made == null ? null : told;
        }
    }

    /** The topic extractor "even_odd". */
    static String topicOf(Object v) {
        return isEvenLength(v) ? "out-even" : "out-odd";
    }

    /** The topic extractor of that name; "place" tells where the record was read. */
    static TopicNameExtractor<Object, Object> topics(String name) {
        return switch (name) {
            case "even_odd" -> (k, v, context) -> topicOf(v);
            case "place" -> (k, v, context) ->
                    "out-" + context.topic() + "-" + context.partition() + "-" + context.offset();
            default -> throw new Oracle.BadRequest("no topic extractor named " + name);
        };
    }

    /** Look a name up, with a message that tells a misspelling from a bug. */
    static <F> F find(Map<String, F> catalogue, String kind, String name) {
        F found = catalogue.get(name);
        if (found == null) throw new Oracle.BadRequest("no " + kind + " named " + name);
        return found;
    }

    static byte[] utf8(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }
}
