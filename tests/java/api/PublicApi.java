import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import org.apache.kafka.streams.StreamsBuilder;

/** Lists what programs for Kafka Streams may call: a line for each public method of each class. */
public final class PublicApi {
    private static final String STREAMS = "org.apache.kafka.streams.";
    private static final Set<String> PACKAGES =
            Set.of("kstream", "processor", "processor.api", "state");
    private static final Set<String> CLASSES =
            Set.of("AutoOffsetReset", "KafkaStreams", "StreamsBuilder", "Topology");

    private PublicApi() {}

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        Path jar =
                Path.of(
                        StreamsBuilder.class
                                .getProtectionDomain()
                                .getCodeSource()
                                .getLocation()
                                .getPath());
        Set<String> names;
        try (JarFile file = new JarFile(jar.toFile())) {
            names =
                    file.stream()
                            .map(entry -> entry.getName().replace('/', '.'))
                            .filter(name -> name.startsWith(STREAMS) && name.endsWith(".class"))
                            .map(name -> name.substring(0, name.length() - ".class".length()))
                            .filter(PublicApi::isListed)
                            .collect(Collectors.toCollection(TreeSet::new));
        }
        Set<String> lines = new TreeSet<>();
        for (String name : names) addLines(Class.forName(name), lines);
        lines.forEach(System.out::println);
    }

    private static boolean isListed(String name) {
        String outer = name.substring(STREAMS.length()).split("\\$", 2)[0];
        int dot = outer.lastIndexOf('.');
        return dot < 0 ? CLASSES.contains(outer) : PACKAGES.contains(outer.substring(0, dot));
    }

    private static void addLines(Class<?> type, Set<String> lines) {
        if (!isPublic(type)) return;
        String name = type.getName().substring(STREAMS.length()).replace('$', '.');
        lines.add(name + "\t");
        for (Method method : type.getMethods()) {
            boolean isObjects = method.getDeclaringClass() == Object.class || isOfObject(method);
            boolean isOfEnum = type.isEnum() && Set.of("valueOf", "values").contains(method.getName());
            boolean isOfBase =
                    !method.getDeclaringClass().getName().startsWith("org.apache.kafka.");
            if (method.isSynthetic() || isObjects || isOfEnum || isOfBase) continue;
            lines.add(name + "\t" + method.getName());
        }
        for (Field constant : type.getFields()) {
            if (constant.getDeclaringClass() == type) lines.add(name + "\t" + constant.getName());
        }
    }

    private static boolean isOfObject(Method method) {
        return Set.of("equals", "hashCode", "toString").contains(method.getName());
    }

    private static boolean isPublic(Class<?> type) {
        for (Class<?> each = type; each != null; each = each.getEnclosingClass()) {
            if (!Modifier.isPublic(each.getModifiers())) return false;
        }
        return !type.isAnonymousClass() && !type.isSynthetic();
    }
}
