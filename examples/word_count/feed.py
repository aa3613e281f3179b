"""Writes lines of text to ``TextLinesTopic``: ``python3 -m examples.word_count.feed LINE...``.

The brokers are those of the variable ``KAFKA``.
"""

import os
import sys

from confluent_kafka import KafkaError, Message, Producer


def refused(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        sys.exit(f"error: {message.topic()}: {error}")


def main(lines: list[str]) -> None:
    if "KAFKA" not in os.environ:
        sys.exit("error: set KAFKA to the address of a broker, for example localhost:9092")
    # Without this a record with a key goes to another partition than from a Java producer.
    settings = {"bootstrap.servers": os.environ["KAFKA"], "partitioner": "murmur2_random"}
    producer = Producer(settings)
    for line in lines:
        producer.produce("TextLinesTopic", value=line.encode(), on_delivery=refused)
    left = producer.flush(60)
    if left:
        sys.exit(f"error: {left} lines were not written: does {os.environ['KAFKA']} answer?")
    print(f"{len(lines)} lines are written")


if __name__ == "__main__":
    main(sys.argv[1:])
