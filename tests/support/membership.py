"""Somebody else in an application's consumer group."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Consumer

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def member(bootstrap_servers: str, group: str, topic: str, name: str) -> Iterator[Consumer]:
    """Be a member of a group inside the block, with partitions of a topic, as a Java client is."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "client.id": name,
            # Whoever comes next would take what it has read for read by the application.
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])

        def has_joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_for(has_joined, what=f"{name} to be a member of {group}", timeout_s=300)
        yield consumer
    finally:
        consumer.close()
