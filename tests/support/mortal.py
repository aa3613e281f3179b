"""A broker of a test's own, which may be killed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headwater.kafka.errors import UNREACHABLE, error_of
from headwater.local.broker import KafkaBroker
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COORDINATORS_S = 120


@contextmanager
def mortal_broker(directory: Path) -> Iterator[KafkaBroker]:
    """Run a broker whose coordinators are there.

    The first one to ask for them has to wait for their topics to be made: longer than programs do
    that are to give a dead broker up soon.
    """
    with KafkaBroker(directory, heap_mb=256) as running:
        servers = {"bootstrap.servers": running.bootstrap_servers}
        Producer({**servers, "transactional.id": "first"}).init_transactions(_COORDINATORS_S)
        reader = Consumer({**servers, "group.id": "first"})
        wait_for(lambda: _knows(reader), what="the group's coordinator", timeout_s=_COORDINATORS_S)
        reader.close()
        yield running


def _knows(reader: Consumer) -> bool:
    """Whether the group's coordinator answers; a new one says for a while that it is none."""
    try:
        reader.committed([TopicPartition("none", 0)], _COORDINATORS_S)
    except KafkaException as raised:
        if error_of(raised).code() not in UNREACHABLE:
            raise
        return False
    return True
