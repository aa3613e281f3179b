"""A program hears how its stores are restored, and deletes them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import wait_for
from tests.support.worker import Counting

from headwater import KafkaStreams, Serdes, StateRestoreListener
from headwater.errors import ConfigError
from headwater.state import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder
    from headwater.ids import TopicPartition

pytestmark = pytest.mark.kafka


class Heard(StateRestoreListener):
    """Keeps what it is told, and raises when a restore has ended."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, TopicPartition], list[tuple[Any, ...]]] = defaultdict(list)

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting: int, ending: int
    ) -> None:
        self.told[store_name, topic_partition].append(("start", starting, ending))

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, end: int, restored: int
    ) -> None:
        self.told[store_name, topic_partition].append(("batch", end, restored))

    def on_restore_end(
        self, topic_partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        self.told[store_name, topic_partition].append(("end", total_restored))
        raise RuntimeError("this one is logged")


def _counts(topic: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        grouped = builder.stream(
            topic, key_serde=Serdes.string, value_serde=Serdes.string
        ).group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
        grouped.count(store="counts", key_serde=Serdes.string).to_stream().to(
            f"{topic}-counts", key_serde=Serdes.string, value_serde=Serdes.long
        )
        grouped.count(store="in-memory", key_serde=Serdes.string, persistent=False)
        builder.global_table(
            f"{topic}-names", store="names", key_serde=Serdes.string, value_serde=Serdes.string
        )

    return build


@pytest.mark.sampled
def test_a_program_deletes_its_stores_and_hears_how_they_are_restored(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counting = Counting(bootstrap_servers, unique_name, changelog=False)
    names = f"{counting.topic}-names"
    counting.create(names, 1, **{"cleanup.policy": "compact"})
    for name in ("a", "b", "c"):
        counting._producer.produce(names, name, name)
    counting.send(40, keys=4)
    config = {
        "application.id": counting.application_id,
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "statestore.cache.max.bytes": 0,
        "state.dir": str(tmp_path / "state"),
    }
    directory = StateDirectory(tmp_path / "state", counting.application_id)
    with KafkaStreams(_counts(counting.topic), config) as streams:
        wait_for(counting.all_counted, what="all counts")
        with pytest.raises(ConfigError, match="clean_up: the application is RUNNING"):
            streams.clean_up()
    assert {stored.store for stored in directory.stored()} == {"counts"}

    streams.clean_up()

    assert [path.name for path in directory.path.iterdir() if path.is_dir()] == []

    heard, streams = Heard(), KafkaStreams(_counts(counting.topic), config)
    streams.clean_up()  # there is nothing; that is well
    streams.set_global_state_restore_listener(heard)
    with streams:
        counting.send(40, keys=4)
        wait_for(counting.all_counted, what="all counts")
        with pytest.raises(ConfigError, match="before start"):
            streams.set_global_state_restore_listener(heard)

    restored = {(store, where.partition): told for (store, where), told in heard.told.items()}
    assert set(restored) == {
        ("names", 0),
        *((store, number) for store in ("counts", "in-memory") for number in (0, 1)),
    }
    assert restored["names", 0] == [("start", 0, 3), ("batch", 2, 3), ("end", 3)]
    for (store, _), told in restored.items():
        (_, starting, ending), *batches, (_, total) = told
        assert [kind for kind, *_ in told] == ["start", *["batch"] * len(batches), "end"], store
        assert (starting, total) == (0, sum(count for _, _, count in batches))
        assert max(offset for _, offset, _ in batches) < ending
        # Of two keys each partition has the counts: one for each commit that has changed them.
        assert total >= 2
    assert "the state restore listener raised in on_restore_end" in caplog.text
