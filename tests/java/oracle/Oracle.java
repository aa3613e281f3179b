import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.InternalTopicConfig;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder.TopicsInfo;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.VersionedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.PlainToHeadersWindowStoreAdapter;
import org.apache.kafka.streams.state.internals.RocksDBWindowStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;
import org.apache.kafka.streams.test.TestRecord;

/** Answers what Java's TopologyTestDriver makes of a topology; tests/oracle/FORMAT.md is the protocol. */
public final class Oracle {
    /** The request itself is wrong. */
    static final class BadRequest extends RuntimeException {
        BadRequest(String message) {
            super(message);
        }
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    /** Where stores lie: RocksDB writes out what each of many commits has changed. */
    private static final Path STATE =
            Path.of(System.getProperty("oracle.state", System.getProperty("java.io.tmpdir")));

    private final JsonNode request;
    private final ObjectNode answer = JSON.createObjectNode();
    private final ArrayNode seen = JSON.createArrayNode();
    private final List<ProducerRecord<byte[], byte[]>> produced = new ArrayList<>();
    private final Set<String> internalTopics = new HashSet<>();
    private boolean keepsHeaders;
    private String stage = "request";

    private Oracle(JsonNode request) {
        this.request = request;
        answer.set("id", request.get("id"));
    }

