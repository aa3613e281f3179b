import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.internals.StreamTask;

/** Drives the driver's task without the commit that the driver does after each record. */
final class LateCommits {
    private final TopologyTestDriver driver;
    private final StreamTask task;
    private final Time clock;
    private final Map<String, TopicPartition> globals;
    private final Method partitionOf = method("getInputTopicOrPatternPartition", String.class);
    private final Method enqueue =
            method(
                    "enqueueTaskRecord",
                    String.class,
                    TopicPartition.class,
                    long.class,
                    byte[].class,
                    byte[].class,
                    Headers.class);
    private final Method update =
            method(
                    "processGlobalRecord",
                    TopicPartition.class,
                    long.class,
                    byte[].class,
                    byte[].class,
                    Headers.class);
    private final Method capture = method("captureOutputsAndReEnqueueInternalResults");
    private final Method commit = method("commit", Map.class);

    LateCommits(TopologyTestDriver driver) throws ReflectiveOperationException {
        this.driver = driver;
        task = Oracle.field(driver, TopologyTestDriver.class, "task");
        clock = Oracle.field(driver, TopologyTestDriver.class, "mockWallClockTime");
        globals = Oracle.field(driver, TopologyTestDriver.class, "globalPartitionsByInputTopic");
    }

    /** Process a record and what it sends to internal topics. */
    void pipe(JsonNode input) {
        String topic = input.required("topic").asText();
        if (globals.containsKey(topic)) {
            call(
                    update,
                    globals.get(topic),
                    input.required("timestamp").asLong(),
                    Oracle.bytes(input.required("key")),
                    Oracle.bytes(input.required("value")),
                    Oracle.headers(input));
            return;
        }
        call(
                enqueue,
                topic,
                call(partitionOf, topic),
                input.required("timestamp").asLong(),
                Oracle.bytes(input.required("key")),
                Oracle.bytes(input.required("value")),
                Oracle.headers(input));
        drain();
    }

    /** Advance the wall clock and call what is due; the driver would commit then. */
    void advance(long ms) {
        clock.sleep(ms);
        task.maybePunctuateSystemTime();
        drain();
    }

    /** Commit, process what the flush sent to internal topics, until nothing is left. */
    void settle() {
        do {
            call(commit, task.prepareCommit(true));
            task.postCommit(true);
        } while (drain());
    }

    private boolean drain() {
        boolean worked = false;
        call(capture);
        task.resumePollingForPartitionsWithAvailableSpace();
        task.updateLags();
        while (task.hasRecordsQueued() && task.isProcessable(clock.milliseconds())) {
            task.process(clock.milliseconds());
            task.maybePunctuateStreamTime();
            call(capture);
            worked = true;
        }
        return worked;
    }

    private Object call(Method method, Object... arguments) {
        try {
            return method.invoke(driver, arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException cause) throw cause;
            throw new IllegalStateException(error.getCause());
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Method method(String name, Class<?>... parameters) {
        try {
            Method method = TopologyTestDriver.class.getDeclaredMethod(name, parameters);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException error) {
            throw new IllegalStateException(error);
        }
    }
}
