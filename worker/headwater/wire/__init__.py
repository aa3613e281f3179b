"""Byte layouts shared with Kafka Streams. Pure: bytes in, values out."""
