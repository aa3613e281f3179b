import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;

/** The steps of global tables and stores. */
final class Globals {
    private Globals() {}

    static GlobalKTable<Object, Object> table(StreamsBuilder builder, JsonNode step) {
        String topic = step.required("topic").asText();
        Consumed<Object, Object> consumed = Options.consumed(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> stored = Options.materialized(step);
        if (consumed == null && stored == null) return builder.globalTable(topic);
        if (stored == null) return builder.globalTable(topic, consumed);
        return consumed == null
                ? builder.globalTable(topic, stored)
                : builder.globalTable(topic, consumed, stored);
    }

    static Object store(StreamsBuilder builder, JsonNode step) {
        List<StoreBuilder<?>> stores = Behaviour.stores(step);
        Consumed<Object, Object> consumed = Options.consumed(step);
        builder.addGlobalStore(
                stores.get(0),
                step.required("topic").asText(),
                consumed == null ? Consumed.with(null, null) : consumed,
                () -> new Keeper(step, stores));
        return null;
    }

    /** Whether a store that a processor keeps is added to the topology once that is built. */
    static boolean isAdded(JsonNode step) {
        String op = step.get("op").asText();
        return (op.equals("global_store") || op.equals("read_only_store")) && step.has("source");
    }

    static void add(Topology topology, JsonNode step) {
        StoreBuilder<?> store = Behaviour.stores(step).get(0);
        String source = step.required("source").asText();
        String topic = step.required("topic").asText();
        String name = step.required("name").asText();
        JsonNode consumed = step.path("consumed");
        Deserializer<Object> keys = Options.serde(consumed.path("key").asText("string")).deserializer();
        Deserializer<Object> values =
                Options.serde(consumed.path("value").asText("string")).deserializer();
        ProcessorSupplier<Object, Object, Void, Void> keeper = () -> new Keeper(step, List.of(store));
        if (step.get("op").asText().equals("global_store")) {
            topology.addGlobalStore(store, source, keys, values, topic, name, keeper);
            return;
        }
        topology.addReadOnlyStateStore(store, source, keys, values, topic, name, keeper);
        for (JsonNode reader : step.path("readers")) {
            topology.connectProcessorAndStateStores(reader.asText(), store.name());
        }
    }

    static KStream<Object, Object> join(
            String op, KStream<Object, Object> stream, GlobalKTable<Object, Object> table, JsonNode step) {
        BiFunction<Object, Object, Object> fn =
                Functions.find(
                        Functions.KEY_MAPPERS, "key mapper", step.required("selector").asText());
        KeyValueMapper<Object, Object, Object> selector = fn::apply;
        boolean left = op.equals("left_join");
        var named = Options.named(step);
        String name = step.required("fn").asText();
        var keyed = Functions.JOINERS_WITH_KEY.get(name);
        if (keyed != null) {
            ValueJoinerWithKey<Object, Object, Object, Object> joiner = keyed::apply;
            if (named == null) {
                return left
                        ? stream.leftJoin(table, selector, joiner)
                        : stream.join(table, selector, joiner);
            }
            return left
                    ? stream.leftJoin(table, selector, joiner, named)
                    : stream.join(table, selector, joiner, named);
        }
        ValueJoiner<Object, Object, Object> joiner =
                Functions.find(Functions.JOINERS, "joiner", name)::apply;
        if (named == null) {
            return left
                    ? stream.leftJoin(table, selector, joiner)
                    : stream.join(table, selector, joiner);
        }
        return left
                ? stream.leftJoin(table, selector, joiner, named)
                : stream.join(table, selector, joiner, named);
    }

    private static final class Keeper implements Processor<Object, Object, Void, Void> {
        private final Behaviour behaviour;

        Keeper(JsonNode step, List<StoreBuilder<?>> stores) {
            behaviour = new Behaviour(step, stores);
        }

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            behaviour.init(context, (key, value, timestamp, headers) -> {});
        }

        @Override
        public void process(Record<Object, Object> record) {
            behaviour.process(record.key(), record.value(), record.timestamp(), record.headers());
        }
    }
}
