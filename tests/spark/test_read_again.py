"""A backfill of an application that writes to a topic and reads it again misses none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from confluent_kafka import Producer

from headwater import KafkaStreams, Serdes
from headwater.errors import BackfillError
from headwater.native.application import ApplicationSettings
from headwater.spark.application import BackfillSettings
from headwater.spark.backfill import Backfill
from tests.support.backfills import PATIENCE_S, Here, Listener
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3_600)]

HOUR_MS = 3_600_000
RECORDS = [(f"key-{number % 3}", "v") for number in range(12)]
COUNTS = {"key-0": 4, "key-1": 4, "key-2": 4}


def counts_again(source: str, mid: str) -> Callable[[StreamsBuilder], None]:
    """Write to ``mid`` what has come by a repartition topic, and count what is read there."""

    def build(builder: StreamsBuilder) -> None:
        texts: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        builder.stream(source, **texts).repartition(name="sent", **texts).to(mid, **texts)
        again = builder.stream(mid, **texts).group_by_key(**texts)
        again.count(store="counts", key_serde=Serdes.string)

    return build


def abort_one(topics: Topics, topic: str) -> None:
    """Leave two offsets that nobody sees: a record that was given up, and the end of that."""
    settings = {"bootstrap.servers": topics.bootstrap_servers, "log_level": 0}
    producer = Producer({**settings, "transactional.id": f"{topic}-aborted"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"never", b"key")
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    topics.wait_settled(topic)


def test_a_backfill_begins_only_where_its_own_outputs_are_all_there(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    source, mid = topics.create(f"{unique_name}-in"), topics.create(f"{unique_name}-mid")
    build = counts_again(source, mid)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": topics.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(tmp_path),
    }

    def backfill(until: int | None = None) -> Backfill:
        told = BackfillSettings(
            application=ApplicationSettings(config=config, topology=cloudpickle.dumps(build)),
            until=until,
        )
        return Backfill(told, Here(), Listener())

    def counts() -> dict[str, int]:
        changelog = f"{unique_name}-counts-changelog"
        is_there = changelog in topics.admin.list_topics(timeout=30).topics
        return topics.counts(changelog) if is_there else {}

    def refused(wanted: Backfill, words: str) -> None:
        for attempt in (wanted.plan, wanted.run):
            with pytest.raises(BackfillError, match=words):
                attempt()

    # With nothing to read there is nothing that could be missing.
    assert backfill().plan().manifest.cut.keys()
    topics.send(source, RECORDS[:6], timestamp_ms=HOUR_MS - 1)
    topics.send(source, RECORDS[6:], timestamp_ms=HOUR_MS)
    lacking = f"writes to {mid} and reads it again.*{source}-0 up to offset 0, .* end at 12, "
    refused(backfill(), lacking)
    assert f"{unique_name}-backfill-manifest" not in topics.admin.list_topics(timeout=30).topics

    with KafkaStreams(build, config):
        wait_for(lambda: counts() == COUNTS, what="every record", timeout_s=PATIENCE_S)
    committed = topics.committed(unique_name, source)
    assert committed == {0: len(RECORDS)}
    refused(backfill(until=HOUR_MS), f"write to {mid} once more .* leave out --to")
    assert topics.committed(unique_name, source) == committed

    abort_one(topics, source)

    backfill().run()

    assert topics.committed(unique_name, source) == {0: len(RECORDS) + 2}
    assert counts() == COUNTS
    assert len(topics.read(mid)) == len(RECORDS)

    # What nobody has processed yet is missing again.
    topics.send(source, RECORDS, timestamp_ms=HOUR_MS)
    refused(backfill(), r"up to offset 14, the backfill would end at 26")
