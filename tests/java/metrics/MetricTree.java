import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.state.*;

/**
 * Prints every metric of Kafka Streams for a level of metrics.recording.level: group, name, names of the tags.
 *
 * <p>Those of tasks, nodes and stores come from the TopologyTestDriver, those of client and threads from a
 * KafkaStreams that is made and not started.
 */
public final class MetricTree {
    private MetricTree() {
    }

    static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()));
        KTable<String, Long> counts = lines.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.persistentKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        counts.toStream().to("counted", Produced.with(Serdes.String(), Serdes.Long()));
        KGroupedStream<String, String> grouped =
            lines.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        grouped.windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(10)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.as("windows"));
        grouped.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofSeconds(10)))
            .count(Materialized.as(Stores.inMemorySessionStore("sessions", Duration.ofMinutes(1))));
        grouped.count(Materialized.as(Stores.inMemoryKeyValueStore("memory")));
        grouped.count(Materialized.as(Stores.lruMap("lru", 10)));
        counts.suppress(Suppressed.untilTimeLimit(Duration.ofSeconds(1), Suppressed.BufferConfig.unbounded()))
            .toStream().foreach((key, value) -> { });
        lines.process(MeasuringProcessor::new);
        builder.globalTable("places", Consumed.with(Serdes.String(), Serdes.String()),
            Materialized.<String, String>as(Stores.persistentKeyValueStore("names"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.inMemoryKeyValueStore("kept"), Serdes.String(), Serdes.String()));
        lines.process(KeepingProcessor::new, "kept");
        return builder.build();
    }

    /** Does to a store whatever can be done, and looks into the global one. */
    static final class KeepingProcessor implements Processor<String, String, Void, Void> {
        private KeyValueStore<String, String> kept;
        private TimestampedKeyValueStore<String, String> names;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            kept = context.getStateStore("kept");
            names = context.getStateStore("names");
        }

        @Override
        public void process(org.apache.kafka.streams.processor.api.Record<String, String> record) {
            if (record.key() == null) {
                return;
            }
            kept.putIfAbsent(record.key(), record.value());
            kept.putAll(List.of(KeyValue.pair("several", record.value())));
            kept.delete("several");
            kept.put("one", record.value());
            kept.put("one", null);
            kept.get(record.key());
            kept.range("k0", "k1").close();
            kept.all().close();
            kept.prefixScan("k", new StringSerializer()).close();
            names.get(record.key());
        }
    }

    static final class MeasuringProcessor implements Processor<String, String, Void, Void> {
        private Sensor sensor;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            sensor = context.metrics().addLatencyRateTotalSensor(
                "model", "prices", "predict", Sensor.RecordingLevel.INFO, "kind", "linear");
            context.metrics().addRateTotalSensor("model", "prices", "miss", Sensor.RecordingLevel.INFO);
        }

        @Override
        public void process(org.apache.kafka.streams.processor.api.Record<String, String> record) {
            sensor.record(5.0);
        }
    }

    /** What depends on no clock of the machine. */
    static final Set<String> EXACT = Set.of(
        "process-total", "dropped-records-total", "records-consumed-total", "bytes-consumed-total",
        "records-produced-total", "bytes-produced-total", "suppression-emit-total",
        "window-aggregate-final-emit-total", "record-lateness-avg", "record-lateness-max",
        "record-e2e-latency-avg", "record-e2e-latency-min", "record-e2e-latency-max",
        "num-open-iterators", "miss-total", "predict-total", "predict-latency-avg", "predict-latency-max");

    static void names(Set<String> lines, Map<MetricName, ? extends Metric> metrics) {
        for (MetricName name : metrics.keySet()) {
            if (name.group().startsWith("stream")) {
                lines.add(String.join("\t", "name", name.group(), name.name(),
                    String.join(",", new TreeSet<>(name.tags().keySet()))));
            }
        }
    }

    static void values(Set<String> lines, String level, Map<MetricName, ? extends Metric> metrics) {
        for (Map.Entry<MetricName, ? extends Metric> entry : metrics.entrySet()) {
            MetricName name = entry.getKey();
            // The age of what comes to a store is by the machine's clock.
            boolean byClock = name.group().equals("stream-state-metrics") && name.name().startsWith("record-e2e");
            if (name.group().startsWith("stream") && !byClock && EXACT.contains(name.name())) {
                lines.add(String.join("\t", level, name.group(), name.name(),
                    new TreeMap<>(name.tags()).toString(), String.valueOf(entry.getValue().metricValue())));
            }
        }
    }

    /** Of which operations of stores something is recorded. */
    static void recorded(Set<String> lines, Map<MetricName, ? extends Metric> metrics) {
        for (Map.Entry<MetricName, ? extends Metric> entry : metrics.entrySet()) {
            MetricName name = entry.getKey();
            boolean isTime = name.group().equals("stream-state-metrics") && name.name().endsWith("-latency-max")
                && !name.name().startsWith("record-e2e");
            if (isTime && !Double.isNaN((Double) entry.getValue().metricValue())) {
                lines.add(String.join("\t", "recorded", name.group(), name.name(),
                    new TreeMap<>(name.tags()).toString(), "1"));
            }
        }
    }

    public static void main(String[] args) {
        Set<String> lines = new TreeSet<>();
        for (String level : List.of("INFO", "DEBUG", "TRACE")) {
            Properties config = new Properties();
            config.put("application.id", "tree");
            config.put("bootstrap.servers", "127.0.0.1:9");
            config.put("metrics.recording.level", level);
            config.put("default.key.serde", Serdes.StringSerde.class);
            config.put("default.value.serde", Serdes.StringSerde.class);
            config.put("state.dir", args[0]);
            try (TopologyTestDriver driver =
                    new TopologyTestDriver(topology(), config, java.time.Instant.ofEpochMilli(100_000))) {
                TestInputTopic<String, String> input =
                    driver.createInputTopic("lines", new StringSerializer(), new StringSerializer());
                for (int i = 0; i < 20; i++) {
                    input.pipeInput("k" + i % 3, "value " + i, i % 5 == 4 ? 500L * i : 1000L * i);
                }
                input.pipeInput(null, "without a key", 20_000L);
                TestInputTopic<String, String> places =
                    driver.createInputTopic("places", new StringSerializer(), new StringSerializer());
                for (int i = 0; i < 4; i++) {
                    places.pipeInput("k" + i % 3, i == 3 ? null : "place " + i, 1000L * i);
                }
                places.pipeInput(null, "without a key", 5_000L);
                if (level.equals("DEBUG")) {
                    recorded(lines, driver.metrics());
                }
                values(lines, level, driver.metrics());
                names(lines, driver.metrics());
            }
            try (KafkaStreams streams = new KafkaStreams(topology(), config)) {
                names(lines, streams.metrics());
                streams.close(Duration.ofMillis(1));
            }
        }
        lines.forEach(System.out::println);
        System.exit(0);
    }
}
