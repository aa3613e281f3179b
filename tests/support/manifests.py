"""Manifests of backfills as some driver has left them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from headwater.ids import TopicPartition
from headwater.kafka.driver_topic import MANIFEST_KEY
from headwater.model.backfill import BackfillState, Manifest, manifest_topic

if TYPE_CHECKING:
    from tests.support.thread_rig import Topics


def manifest(state: BackfillState, **fields: Any) -> Manifest:
    given: dict[str, Any] = {
        "generation": "abc123",
        "attempt": 1,
        "topology": "hash",
        "begun_ms": 1_700_000_000_000,
        "outputs": "none",
        "start": {TopicPartition("in", 0): 0},
        "cut": {TopicPartition("in", 0): 10},
        **fields,
    }
    return Manifest(state=state, **given)


def leave(topics: Topics, application_id: str, data: bytes, *, key: bytes = MANIFEST_KEY) -> None:
    """Write ``data`` where a manifest would be; the topic exists."""
    producer = Producer({"bootstrap.servers": topics.bootstrap_servers, "log_level": 0})
    producer.produce(manifest_topic(application_id), data, key, 0)
    assert producer.flush(60) == 0
