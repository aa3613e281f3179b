"""A broker of a test's own, which may be killed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.local.broker import KafkaBroker

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
        reader.committed([TopicPartition("none", 0)], _COORDINATORS_S)
        reader.close()
        yield running
