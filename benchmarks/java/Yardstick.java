import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * One benchmark of Java Kafka Streams. Ends when {@code records} records were processed (for the
 * work {@code restore}: when the stores are restored), or on a line or the end of standard input,
 * and prints one line of JSON. Arguments are {@code name=value}:
 *
 * <pre>
 *   work      count      groupByKey().count("counts").toStream().to(output)
 *             stateless  filter(key does not end in 0).mapValues(upper case).to(output)
 *             words      flatMapValues(split at spaces).groupBy(word).count("counts").to(output);
 *                        records processed are lines and words
 *             restore    as count, but only until the changelog is restored
 *             global_store
 *                        join with the topic input + "-other" as a global table, but only until
 *                        the table is filled
 *             tumbling, hopping, sliding, session
 *                        count in windows: 10 s; 5 s that advance by 1 s; of 1 s; with a gap of 1 s
 *             pairs      join with itself within 5 s
 *             suppress   count in windows of 10 s, suppressed until they close
 *             stream_join, table_join, versioned_join
 *                        join with the topic input + "-other": a stream, within 5 s; a table; a
 *                        versioned table
 *             foreign_join
 *                        join of the two topics' tables by the foreign key that values begin with;
 *                        records processed are rows, subscriptions and responses
 *   input, output        topics, of strings; counts are longs
 *   records              how many to process; without it only standard input ends the run
 *   marks                numbers of records after which time and CPU time are noted
 *   anything else        a setting of Kafka Streams
 * </pre>
 *
 * Printed: {@code records}; {@code seconds} from the first record processed to the last;
 * {@code seconds_closed} the same until everything is committed and closed; {@code cpu_seconds} of
 * the process from the first record until closed and {@code cpu_seconds_all} from its start;
 * {@code peak_rss_mb}; {@code restored} and {@code restore_seconds}, from the start of the first
 * store's restoration to the end of the last one's; {@code marks}, each with records, seconds and
 * CPU seconds.
 */
public final class Yardstick implements StateRestoreListener {
    private static final int FOREIGN_KEY_CHARACTERS = 10;
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final String work;
    private final String input;
    private final String output;
    private final long wanted;
    private final CountDownLatch done = new CountDownLatch(1);
    private final AtomicLong processed = new AtomicLong();
    private final AtomicLong restored = new AtomicLong();
    private volatile long firstNanos;
    private volatile long lastNanos;
    private volatile long firstCpuNanos;
    private volatile long restoreStartNanos;
    private volatile long restoreEndNanos;
    private volatile Throwable failure;
    private final long[] marks;
    private final List<String> marked = new ArrayList<>();

