import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Word count as an ordinary Kafka Streams application, with the nodes, names and topics of
 * examples/word_count. Prints {@code STATE old new} and {@code ERROR ...} lines; ends on a line or
 * the end of standard input and on SIGTERM, having committed. Arguments are {@code name=value}:
 *
 * <pre>
 *   application.id, bootstrap.servers     as in Kafka
 *   input, output                         topics (TextLinesTopic, WordsWithCountsTopic)
 *   anything else                         a setting of Kafka Streams
 * </pre>
 */
public final class WordCountApp {
    private WordCountApp() {}

    static List<String> words(String line) {
        return Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+"));
    }

    static Topology topology(String input, String output, Properties config) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(WordCountApp::words)
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.as("counts-store"))
                .toStream()
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build(config);
    }

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> given = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            given.put(parts[0], parts[1]);
        }
        String input = given.getOrDefault("input", "TextLinesTopic");
        String output = given.getOrDefault("output", "WordsWithCountsTopic");
        given.keySet().removeAll(Arrays.asList("input", "output"));
        Properties config = new Properties();
        config.put("auto.offset.reset", "earliest");
        config.putAll(given);

        KafkaStreams streams = new KafkaStreams(topology(input, output, config), config);
        CountDownLatch done = new CountDownLatch(1);
        streams.setStateListener(
                (now, before) -> {
                    say("STATE " + before + " " + now);
                    if (now == KafkaStreams.State.ERROR) done.countDown();
                });
        streams.setUncaughtExceptionHandler(
                error -> {
                    say("ERROR " + error);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        Thread hook = new Thread(() -> close(streams));
        Runtime.getRuntime().addShutdownHook(hook);
        Thread reader =
                new Thread(
                        () -> {
                            Scanner scanner = new Scanner(System.in);
                            if (scanner.hasNextLine()) scanner.nextLine();
                            done.countDown();
                        });
        reader.setDaemon(true);
        reader.start();
        streams.start();
        done.await(Long.MAX_VALUE, TimeUnit.DAYS);
        System.exit(streams.state() == KafkaStreams.State.ERROR ? 1 : 0);
    }

    private static void close(KafkaStreams streams) {
        say(streams.close(Duration.ofSeconds(30)) ? "CLOSED" : "NOT CLOSED IN TIME");
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
