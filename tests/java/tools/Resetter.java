import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.tools.StreamsResetter;

/**
 * Kafka's own tool for resets, kafka-streams-application-reset.
 *
 * <p>A line of JSON is a request with "arguments", answered with the tool's exit "code".
 */
public final class Resetter {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            List<String> given = new ArrayList<>();
            for (JsonNode one : JSON.readTree(line).get("arguments")) {
                given.add(one.asText());
            }
            int code = new StreamsResetter().execute(given.toArray(new String[0]));
            answers.println(JSON.createObjectNode().put("code", code));
        }
    }
}
