import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Runs the topology of a request (tests/oracle/FORMAT.md) as an ordinary Kafka Streams application.
 * Prints {@code STATE old new} and {@code ERROR ...}; ends on a line or the end of standard input
 * and on SIGTERM, having committed. Arguments: the file of the request, then settings of Kafka
 * Streams as {@code name=value}; those of the request are used, too.
 */
public final class Application {
    private Application() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        JsonNode request = new ObjectMapper().readTree(new File(arguments[0]));
        Properties config = config(request);
        for (int i = 1; i < arguments.length; i++) {
            String[] parts = arguments[i].split("=", 2);
            config.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(config)));
        Steps steps = new Steps(builder, line -> {});
        Topology topology = steps.build(request.required("steps")).build(config);

        KafkaStreams streams = new KafkaStreams(topology, config);
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
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(streams)));
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
        done.await();
        System.exit(streams.state() == KafkaStreams.State.ERROR ? 1 : 0);
    }

    static Properties config(JsonNode request) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, request.required("app_id").asText());
        Class<?> key = Options.serde(request.path("key").asText("bytes")).getClass();
        Class<?> value = Options.serde(request.path("value").asText("bytes")).getClass();
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, key);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, value);
        config.put("auto.offset.reset", "earliest");
        for (Map.Entry<String, JsonNode> entry : request.path("config").properties()) {
            config.put(entry.getKey(), entry.getValue().asText());
        }
        return config;
    }

    private static void close(KafkaStreams streams) {
        say(streams.close(Duration.ofSeconds(30)) ? "CLOSED" : "NOT CLOSED IN TIME");
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
