import com.fasterxml.jackson.databind.JsonNode;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.ForeachAction;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;

/** Turns the steps of a request into calls of the DSL: one method per operation. */
final class Steps {
    private final StreamsBuilder builder;
    private final Map<String, Object> results = new HashMap<>();
    private final Map<String, StoreBuilder<?>> known = new HashMap<>();
    private final Consumer<List<String>> seen;

    /** Steps drawn on {@code builder}, whose peek, for_each and print report to {@code seen}. */
    Steps(StreamsBuilder builder, Consumer<List<String>> seen) {
        this.builder = builder;
        this.seen = seen;
    }

    StreamsBuilder build(JsonNode steps) {
        for (JsonNode step : steps) {
            Object result = apply(step);
            if (result != null) results.put(step.required("id").asText(), result);
        }
        return builder;
    }

    private Object apply(JsonNode step) {
        String op = step.required("op").asText();
        if (op.equals("stream")) return stream(step);
        if (op.equals("table")) return table(step);
        if (op.equals("global_table")) return Globals.table(builder, step);
        if (Globals.isAdded(step)) return null;
        if (op.equals("global_store")) return Globals.store(builder, step);
        Object on = result(step.required("on").asText());
        if (on instanceof KTable<?, ?> table) return onTable(op, cast(table), step);
        if (on instanceof KGroupedTable<?, ?> grouped) return onGroupedTable(op, cast(grouped), step);
        if (on instanceof KGroupedStream<?, ?> grouped) {
            return onGroupedStream(op, cast(grouped), step);
        }
        if (on instanceof CogroupedKStream<?, ?> cogrouped) {
            KGroupedStream<Object, Object> other =
                    step.has("with") ? cast(result(step.get("with").asText())) : null;
            return Cogroups.onCogroup(op, cast(cogrouped), other, step);
        }
        if (on instanceof TimeWindowedCogroupedKStream<?, ?> windowed) {
            return Cogroups.onWindows(cast(windowed), step);
        }
        if (on instanceof SessionWindowedCogroupedKStream<?, ?> windowed) {
            return Cogroups.onSessions(cast(windowed), step);
        }
        if (on instanceof TimeWindowedKStream<?, ?> windowed) {
            return WindowedSteps.onWindows(op, cast(windowed), step);
        }
        if (on instanceof SessionWindowedKStream<?, ?> windowed) {
            return WindowedSteps.onSessions(op, cast(windowed), step);
        }
        return onStream(op, cast(on), step);
    }

    private Object result(String id) {
        Object found = results.get(id);
        if (found == null) throw new Oracle.BadRequest("no earlier step gives " + id);
        return found;
    }

    // -- sources -----------------------------------------------------------------------------

    private KStream<Object, Object> stream(JsonNode step) {
        Consumed<Object, Object> consumed = Options.consumed(step);
        if (step.has("pattern")) {
            Pattern pattern = Pattern.compile(step.get("pattern").asText());
            return consumed == null ? builder.stream(pattern) : builder.stream(pattern, consumed);
        }
        List<String> topics = new ArrayList<>();
        for (JsonNode topic : step.required("topics")) topics.add(topic.asText());
        return consumed == null ? builder.stream(topics) : builder.stream(topics, consumed);
    }

