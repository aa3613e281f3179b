import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.ProcessorWrapper;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.WrappedFixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.WrappedProcessorSupplier;
import org.apache.kafka.streams.state.StoreBuilder;

/** Notes what it wraps, and how many records each processor is given. */
public final class Wrapper implements ProcessorWrapper {
    static final List<List<String>> WRAPPED = new ArrayList<>();
    static final Map<String, Integer> RECORDS = new TreeMap<>();

    static void forget() {
        WRAPPED.clear();
        RECORDS.clear();
    }

    @Override
    public <KIn, VIn, KOut, VOut> WrappedProcessorSupplier<KIn, VIn, KOut, VOut> wrapProcessorSupplier(
            String name, ProcessorSupplier<KIn, VIn, KOut, VOut> supplier) {
        WRAPPED.add(List.of(name, "any key"));
        return new WrappedProcessorSupplier<>() {
            @Override
            public Processor<KIn, VIn, KOut, VOut> get() {
                Processor<KIn, VIn, KOut, VOut> inner = supplier.get();
                return new Processor<>() {
                    @Override
                    public void init(ProcessorContext<KOut, VOut> context) {
                        inner.init(context);
                    }

                    @Override
                    public void process(Record<KIn, VIn> record) {
                        RECORDS.merge(name, 1, Integer::sum);
                        inner.process(record);
                    }

                    @Override
                    public void close() {
                        inner.close();
                    }
                };
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return supplier.stores();
            }
        };
    }

    @Override
    public <KIn, VIn, VOut> WrappedFixedKeyProcessorSupplier<KIn, VIn, VOut> wrapFixedKeyProcessorSupplier(
            String name, FixedKeyProcessorSupplier<KIn, VIn, VOut> supplier) {
        WRAPPED.add(List.of(name, "fixed key"));
        return new WrappedFixedKeyProcessorSupplier<>() {
            @Override
            public FixedKeyProcessor<KIn, VIn, VOut> get() {
                FixedKeyProcessor<KIn, VIn, VOut> inner = supplier.get();
                return new FixedKeyProcessor<>() {
                    @Override
                    public void init(FixedKeyProcessorContext<KIn, VOut> context) {
                        inner.init(context);
                    }

                    @Override
                    public void process(FixedKeyRecord<KIn, VIn> record) {
                        RECORDS.merge(name, 1, Integer::sum);
                        inner.process(record);
                    }

                    @Override
                    public void close() {
                        inner.close();
                    }
                };
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return supplier.stores();
            }
        };
    }
}
