"""Writes lines of text to ``TextLinesTopic``: ``python3 -m examples.word_count.feed LINE...``.

The brokers are those of the variable ``KAFKA``.
"""

import os
import sys

from confluent_kafka import KafkaError, Message, Producer


def main(lines: list[str]) -> None:
    if "KAFKA" not in os.environ:
        sys.exit("error: set KAFKA to the address of a broker, for example localhost:9092")
    # Without this a record with a key goes to another partition than from a Java producer.
    settings = {"bootstrap.servers": os.environ["KAFKA"], "partitioner": "murmur2_random"}
    producer = Producer(settings)
    refused: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        # The client lets no SystemExit out of a callback, so it is raised after flush().
        if error is not None:
            refused.append(f"error: {message.topic()}: {error}")

    for line in lines:
        producer.produce("TextLinesTopic", value=line.encode(), on_delivery=delivered)
    left = producer.flush(60)
    if left:
        sys.exit(f"error: {left} lines were not written: does {os.environ['KAFKA']} answer?")
    if refused:
        sys.exit(refused[0])
    print(f"{len(lines)} lines are written")


if __name__ == "__main__":
    main(sys.argv[1:])