    private Yardstick(Map<String, String> given) {
        work = given.remove("work");
        input = given.remove("input");
        output = given.remove("output");
        wanted = given.containsKey("records") ? Long.parseLong(given.remove("records")) : -1;
        marks =
                given.containsKey("marks")
                        ? Arrays.stream(given.remove("marks").split(","))
                                .mapToLong(Long::parseLong)
                                .toArray()
                        : new long[0];
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            given.put(parts[0], parts[1]);
        }
        Yardstick yardstick = new Yardstick(given);
        Properties config = new Properties();
        config.put("auto.offset.reset", "earliest");
        config.putAll(given);
        yardstick.run(config);
        System.exit(yardstick.failure == null ? 0 : 1);
    }

    private void run(Properties config) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        if (work.equals("foreign_join")) joinTables(builder);
        else draw(builder, builder.stream(input, consumed()));
        KafkaStreams streams = new KafkaStreams(builder.build(config), config);
        streams.setGlobalStateRestoreListener(this);
        streams.setUncaughtExceptionHandler(
                error -> {
                    failure = error;
                    done.countDown();
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        streams.setStateListener(
                (now, before) -> {
                    if (now != KafkaStreams.State.RUNNING) return;
                    System.err.println("RUNNING");
                    if (onlyFills()) done.countDown();
                });
        awaitInput();
        streams.start();
        done.await();
        streams.close(Duration.ofMinutes(2));
        if (failure != null) failure.printStackTrace();
        else report();
    }

    private boolean onlyFills() {
        return work.equals("restore") || work.equals("global_store");
    }

    private void draw(StreamsBuilder builder, KStream<String, String> lines) {
        switch (work) {
            case "count", "restore" ->
                    lines.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                            .count(Materialized.as("counts"))
                            .toStream()
                            .to(output, Produced.with(Serdes.String(), Serdes.Long()));
            case "stateless" ->
                    lines.filter((key, value) -> !key.endsWith("0"))
                            .mapValues(value -> value.toUpperCase(Locale.ROOT))
                            .to(output, Produced.with(Serdes.String(), Serdes.String()));
            case "words" ->
                    lines.flatMapValues(line -> List.<String>of(line.split(" ")))
                            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), counted()))
                            .count(Materialized.as("counts"))
                            .toStream()
                            .to(output, Produced.with(Serdes.String(), Serdes.Long()));
            case "tumbling" -> windowed(lines, TimeWindows.ofSizeWithNoGrace(seconds(10)));
            case "hopping" ->
                    windowed(lines, TimeWindows.ofSizeWithNoGrace(seconds(5)).advanceBy(seconds(1)));
            case "sliding" ->
                    told(
                            grouped(lines)
                                    .windowedBy(
                                            SlidingWindows.ofTimeDifferenceWithNoGrace(seconds(1)))
                                    .count(Materialized.as("counts")));
            case "session" ->
                    told(
                            grouped(lines)
                                    .windowedBy(
                                            SessionWindows.ofInactivityGapWithNoGrace(seconds(1)))
                                    .count(Materialized.as("counts")));
            case "suppress" ->
                    told(
                            grouped(lines)
                                    .windowedBy(TimeWindows.ofSizeWithNoGrace(seconds(10)))
                                    .count(Materialized.as("counts"))
                                    .suppress(
                                            Suppressed.untilWindowCloses(
                                                    Suppressed.BufferConfig.unbounded())));
            case "pairs" -> joinStreams(lines, lines, "pairs");
            case "stream_join" ->
                    joinStreams(lines, builder.stream(input + "-other", consumed()), "joined");
            case "table_join" ->
                    lookUp(lines, builder.table(input + "-other", consumed(), named("table")));
            case "global_store" ->
                    written(
                            lines.join(
                                    builder.globalTable(
                                            input + "-other",
                                            Consumed.with(Serdes.String(), Serdes.String()),
                                            Materialized.as("global")),
                                    (key, value) -> key,
                                    (mine, its) -> mine + its));
            case "versioned_join" ->
                    lookUp(
                            lines,
                            builder.table(
                                    input + "-other",
                                    consumed(),
                                    Materialized.as(
                                            Stores.persistentVersionedKeyValueStore(
                                                    "table", Duration.ofHours(1)))));
            default -> throw new IllegalArgumentException("no work named " + work);
        }
    }

    private void joinStreams(
            KStream<String, String> one, KStream<String, String> other, String store) {
        written(
                one.join(
                        other,
                        (mine, its) -> mine + its,
                        JoinWindows.ofTimeDifferenceWithNoGrace(seconds(5)),
                        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String())
                                .withStoreName(store)));
    }

    private void lookUp(KStream<String, String> lines, KTable<String, String> table) {
        written(lines.join(table, (mine, its) -> mine + its));
    }

    /** Each result counts for a subscription and a response, which make it. */
    private void joinTables(StreamsBuilder builder) {
        KTable<String, String> left = builder.table(input, consumed(), named("left"));
        KTable<String, String> right =
                builder.table(input + "-other", consumed(), named("right").withCachingDisabled());
        written(
                left.join(
                                right,
                                row -> row.substring(0, FOREIGN_KEY_CHARACTERS),
                                (mine, its) -> {
                                    process(2);
                                    return mine + its;
                                })
                        .toStream());
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> named(String store) {
        return Materialized.as(store);
    }

    private void written(KStream<String, String> results) {
        results.to(output, Produced.with(Serdes.String(), Serdes.String()));
    }

    private Consumed<String, String> consumed() {
        return Consumed.with(Serdes.String(), counted());
    }

    private void windowed(KStream<String, String> lines, TimeWindows windows) {
        told(grouped(lines).windowedBy(windows).count(Materialized.as("counts")));
    }

    private static KGroupedStream<String, String> grouped(KStream<String, String> lines) {
        return lines.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
    }

    private void told(KTable<Windowed<String>, Long> counts) {
        counts.toStream((windowed, count) -> windowed.key())
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static Duration seconds(int seconds) {
        return Duration.ofSeconds(seconds);
    }

    /**
     * Strings, whose decoding counts as the processing of a record: it happens just before. A
     * table's store decodes by the same, under the name of its changelog.
     */
    private Serde<String> counted() {
        Deserializer<String> strings = Serdes.String().deserializer();
        return Serdes.serdeFrom(
                Serdes.String().serializer(),
                (topic, bytes) -> {
                    if (topic.startsWith(input) || topic.endsWith("-repartition")) process(1);
                    return strings.deserialize(topic, bytes);
                });
    }

    private void process(int more) {
        long number = processed.addAndGet(more);
        while (marked.size() < marks.length && number >= marks[marked.size()]) mark(number);
        if (number == more) {
            firstNanos = System.nanoTime();
            firstCpuNanos = SYSTEM.getProcessCpuTime();
        } else if (number >= wanted && number - more < wanted) {
            lastNanos = System.nanoTime();
            done.countDown();
        }
    }

    /** Only runs of one thread have marks. */
    private void mark(long number) {
        marked.add(
                String.format(
                        Locale.ROOT,
                        "[%d, %.4f, %.4f]",
                        number,
                        (System.nanoTime() - firstNanos) / 1e9,
                        (SYSTEM.getProcessCpuTime() - firstCpuNanos) / 1e9));
    }

    private void awaitInput() {
        Thread reader =
                new Thread(
                        () -> {
                            Scanner scanner = new Scanner(System.in);
                            if (scanner.hasNextLine()) scanner.nextLine();
                            done.countDown();
                        });
        reader.setDaemon(true);
        reader.start();
    }

    @Override
    public synchronized void onRestoreStart(
            TopicPartition partition, String store, long from, long to) {
        if (restoreStartNanos == 0) {
            restoreStartNanos = System.nanoTime();
            if (onlyFills()) firstCpuNanos = SYSTEM.getProcessCpuTime();
        }
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long to, long count) {}

    @Override
    public synchronized void onRestoreEnd(TopicPartition partition, String store, long count) {
        restored.addAndGet(count);
        restoreEndNanos = System.nanoTime();
    }

    private void report() throws IOException {
        long closedNanos = System.nanoTime();
        long cpuNanos = SYSTEM.getProcessCpuTime();
        long endNanos = lastNanos == 0 ? closedNanos : lastNanos;
        boolean ran = processed.get() > 0;
        System.out.printf(
                Locale.ROOT,
                "{\"work\": \"%s\", \"records\": %d, \"seconds\": %.3f, \"seconds_closed\": %.3f, "
                        + "\"cpu_seconds\": %.3f, \"cpu_seconds_all\": %.3f, \"peak_rss_mb\": %.1f, "
                        + "\"restored\": %d, \"restore_seconds\": %.3f, \"marks\": %s}%n",
                work,
                processed.get(),
                ran ? (endNanos - firstNanos) / 1e9 : 0.0,
                ran ? (closedNanos - firstNanos) / 1e9 : 0.0,
                (cpuNanos - firstCpuNanos) / 1e9,
                cpuNanos / 1e9,
                peakRssMb(),
                restored.get(),
                restored.get() > 0 ? (restoreEndNanos - restoreStartNanos) / 1e9 : 0.0,
                marked);
        System.out.flush();
    }

    private static double peakRssMb() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                String kilobytes = Arrays.asList(line.split("\\s+")).get(1);
                return Double.parseDouble(kilobytes) / 1024;
            }
        }
        return 0;
    }
}