    private KTable<Object, Object> table(JsonNode step) {
        String topic = step.required("topic").asText();
        Consumed<Object, Object> consumed = Options.consumed(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> stored = Options.materialized(step);
        if (consumed == null && stored == null) return builder.table(topic);
        if (stored == null) return builder.table(topic, consumed);
        return consumed == null
                ? builder.table(topic, stored)
                : builder.table(topic, consumed, stored);
    }

    // -- operations --------------------------------------------------------------------------

    private Object onStream(String op, KStream<Object, Object> stream, JsonNode step) {
        Named named = Options.named(step);
        switch (op) {
            case "filter": {
                var fn = predicate(step);
                return named == null ? stream.filter(fn) : stream.filter(fn, named);
            }
            case "filter_not": {
                var fn = predicate(step);
                return named == null ? stream.filterNot(fn) : stream.filterNot(fn, named);
            }
            case "map_values": return mapValues(stream, step, named);
            case "flat_map_values": return flatMapValues(stream, step, named);
            case "map": {
                var fn = Functions.find(Functions.PAIR_MAPPERS, "pair mapper", fn(step));
                return named == null ? stream.map(fn::apply) : stream.map(fn::apply, named);
            }
            case "flat_map": {
                var fn = Functions.find(Functions.FLAT_PAIR_MAPPERS, "flat pair mapper", fn(step));
                return named == null ? stream.flatMap(fn::apply) : stream.flatMap(fn::apply, named);
            }
            case "select_key": {
                var fn = keyMapper(step);
                return named == null
                        ? stream.<Object>selectKey(fn::apply)
                        : stream.<Object>selectKey(fn::apply, named);
            }
            case "peek": {
                var action = see(step);
                return named == null ? stream.peek(action) : stream.peek(action, named);
            }
            case "for_each": {
                var action = see(step);
                if (named == null) stream.foreach(action);
                else stream.foreach(action, named);
                return null;
            }
            case "print": return print(stream, step);
            case "merge": {
                KStream<Object, Object> other = cast(result(step.required("with").asText()));
                return named == null ? stream.merge(other) : stream.merge(other, named);
            }
            case "join", "left_join", "outer_join": {
                Object with = result(step.required("with").asText());
                if (with instanceof KStream<?, ?> other) {
                    return StreamJoins.join(op, stream, cast(other), step);
                }
                return with instanceof GlobalKTable<?, ?> table
                        ? Globals.join(op, stream, cast(table), step)
                        : Joins.ofStream(op, stream, cast(with), step);
            }
            case "split": return split(stream, step, named);
            case "repartition": {
                var options = Options.repartitioned(step);
                return options == null ? stream.repartition() : stream.repartition(options);
            }
            case "group_by_key": {
                var grouped = Options.grouped(step);
                return grouped == null ? stream.groupByKey() : stream.groupByKey(grouped);
            }
            case "group_by": {
                var fn = keyMapper(step);
                var grouped = Options.grouped(step);
                return grouped == null
                        ? stream.<Object>groupBy(fn::apply)
                        : stream.<Object>groupBy(fn::apply, grouped);
            }
            case "to_table": {
                var stored = Options.materialized(step);
                if (stored == null) return named == null ? stream.toTable() : stream.toTable(named);
                return named == null ? stream.toTable(stored) : stream.toTable(named, stored);
            }
            case "to": return to(stream, step);
            case "process", "process_values": return process(op, stream, step, named);
            default: throw new Oracle.BadRequest("a stream has no operation " + op);
        }
    }

    private KTable<Object, Object> other(JsonNode step) {
        return cast(result(step.required("with").asText()));
    }

    private KStream<Object, Object> mapValues(
            KStream<Object, Object> stream, JsonNode step, Named named) {
        var withKey = Functions.VALUE_MAPPERS_WITH_KEY.get(fn(step));
        if (withKey != null) {
            ValueMapperWithKey<Object, Object, Object> mapper = withKey::apply;
            return named == null ? stream.mapValues(mapper) : stream.mapValues(mapper, named);
        }
        var fn = Functions.find(Functions.VALUE_MAPPERS, "value mapper", fn(step));
        ValueMapper<Object, Object> mapper = fn::apply;
        return named == null ? stream.mapValues(mapper) : stream.mapValues(mapper, named);
    }

    private KStream<Object, Object> flatMapValues(
            KStream<Object, Object> stream, JsonNode step, Named named) {
        var withKey = Functions.FLAT_VALUE_MAPPERS_WITH_KEY.get(fn(step));
        if (withKey != null) {
            ValueMapperWithKey<Object, Object, Iterable<Object>> mapper = withKey::apply;
            return named == null ? stream.flatMapValues(mapper) : stream.flatMapValues(mapper, named);
        }
        var fn = Functions.find(Functions.FLAT_VALUE_MAPPERS, "flat value mapper", fn(step));
        ValueMapper<Object, Iterable<Object>> mapper = fn::apply;
        return named == null ? stream.flatMapValues(mapper) : stream.flatMapValues(mapper, named);
    }

    private Object print(KStream<Object, Object> stream, JsonNode step) {
        String id = step.required("id").asText();
        // Printed takes the standard output of the moment: give each step one of its own.
        System.setOut(new PrintStream(new Lines(line -> seen.accept(List.of(id, line))), true));
        Printed<Object, Object> printed = Printed.toSysOut();
        if (step.has("label")) printed = printed.withLabel(step.get("label").asText());
        if (step.has("name")) printed = printed.withName(step.get("name").asText());
        stream.print(printed);
        return null;
    }

    private Object split(KStream<Object, Object> stream, JsonNode step, Named named) {
        String id = step.required("id").asText();
        BranchedKStream<Object, Object> split =
                named == null ? stream.split() : stream.split(named);
        int number = 0;
        for (JsonNode branch : step.required("branches")) {
            split = addBranch(split, branch, id + "/" + number++);
        }
        if (step.has("default")) {
            split.defaultBranch(branched(step.get("default").get("branched"), id + "/default"));
        } else {
            split.noDefaultBranch();
        }
        return null;
    }

    private BranchedKStream<Object, Object> addBranch(
            BranchedKStream<Object, Object> split, JsonNode branch, String key) {
        return split.branch(predicate(branch), branched(branch.get("branched"), key));
    }

    /** Branched with a consumer that notes the stream; a consumer changes no name and no node. */
    private Branched<Object, Object> branched(JsonNode options, String key) {
        Consumer<KStream<Object, Object>> note = s -> results.put(key, s);
        return options != null && options.has("name")
                ? Branched.withConsumer(note::accept, options.get("name").asText())
                : Branched.withConsumer(note::accept);
    }

    private List<StoreBuilder<?>> addedStores(JsonNode step) {
        List<StoreBuilder<?>> stores = new ArrayList<>();
        for (StoreBuilder<?> store : Behaviour.stores(step)) {
            stores.add(known.computeIfAbsent(store.name(), name -> store));
        }
        for (StoreBuilder<?> store : stores) builder.addStateStore(store);
        return stores;
    }

    private KStream<Object, Object> process(
            String op, KStream<Object, Object> stream, JsonNode step, Named named) {
        List<StoreBuilder<?>> stores = new ArrayList<>();
        for (StoreBuilder<?> store : Behaviour.stores(step)) {
            stores.add(known.computeIfAbsent(store.name(), name -> store));
        }
        String[] names = {};
        if (!Behaviour.brings(step)) {
            for (StoreBuilder<?> store : stores) builder.addStateStore(store);
            names = stores.stream().map(StoreBuilder::name).toArray(String[]::new);
        }
        if (op.equals("process")) {
            var supplier = Behaviour.supplier(step, stores);
            return named == null
                    ? stream.process(supplier, names)
                    : stream.process(supplier, named, names);
        }
        var supplier = Behaviour.fixedKeySupplier(step, stores);
        return named == null
                ? stream.processValues(supplier, names)
                : stream.processValues(supplier, named, names);
    }

    private Object to(KStream<Object, Object> stream, JsonNode step) {
        Produced<Object, Object> produced = Options.produced(step);
        if (step.has("extractor")) {
            var topics = Functions.topics(step.get("extractor").asText());
            if (produced == null) stream.to(topics);
            else stream.to(topics, produced);
            return null;
        }
        String topic = step.required("topic").asText();
        if (produced == null) stream.to(topic);
        else stream.to(topic, produced);
        return null;
    }

    private Object onTable(String op, KTable<Object, Object> table, JsonNode step) {
        Named named = Options.named(step);
        var stored = Options.<Object>materialized(step);
        switch (op) {
            case "filter": {
                var fn = predicate(step);
                if (stored == null) return named == null ? table.filter(fn) : table.filter(fn, named);
                return named == null ? table.filter(fn, stored) : table.filter(fn, named, stored);
            }
            case "filter_not": {
                var fn = predicate(step);
                if (stored == null) {
                    return named == null ? table.filterNot(fn) : table.filterNot(fn, named);
                }
                return named == null ? table.filterNot(fn, stored) : table.filterNot(fn, named, stored);
            }
            case "map_values": return mapTableValues(table, step, named);
            case "join", "left_join", "outer_join":
                return Joins.ofTable(op, table, other(step), step);
            case "transform_values": return transformValues(table, step, named);
            case "suppress": return table.suppress(Options.suppressed(step));
            case "group_by": {
                var fn = Functions.find(Functions.PAIR_MAPPERS, "pair mapper", fn(step));
                var grouped = Options.grouped(step);
                return grouped == null
                        ? table.<Object, Object>groupBy(fn::apply)
                        : table.<Object, Object>groupBy(fn::apply, grouped);
            }
            case "to_stream": {
                if (!step.has("fn")) return named == null ? table.toStream() : table.toStream(named);
                var fn = keyMapper(step);
                return named == null
                        ? table.<Object>toStream(fn::apply)
                        : table.<Object>toStream(fn::apply, named);
            }
            default: throw new Oracle.BadRequest("a table has no operation " + op);
        }
    }

    private KTable<Object, Object> transformValues(
            KTable<Object, Object> table, JsonNode step, Named named) {
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> stored = Options.materialized(step);
        var fn = Functions.find(Functions.TRANSFORMERS, "transformer", fn(step));
        String[] names = addedStores(step).stream().map(StoreBuilder::name).toArray(String[]::new);
        ValueTransformerWithKeySupplier<Object, Object, Object> supplier =
                names.length == 0 ? fn::get : () -> new Functions.Before(fn.get(), names[0]);
        if (stored == null) {
            return named == null
                    ? table.transformValues(supplier, names)
                    : table.transformValues(supplier, named, names);
        }
        if (names.length > 0) {
            return named == null
                    ? table.transformValues(supplier, stored, names)
                    : table.transformValues(supplier, stored, named, names);
        }
        return named == null
                ? table.transformValues(supplier, stored)
                : table.transformValues(supplier, stored, named);
    }

    private KTable<Object, Object> mapTableValues(
            KTable<Object, Object> table, JsonNode step, Named named) {
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> stored = Options.materialized(step);
        var withKey = Functions.VALUE_MAPPERS_WITH_KEY.get(fn(step));
        if (withKey != null) {
            ValueMapperWithKey<Object, Object, Object> mapper = withKey::apply;
            if (stored == null) {
                return named == null ? table.mapValues(mapper) : table.mapValues(mapper, named);
            }
            return named == null
                    ? table.mapValues(mapper, stored)
                    : table.mapValues(mapper, named, stored);
        }
        var fn = Functions.find(Functions.VALUE_MAPPERS, "value mapper", fn(step));
        ValueMapper<Object, Object> mapper = fn::apply;
        if (stored == null) {
            return named == null ? table.mapValues(mapper) : table.mapValues(mapper, named);
        }
        return named == null ? table.mapValues(mapper, stored) : table.mapValues(mapper, named, stored);
    }

    private Object onGroupedStream(String op, KGroupedStream<Object, Object> grouped, JsonNode step) {
        Named named = Options.named(step);
        switch (op) {
            case "windowed_by": return WindowedSteps.windowedBy(grouped, step);
            case "cogroup": return grouped.cogroup(aggregator(step, "fn"));
            case "count": {
                var stored = Options.<Long>materialized(step);
                if (stored == null) return named == null ? grouped.count() : grouped.count(named);
                return named == null ? grouped.count(stored) : grouped.count(named, stored);
            }
            case "reduce": {
                var fn = Functions.find(Functions.REDUCERS, "reducer", fn(step));
                var stored = Options.<Object>materialized(step);
                if (stored == null) return grouped.reduce(fn::apply);
                return named == null
                        ? grouped.reduce(fn::apply, stored)
                        : grouped.reduce(fn::apply, named, stored);
            }
            case "aggregate": {
                var init = initializer(step);
                var fn = aggregator(step, "fn");
                var stored = Options.<Object>materialized(step);
                if (stored == null) return grouped.aggregate(init::get, fn);
                return named == null
                        ? grouped.aggregate(init::get, fn, stored)
                        : grouped.aggregate(init::get, fn, named, stored);
            }
            default: throw new Oracle.BadRequest("a grouped stream has no operation " + op);
        }
    }

    private Object onGroupedTable(String op, KGroupedTable<Object, Object> grouped, JsonNode step) {
        Named named = Options.named(step);
        switch (op) {
            case "count": {
                var stored = Options.<Long>materialized(step);
                if (stored == null) return named == null ? grouped.count() : grouped.count(named);
                return named == null ? grouped.count(stored) : grouped.count(named, stored);
            }
            case "reduce": {
                var add = Functions.find(Functions.REDUCERS, "reducer", fn(step));
                var subtract =
                        Functions.find(
                                Functions.REDUCERS, "reducer", step.required("subtract").asText());
                var stored = Options.<Object>materialized(step);
                if (stored == null) return grouped.reduce(add::apply, subtract::apply);
                return named == null
                        ? grouped.reduce(add::apply, subtract::apply, stored)
                        : grouped.reduce(add::apply, subtract::apply, named, stored);
            }
            case "aggregate": {
                var init = initializer(step);
                var add = aggregator(step, "fn");
                var subtract = aggregator(step, "subtract");
                var stored = Options.<Object>materialized(step);
                if (stored == null) {
                    return named == null
                            ? grouped.aggregate(init::get, add, subtract)
                            : grouped.aggregate(init::get, add, subtract, named);
                }
                return named == null
                        ? grouped.aggregate(init::get, add, subtract, stored)
                        : grouped.aggregate(init::get, add, subtract, named, stored);
            }
            default: throw new Oracle.BadRequest("a grouped table has no operation " + op);
        }
    }

    // -- functions ---------------------------------------------------------------------------

    static String fn(JsonNode step) {
        return step.required("fn").asText();
    }

    private static org.apache.kafka.streams.kstream.Predicate<Object, Object> predicate(JsonNode step) {
        return Functions.find(Functions.PREDICATES, "predicate", fn(step));
    }

    private static BiFunction<Object, Object, Object> keyMapper(JsonNode step) {
        return Functions.find(Functions.KEY_MAPPERS, "key mapper", fn(step));
    }

    static java.util.function.Supplier<Object> initializer(JsonNode step) {
        return Functions.find(Functions.INITIALIZERS, "initializer", step.required("init").asText());
    }

    static org.apache.kafka.streams.kstream.Aggregator<Object, Object, Object> aggregator(
            JsonNode step, String field) {
        return Functions.find(Functions.AGGREGATORS, "aggregator", step.required(field).asText());
    }

    private ForeachAction<Object, Object> see(JsonNode step) {
        String id = step.required("id").asText();
        return (k, v) -> seen.accept(List.of(id, Functions.text(k), Functions.text(v)));
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }

    /** Hands every line that is written to it to a consumer. */
    private static final class Lines extends OutputStream {
        private final java.io.ByteArrayOutputStream line = new java.io.ByteArrayOutputStream();
        private final Consumer<String> sink;

        Lines(Consumer<String> sink) {
            this.sink = sink;
        }

        @Override
        public void write(int b) {
            if (b != '\n') {
                line.write(b);
                return;
            }
            sink.accept(line.toString(java.nio.charset.StandardCharsets.UTF_8));
            line.reset();
        }
    }
}
