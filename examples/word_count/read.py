"""Prints ``WordsWithCountsTopic`` up to its end: ``python3 -m examples.word_count.read``.

The brokers are those of the variable ``KAFKA``.
"""

import os
import struct
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

TOPIC = "WordsWithCountsTopic"


def main() -> None:
    if "KAFKA" not in os.environ:
        sys.exit("error: set KAFKA to the address of a broker, for example localhost:9092")
    # It commits nothing; of a transaction, it reads what is committed.
    settings = {
        "bootstrap.servers": os.environ["KAFKA"],
        "group.id": "reading",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    partitions = consumer.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions
    if not partitions:
        sys.exit(f"error: there is no topic {TOPIC}")
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in partitions])
    unread = len(partitions)
    while unread:
        message = consumer.poll(60)
        if message is None:
            sys.exit(f"error: {os.environ['KAFKA']} does not answer")
        error = message.error()
        if error is None:
            # Serdes.string and Serdes.long, as Java writes them.
            key, value = message.key() or b"", message.value() or b""
            print(key.decode(), struct.unpack(">q", value)[0])
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
            unread -= 1
        else:
            sys.exit(f"error: {error}")
    consumer.close()


if __name__ == "__main__":
    main()
