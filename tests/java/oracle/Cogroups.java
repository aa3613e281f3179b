import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Grouped streams that share one aggregate. */
final class Cogroups {
    private Cogroups() {}

    static Object onCogroup(
            String op,
            CogroupedKStream<Object, Object> stream,
            KGroupedStream<Object, Object> other,
            JsonNode step) {
        switch (op) {
            case "cogroup": return stream.cogroup(other, Steps.aggregator(step, "fn"));
            case "windowed_by": return windowedBy(stream, step.required("windows"));
            case "aggregate": {
                Named named = Options.named(step);
                var init = Steps.initializer(step);
                Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> stored =
                        Options.materialized(step);
                if (stored == null) {
                    return named == null
                            ? stream.aggregate(init::get)
                            : stream.aggregate(init::get, named);
                }
                return named == null
                        ? stream.aggregate(init::get, stored)
                        : stream.aggregate(init::get, named, stored);
            }
            default: throw new Oracle.BadRequest("a cogrouped stream has no operation " + op);
        }
    }

    private static Object windowedBy(CogroupedKStream<Object, Object> stream, JsonNode windows) {
        Duration grace = WindowedSteps.millis(windows, "grace");
        switch (windows.required("kind").asText()) {
            case "time": {
                Duration size = WindowedSteps.millis(windows, "size");
                TimeWindows found = TimeWindows.ofSizeAndGrace(size, grace);
                return stream.windowedBy(
                        windows.has("advance")
                                ? found.advanceBy(WindowedSteps.millis(windows, "advance"))
                                : found);
            }
            case "unlimited":
                return stream.windowedBy(
                        UnlimitedWindows.of()
                                .startOn(Instant.ofEpochMilli(windows.path("start").asLong(0))));
            case "sliding":
                return stream.windowedBy(
                        SlidingWindows.ofTimeDifferenceAndGrace(
                                WindowedSteps.millis(windows, "difference"), grace));
            case "session":
                return stream.windowedBy(
                        SessionWindows.ofInactivityGapAndGrace(
                                WindowedSteps.millis(windows, "gap"), grace));
            default: throw new Oracle.BadRequest("no such windows: " + windows);
        }
    }

    static Object onWindows(TimeWindowedCogroupedKStream<Object, Object> stream, JsonNode step) {
        Named named = Options.named(step);
        var init = Steps.initializer(step);
        Materialized<Object, Object, WindowStore<Bytes, byte[]>> stored = WindowedSteps.stored(step);
        if (stored == null) {
            return named == null ? stream.aggregate(init::get) : stream.aggregate(init::get, named);
        }
        return named == null
                ? stream.aggregate(init::get, stored)
                : stream.aggregate(init::get, named, stored);
    }

    static Object onSessions(SessionWindowedCogroupedKStream<Object, Object> stream, JsonNode step) {
        Named named = Options.named(step);
        var init = Steps.initializer(step);
        var merge = Functions.find(Functions.MERGERS, "merger", step.required("merge").asText());
        Materialized<Object, Object, SessionStore<Bytes, byte[]>> stored = WindowedSteps.stored(step);
        if (stored == null) {
            return named == null
                    ? stream.aggregate(init::get, merge)
                    : stream.aggregate(init::get, merge, named);
        }
        return named == null
                ? stream.aggregate(init::get, merge, stored)
                : stream.aggregate(init::get, merge, named, stored);
    }
}
