import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/** What Kafka's MockProcessorContext does with a few calls: for each request one object. */
public final class MockContext {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        while (System.in.read() != '\n') {
            // The request says nothing.
        }
        answers.println(JSON.writeValueAsString(seen()));
        answers.flush();
    }

    private static Map<String, Object> seen() {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        config.put("mine.of.user", "5");
        MockProcessorContext<String, Long> context = new MockProcessorContext<>(config);
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("application id", context.applicationId());
        seen.put("task", context.taskId().toString());
        seen.put("own setting", context.appConfigsWithPrefix("mine.").get("of.user"));
        seen.put("place before", context.recordMetadata().isPresent());
        seen.put("stream time before", tried(context::currentStreamTimeMs));
        seen.put("system time before", tried(context::currentSystemTimeMs));
        seen.put("store that is not there", tried(() -> context.getStateStore("none")));
        context.setRecordMetadata("topic", 3, 7L);
        seen.put("place", context.recordMetadata().orElseThrow().topic()
                + "-" + context.recordMetadata().orElseThrow().partition()
                + "@" + context.recordMetadata().orElseThrow().offset());
        context.setCurrentStreamTimeMs(5L);
        context.setCurrentSystemTimeMs(9L);
        seen.put("times", List.of(context.currentStreamTimeMs(), context.currentSystemTimeMs()));
        context.setCurrentStreamTimeMs(2L);
        seen.put("stream time set back", context.currentStreamTimeMs());

        context.forward(new Record<>("all", 1L, 10L));
        context.forward(new Record<>("one", 2L, 11L), "child");
        context.forward(new Record<>("other", 3L, 12L), "sister");
        seen.put("forwarded", forwarded(context.forwarded()));
        seen.put("forwarded to child", forwarded(context.forwarded("child")));
        seen.put("forwarded to nobody", forwarded(context.forwarded("nobody")));
        context.resetForwards();
        seen.put("forwards forgotten", context.forwarded().size());

        seen.put("committed before", context.committed());
        context.commit();
        seen.put("committed", context.committed());
        context.resetCommit();
        seen.put("commit forgotten", context.committed());

        List<Long> fired = new ArrayList<>();
        Cancellable first =
                context.schedule(Duration.ofMillis(100), PunctuationType.STREAM_TIME, fired::add);
        context.schedule(
                Instant.ofEpochMilli(30), Duration.ofSeconds(1), PunctuationType.WALL_CLOCK_TIME, fired::add);
        context.setCurrentStreamTimeMs(1_000L);
        seen.put("fired by itself", fired.size());
        first.cancel();
        List<Object> scheduled = new ArrayList<>();
        for (MockProcessorContext.CapturedPunctuator it : context.scheduledPunctuators()) {
            it.getPunctuator().punctuate(42L);
            scheduled.add(List.of(it.getInterval().toMillis(), it.getType().toString(), it.cancelled()));
        }
        seen.put("scheduled", scheduled);
        seen.put("fired", fired);
        seen.put("interval of 0", tried(() ->
                context.schedule(Duration.ZERO, PunctuationType.STREAM_TIME, now -> { })));
        return seen;
    }

    private interface Call {
        Object run();
    }

    private static Object tried(Call call) {
        try {
            return String.valueOf(call.run());
        } catch (RuntimeException refused) {
            return "refused: " + refused.getClass().getSimpleName();
        }
    }

    private static List<Object> forwarded(
            List<MockProcessorContext.CapturedForward<? extends String, ? extends Long>> forwards) {
        List<Object> found = new ArrayList<>();
        for (MockProcessorContext.CapturedForward<? extends String, ? extends Long> it : forwards) {
            found.add(List.of(
                    it.record().key(), it.record().value(), it.record().timestamp(), it.childName().orElse("")));
        }
        return found;
    }
}
