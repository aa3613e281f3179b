import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** What Kafka Streams logs of records that it drops, while a request is answered. */
final class Logged implements AutoCloseable {
    private static final String SETTING = "org.slf4j.simpleLogger.";
    /** Before it some loggers write whose they are. */
    private static final String BEGIN = "Skipping ";

    private final PrintStream before = System.err;
    private final ByteArrayOutputStream written = new ByteArrayOutputStream();

    Logged() {
        System.setErr(new PrintStream(written, true, StandardCharsets.UTF_8));
    }

    /** Let loggers write to whatever is standard error then; to be called before there are any. */
    static void begin() {
        System.setProperty(SETTING + "log.org.apache.kafka.streams", "info");
        System.setProperty(SETTING + "showThreadName", "false");
        System.setProperty(SETTING + "showLogName", "false");
    }

    /** Level and text of each line, in order. */
    List<List<String>> lines() {
        return written.toString(StandardCharsets.UTF_8)
                .lines()
                .filter(line -> line.contains(BEGIN))
                .map(line -> List.of(line.split(" ", 2)[0], line.substring(line.indexOf(BEGIN))))
                .toList();
    }

    @Override
    public void close() {
        System.setErr(before);
    }
}
