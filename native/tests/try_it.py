"""Without a broker: librdkafka loads the plug-in and hands its clients over."""

import confluent_kafka
import headwater_native
from confluent_kafka import Consumer, Producer, cimpl


def refuse(code: int) -> None:
    """Raise an error of the client."""
    raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(code))


assert headwater_native.find(cimpl.__file__) == confluent_kafka.libversion()[0]
plugin = {"plugin.library.paths": headwater_native.plugin_path(), "log_level": 0}

headwater_native.expect(False)  # noqa: FBT003 - by position only
producer = Producer(plugin)
writer = headwater_native.RecordWriter(producer, refuse)
writer.produce("a-topic", b"value", b"key", -1, None, None, 0, [("name", b"data"), ("none", None)])
send = writer.sender("a-topic", refuse, refuse).send
send(None, b"", 1, None, None)
assert len(producer) == 2
producer.purge()
producer.flush(5)
assert len(producer) == 0
assert not writer.take_failures()
writer.close()

headwater_native.expect(False)  # noqa: FBT003 - by position only
consumer = Consumer({**plugin, "group.id": "a-group"})
reader = headwater_native.RecordReader(consumer, 10)
reader.follow("a-topic", 0)
assert reader.read(10) == ([], [], 0)
reader.leave("a-topic", 0)
reader.close()
consumer.close()
