import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Avro in Confluent's frame, by Avro's own library: byte 0, the schema's number as int32, the record.
 *
 * <p>A line of JSON is a request with "registry" and either "subject", "schema" and "value" (as Avro's
 * JSON), answered with "bytes" (hexadecimal), or "bytes", answered with "value".
 */
public final class ConfluentFramed {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    public static void main(String[] arguments) throws IOException, InterruptedException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            if (request.has("value")) {
                answer.put("bytes", HEX.formatHex(written(request)));
            } else {
                answer.set("value", JSON.readTree(read(request)));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static byte[] written(JsonNode request) throws IOException, InterruptedException {
        Schema schema = new Schema.Parser().parse(request.get("schema").textValue());
        String subject = request.get("subject").textValue();
        String body = JSON.writeValueAsString(JSON.createObjectNode().put("schema", schema.toString()));
        HttpRequest.Builder post =
                HttpRequest.newBuilder(URI.create(
                                request.get("registry").textValue() + "/subjects/" + subject + "/versions"))
                        .header("Content-Type", "application/vnd.schemaregistry.v1+json")
                        .POST(HttpRequest.BodyPublishers.ofString(body));
        int number = asked(post).get("id").intValue();
        ByteArrayOutputStream frame = new ByteArrayOutputStream();
        DataOutputStream head = new DataOutputStream(frame);
        head.writeByte(0);
        head.writeInt(number);
        Object record =
                new GenericDatumReader<Object>(schema)
                        .read(null, DecoderFactory.get()
                                .jsonDecoder(schema, request.get("value").toString()));
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(frame, null);
        new GenericDatumWriter<Object>(schema).write(record, encoder);
        encoder.flush();
        return frame.toByteArray();
    }

    private static String read(JsonNode request) throws IOException, InterruptedException {
        byte[] data = HEX.parseHex(request.get("bytes").textValue());
        ByteBuffer frame = ByteBuffer.wrap(data);
        if (frame.get() != 0) {
            throw new IllegalArgumentException("no frame of Confluent's");
        }
        String url = request.get("registry").textValue() + "/schemas/ids/" + frame.getInt();
        Schema schema =
                new Schema.Parser().parse(asked(HttpRequest.newBuilder(URI.create(url))).get("schema").textValue());
        return String.valueOf(
                new GenericDatumReader<Object>(schema)
                        .read(null, DecoderFactory.get()
                                .binaryDecoder(Arrays.copyOfRange(data, 5, data.length), null)));
    }

    private static JsonNode asked(HttpRequest.Builder request) throws IOException, InterruptedException {
        return JSON.readTree(HTTP.send(request.build(), BodyHandlers.ofString()).body());
    }
}