    public static void main(String[] arguments) throws IOException {
        Logged.begin();
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(new Oracle(JSON.readTree(line)).answer()));
            answers.flush();
        }
    }

    private ObjectNode answer() {
        try (Logged logged = new Logged()) {
            run();
            answer.set("logged", JSON.valueToTree(logged.lines()));
        } catch (Exception | StackOverflowError error) {
            ObjectNode shown = answer.putObject("error");
            boolean isRequest = error instanceof BadRequest || stage.equals("request");
            shown.put("at", isRequest ? "request" : stage);
            shown.put("class", error.getClass().getName());
            shown.put("message", String.valueOf(error.getMessage()));
            Throwable cause = error;
            while (cause.getCause() != null) cause = cause.getCause();
            shown.put("cause", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    private void run() throws IOException, ReflectiveOperationException {
        Path directory = Files.createTempDirectory(STATE, "headwater-oracle-");
        try {
            Properties config = config(directory);
            stage = "build";
            Wrapper.forget();
            // Process() changes keys and values, also for the optimisation: Java needs to be told.
            config.put("__enable.process.processValue.fix__", true);
            StreamsBuilder builder =
                    new StreamsBuilder(new TopologyConfig(new StreamsConfig(config)));
            Steps steps = new Steps(builder, line -> seen.add(JSON.valueToTree(line)));
            Topology topology = steps.build(request.required("steps")).build(config);
            for (JsonNode step : request.required("steps")) {
                if (Globals.isAdded(step)) Globals.add(topology, step);
            }
            answer.set("wrapped", JSON.valueToTree(Wrapper.WRAPPED));
            answer.put("describe", topology.describe().toString());
            InternalTopologyBuilder internals = field(topology, Topology.class, "internalTopologyBuilder");
            if (!request.has("inputs")) {
                // Changelog topics are known only after the processors were built.
                internals.rewriteTopology(new StreamsConfig(config)).buildTopology();
                describeTopics(internals);
                return;
            }
            try (TopologyTestDriver driver =
                    new TopologyTestDriver(topology, config, Instant.ofEpochMilli(0))) {
                describeTopics(internals);
                drive(driver);
            }
        } finally {
            delete(directory);
        }
    }

    private Properties config(Path directory) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, request.required("app_id").asText());
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        String key = request.path("key").asText("bytes");
        String value = request.path("value").asText("bytes");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Options.serde(key).getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Options.serde(value).getClass());
        if (request.path("wrapped").asBoolean(false)) {
            config.put(StreamsConfig.PROCESSOR_WRAPPER_CLASS_CONFIG, Wrapper.class);
        }
        for (Map.Entry<String, JsonNode> entry : request.path("config").properties()) {
            config.put(entry.getKey(), entry.getValue().asText());
        }
        return config;
    }

    // -- the topology ------------------------------------------------------------------------

    private void describeTopics(InternalTopologyBuilder internals)
            throws ReflectiveOperationException {
        ObjectNode all = JSON.createObjectNode();
        for (var entry : internals.subtopologyToTopicsInfo().entrySet()) {
            Integer number = field(entry.getKey(), Subtopology.class, "nodeGroupId");
            TopicsInfo topics = entry.getValue();
            ObjectNode one = all.putObject(number.toString());
            one.set("sources", JSON.valueToTree(new TreeSet<>(topics.sourceTopics)));
            one.set("sinks", JSON.valueToTree(new TreeSet<>(topics.sinkTopics)));
            one.set("repartition", topics(topics.repartitionSourceTopics.values()));
            one.set("changelog", topics(topics.nonSourceChangelogTopics()));
            Set<String> reused = topics.sourceTopicChangelogs();
            one.set("source_changelogs", JSON.valueToTree(new TreeSet<>(reused)));
        }
        answer.set("subtopologies", all);
        List<List<String>> groups = new ArrayList<>();
        for (Set<String> group : internals.copartitionGroups()) {
            groups.add(new ArrayList<>(new TreeSet<>(group)));
        }
        groups.sort(Comparator.comparing(Object::toString));
        answer.set("copartitioned", JSON.valueToTree(groups));
    }

    private ObjectNode topics(Collection<InternalTopicConfig> topics) {
        ObjectNode all = JSON.createObjectNode();
        for (InternalTopicConfig topic : topics) {
            internalTopics.add(topic.name());
            ObjectNode one = all.putObject(topic.name());
            if (topic.numberOfPartitions().isPresent()) {
                one.put("partitions", topic.numberOfPartitions().get());
            } else {
                one.putNull("partitions");
            }
            one.set("config", JSON.valueToTree(new TreeMap<>(topic.properties(Map.of(), 86_400_000L))));
        }
        return all;
    }

    // -- the run -----------------------------------------------------------------------------

    private void drive(TopologyTestDriver driver) throws ReflectiveOperationException {
        record(driver);
        stage = "run";
        int every = request.path("commit_every").asInt(0);
        LateCommits late = every > 0 ? new LateCommits(driver) : null;
        int piped = 0;
        try {
            for (JsonNode input : request.get("inputs")) {
                if (input.has("advance_ms") && late != null) {
                    late.advance(input.get("advance_ms").asLong());
                } else if (input.has("advance_ms")) {
                    driver.advanceWallClockTime(Duration.ofMillis(input.get("advance_ms").asLong()));
                } else if (late != null) {
                    late.pipe(input);
                    if (++piped % every == 0) late.settle();
                } else {
                    pipe(driver, input);
                }
            }
            if (late != null) late.settle();
            answer.put("dropped", dropped(driver));
            keepsHeaders = request.path("headers").asBoolean(false);
            answer.set("stores", stores(driver));
            answer.set("versions", Versions.contents(driver, request.get("inputs")));
            if (request.has("queries")) {
                answer.set("answers", Queries.answers(driver, request.get("queries")));
            }
        } finally {
            ArrayNode everything = answer.putArray("produced");
            ArrayNode outputs = answer.putArray("outputs");
            for (ProducerRecord<byte[], byte[]> sent : produced) {
                ObjectNode shown = show(sent);
                everything.add(shown);
                if (!internalTopics.contains(sent.topic())) outputs.add(shown);
            }
            answer.set("seen", seen);
            answer.set("records", JSON.valueToTree(Wrapper.RECORDS));
        }
    }

    /** How many records the tasks say they have dropped, the one of global stores among them. */
    private static long dropped(TopologyTestDriver driver) {
        return driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
                .filter(metric -> metric.getKey().group().equals("stream-task-metrics"))
                .mapToLong(metric -> ((Number) metric.getValue().metricValue()).longValue())
                .sum();
    }

    /** The driver empties its producer after each record: keep what passes through. */
    private void record(TopologyTestDriver driver) throws ReflectiveOperationException {
        MockProducer<byte[], byte[]> producer = field(driver, TopologyTestDriver.class, "producer");
        Field sent = MockProducer.class.getDeclaredField("sent");
        sent.setAccessible(true);
        sent.set(
                producer,
                new ArrayList<ProducerRecord<byte[], byte[]>>() {
                    @Override
                    public boolean add(ProducerRecord<byte[], byte[]> record) {
                        produced.add(record);
                        return super.add(record);
                    }
                });
    }

    static RecordHeaders headers(JsonNode input) {
        RecordHeaders headers = new RecordHeaders();
        for (JsonNode header : input.path("headers")) {
            headers.add(header.get(0).asText(), bytes(header.get(1)));
        }
        return headers;
    }

    private static void pipe(TopologyTestDriver driver, JsonNode input) {
        driver.createInputTopic(
                        input.required("topic").asText(),
                        new ByteArraySerializer(),
                        new ByteArraySerializer())
                .pipeInput(
                        new TestRecord<>(
                                bytes(input.required("key")),
                                bytes(input.required("value")),
                                headers(input),
                                input.required("timestamp").asLong()));
    }

    private static ObjectNode show(ProducerRecord<byte[], byte[]> sent) {
        ObjectNode shown = JSON.createObjectNode();
        shown.put("topic", sent.topic());
        shown.put("partition", sent.partition());
        shown.put("key", hex(sent.key()));
        shown.put("value", hex(sent.value()));
        shown.put("timestamp", sent.timestamp());
        ArrayNode headers = shown.putArray("headers");
        for (Header header : sent.headers()) {
            headers.addArray().add(header.key()).add(hex(header.value()));
        }
        return shown;
    }

    private ObjectNode stores(TopologyTestDriver driver) throws ReflectiveOperationException {
        ObjectNode all = JSON.createObjectNode();
        for (Map.Entry<String, StateStore> entry : driver.getAllStateStores().entrySet()) {
            if (isListed(entry.getValue())) {
                all.set(entry.getKey(), contents(entry.getValue()));
            }
        }
        return all;
    }

    private static boolean isListed(StateStore store) {
        while (store instanceof WrappedStateStore<?, ?, ?> wrapper && isStore(wrapper.wrapped())) {
            store = wrapper.wrapped();
        }
        // A versioned store looks like one of keys and values, and cannot be listed.
        return isStore(store) && !(store instanceof VersionedBytesStore);
    }

    /** Entries of the innermost store, which holds bytes: an eight-byte timestamp before each value. */
    @SuppressWarnings("unchecked")
    private ArrayNode contents(StateStore store) throws ReflectiveOperationException {
        boolean isTimestamped = WrappedStateStore.isTimestamped(store);
        boolean hasHeaders = false;
        StateStore inner = store;
        while (inner instanceof WrappedStateStore<?, ?, ?> wrapper && isStore(wrapper.wrapped())) {
            // In memory such a store keeps headers, which is told by a wrapper that does nothing.
            hasHeaders |= wrapper.getClass().getSimpleName().endsWith("WithHeadersMarker");
            inner = wrapper.wrapped();
        }
        hasHeaders |= inner.getClass().getSimpleName().contains("Headers");
        List<KeyValue<Bytes, byte[]>> entries = new ArrayList<>();
        if (inner instanceof WindowStore<?, ?> windows) {
            try (var all = ((WindowStore<Bytes, byte[]>) windows).all()) {
                all.forEachRemaining(e -> entries.add(KeyValue.pair(windowed(e.key, false), e.value)));
            }
        } else if (inner instanceof SessionStore<?, ?> sessions) {
            try (var all = ((SessionStore<Bytes, byte[]>) sessions).fetch(null, null)) {
                all.forEachRemaining(e -> entries.add(KeyValue.pair(windowed(e.key, true), e.value)));
            }
        } else {
            try (var all = ((KeyValueStore<Bytes, byte[]>) inner).all()) {
                all.forEachRemaining(entries::add);
            }
        }
        entries.sort((a, b) -> Arrays.compareUnsigned(a.key.get(), b.key.get()));
        ArrayNode shown = JSON.createArrayNode();
        for (KeyValue<Bytes, byte[]> entry : entries) {
            ArrayNode one = shown.addArray().add(hex(entry.key.get()));
            if (hasHeaders) {
                // A store of the DSL that may keep headers: their length, the headers, then as below.
                ByteBuffer value = ByteBuffer.wrap(entry.value);
                int headers = ByteUtils.readVarint(value);
                byte[] kept = new byte[headers];
                value.get(kept);
                Long timestamp = inner instanceof SessionStore<?, ?> ? null : value.getLong();
                byte[] rest = new byte[value.remaining()];
                value.get(rest);
                one.add(hex(rest));
                if (retainsDuplicates(inner)) one.addNull();
                else one.add(timestamp);
                if (keepsHeaders) one.add(hex(kept));
            } else if (isTimestamped || inner instanceof TimestampedBytesStore) {
                one.add(hex(Arrays.copyOfRange(entry.value, 8, entry.value.length)));
                one.add(ByteBuffer.wrap(entry.value).getLong());
            } else {
                one.add(hex(entry.value)).addNull();
            }
        }
        return shown;
    }

    /** A store of a join of streams: where it is plain on disk, it has no timestamps of values. */
    private static boolean retainsDuplicates(StateStore store) throws ReflectiveOperationException {
        if (store instanceof PlainToHeadersWindowStoreAdapter) {
            return retainsDuplicates(field(store, store.getClass(), "store"));
        }
        Class<?> found = store.getClass();
        if (found.getSimpleName().equals("RocksDBTimestampedWindowStoreWithHeaders")) {
            found = RocksDBWindowStore.class;
        }
        return Set.of("RocksDBWindowStore", "InMemoryWindowStore").contains(found.getSimpleName())
                && Oracle.<Boolean>field(store, found, "retainDuplicates");
    }

    private static boolean isStore(StateStore store) {
        return store instanceof KeyValueStore
                || store instanceof WindowStore
                || store instanceof SessionStore;
    }

    /** The key and start of a window, or the key, end and start of a session. */
    private static Bytes windowed(Windowed<Bytes> key, boolean isSession) {
        byte[] bytes = key.key().get();
        ByteBuffer buffer = ByteBuffer.allocate(bytes.length + (isSession ? 16 : 8)).put(bytes);
        if (isSession) buffer.putLong(key.window().end());
        return Bytes.wrap(buffer.putLong(key.window().start()).array());
    }

    // -- small things ------------------------------------------------------------------------

    private static String hex(byte[] bytes) {
        return bytes == null ? null : HEX.formatHex(bytes);
    }

    static byte[] bytes(JsonNode hex) {
        return hex.isNull() ? null : HEX.parseHex(hex.asText());
    }

    @SuppressWarnings("unchecked")
    static <T> T field(Object owner, Class<?> declaring, String name)
            throws ReflectiveOperationException {
        Field field = declaring.getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(owner);
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) Files.deleteIfExists(path);
        } catch (UncheckedIOException error) {
            throw error.getCause();
        }
    }
}
