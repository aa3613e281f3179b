import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Windows of grouped streams, and the aggregations within them. */
final class WindowedSteps {
    private WindowedSteps() {}

    static Object windowedBy(KGroupedStream<Object, Object> grouped, JsonNode step) {
        JsonNode windows = step.required("windows");
        boolean isFinal = step.has("emit") && step.get("emit").asText().equals("close");
        EmitStrategy emit = isFinal ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        Duration grace = millis(windows, "grace");
        switch (windows.required("kind").asText()) {
            case "time": {
                Duration size = millis(windows, "size");
                TimeWindows found = TimeWindows.ofSizeAndGrace(size, grace);
                if (windows.has("advance")) found = found.advanceBy(millis(windows, "advance"));
                TimeWindowedKStream<Object, Object> stream = grouped.windowedBy(found);
                return step.has("emit") ? stream.emitStrategy(emit) : stream;
            }
            case "unlimited": {
                UnlimitedWindows found = UnlimitedWindows.of();
                if (windows.has("start")) {
                    found = found.startOn(Instant.ofEpochMilli(windows.get("start").asLong()));
                }
                TimeWindowedKStream<Object, Object> stream = grouped.windowedBy(found);
                return step.has("emit") ? stream.emitStrategy(emit) : stream;
            }
            case "sliding": {
                Duration difference = millis(windows, "difference");
                TimeWindowedKStream<Object, Object> stream =
                        grouped.windowedBy(
                                SlidingWindows.ofTimeDifferenceAndGrace(difference, grace));
                return step.has("emit") ? stream.emitStrategy(emit) : stream;
            }
            case "session": {
                Duration gap = millis(windows, "gap");
                SessionWindowedKStream<Object, Object> stream =
                        grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(gap, grace));
                return step.has("emit") ? stream.emitStrategy(emit) : stream;
            }
            default: throw new Oracle.BadRequest("no such windows: " + windows);
        }
    }

    static Duration millis(JsonNode windows, String field) {
        return Duration.ofMillis(windows.path(field).asLong(0));
    }

    static Object onWindows(String op, TimeWindowedKStream<Object, Object> stream, JsonNode step) {
        Named named = Options.named(step);
        switch (op) {
            case "count": {
                Materialized<Object, Long, WindowStore<Bytes, byte[]>> stored = stored(step);
                if (stored == null) return named == null ? stream.count() : stream.count(named);
                return named == null ? stream.count(stored) : stream.count(named, stored);
            }
            case "reduce": {
                var fn = Functions.find(Functions.REDUCERS, "reducer", Steps.fn(step));
                Materialized<Object, Object, WindowStore<Bytes, byte[]>> stored = stored(step);
                if (stored == null) {
                    return named == null ? stream.reduce(fn::apply) : stream.reduce(fn::apply, named);
                }
                return named == null
                        ? stream.reduce(fn::apply, stored)
                        : stream.reduce(fn::apply, named, stored);
            }
            case "aggregate": {
                var init = Steps.initializer(step);
                var fn = Steps.aggregator(step, "fn");
                Materialized<Object, Object, WindowStore<Bytes, byte[]>> stored = stored(step);
                if (stored == null) {
                    return named == null
                            ? stream.aggregate(init::get, fn)
                            : stream.aggregate(init::get, fn, named);
                }
                return named == null
                        ? stream.aggregate(init::get, fn, stored)
                        : stream.aggregate(init::get, fn, named, stored);
            }
            default: throw new Oracle.BadRequest("a windowed stream has no operation " + op);
        }
    }

    static Object onSessions(
            String op, SessionWindowedKStream<Object, Object> stream, JsonNode step) {
        Named named = Options.named(step);
        switch (op) {
            case "count": {
                Materialized<Object, Long, SessionStore<Bytes, byte[]>> stored = stored(step);
                if (stored == null) return named == null ? stream.count() : stream.count(named);
                return named == null ? stream.count(stored) : stream.count(named, stored);
            }
            case "reduce": {
                var fn = Functions.find(Functions.REDUCERS, "reducer", Steps.fn(step));
                Materialized<Object, Object, SessionStore<Bytes, byte[]>> stored = stored(step);
                if (stored == null) {
                    return named == null ? stream.reduce(fn::apply) : stream.reduce(fn::apply, named);
                }
                return named == null
                        ? stream.reduce(fn::apply, stored)
                        : stream.reduce(fn::apply, named, stored);
            }
            case "aggregate": {
                var init = Steps.initializer(step);
                var fn = Steps.aggregator(step, "fn");
                var merge =
                        Functions.find(
                                Functions.MERGERS, "merger", step.required("merge").asText());
                Materialized<Object, Object, SessionStore<Bytes, byte[]>> stored = stored(step);
                if (stored == null) {
                    return named == null
                            ? stream.aggregate(init::get, fn, merge)
                            : stream.aggregate(init::get, fn, merge, named);
                }
                return named == null
                        ? stream.aggregate(init::get, fn, merge, stored)
                        : stream.aggregate(init::get, fn, merge, named, stored);
            }
            default: throw new Oracle.BadRequest("a stream of sessions has no operation " + op);
        }
    }

    /** The same options as of any store: what Java calls the type of the store is never looked at. */
    @SuppressWarnings("unchecked")
    static <T> T stored(JsonNode step) {
        Materialized<Object, ?, ?> stored = Options.materialized(step);
        JsonNode options = step.get("materialized");
        if (stored != null && options.has("retention")) {
            stored = stored.withRetention(Duration.ofMillis(options.get("retention").asLong()));
        }
        return (T) stored;
    }
}
