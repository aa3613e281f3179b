"""Stores in memory, of the entries used last and of the user's own, are filled from changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kafka.test_source_topics import Broker
from tests.support.stores import DictStore
from tests.support.waiting import wait_for

from headwater import (
    KafkaStreams,
    KeyValueBytesStoreSupplier,
    Materialized,
    Serdes,
    Stores,
    StreamsBuilder,
)
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater import KeyValueBytesStore

pytestmark = pytest.mark.kafka


class Own(KeyValueBytesStoreSupplier):
    """Makes stores over dictionaries."""

    def get(self) -> KeyValueBytesStore:
        return DictStore()


def counting(topic: str, out: str, kind: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        stored: dict[str, Materialized[Any, Any]] = {
            "lru": Materialized.as_(Stores.lru_map("counts", 100)),
            "own": Materialized.as_(Own(name="counts")),
            "setting": Materialized.as_("counts"),
        }
        table = builder.stream(topic).group_by_key().count(stored[kind])
        table.to_stream().map_values(str).to(out, value_serde=Serdes.string)

    return build


@pytest.fixture
def broker(bootstrap_servers: str, unique_name: str) -> Iterator[Broker]:
    broker = Broker(bootstrap_servers, unique_name)
    yield broker
    broker.close()


@pytest.mark.parametrize("kind", ["lru", "own", "setting"])
def test_a_store_in_memory_goes_on_after_a_restart(
    broker: Broker, bootstrap_servers: str, unique_name: str, tmp_path: Path, kind: str
) -> None:
    config: dict[str, Any] = {
        "application.id": unique_name,
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(tmp_path / "state"),
        "default.key.serde": "string",
        "default.value.serde": "string",
        **({"dsl.store.suppliers.class": "in-memory"} if kind == "setting" else {}),
    }
    build = counting(broker.users, broker.out, kind)

    def run(sent: dict[str, str], expected: dict[str, list[str]]) -> None:
        with KafkaStreams(build, config) as streams:
            wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
            broker.send(broker.users, **sent)
            wait_for(lambda: broker.has_seen(**expected), what=f"{expected}")

    run({"a": "x", "b": "x"}, {"a": ["1"], "b": ["1"]})
    run({"a": "y"}, {"a": ["1", "2"], "b": ["1"]})

    assert not list((tmp_path / "state").glob("**/CURRENT"))
