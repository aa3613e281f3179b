"""Stores in memory, of the entries used last and of the user's own, are filled from changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kafka.test_source_topics import Broker
from tests.support.custom_stores import OwnKeyValues, OwnSessions, OwnVersions, OwnWindows
from tests.support.waiting import wait_for

from headwater import (
    JoinWindows,
    KafkaStreams,
    Materialized,
    Serdes,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater import KTable

pytestmark = pytest.mark.kafka


def counting(topic: str, out: str, kind: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        stored: dict[str, Materialized[Any, Any]] = {
            "lru": Materialized.as_(Stores.lru_map("counts", 100)),
            "own": Materialized.as_(OwnKeyValues(name="counts")),
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


def config_of(servers: str, name: str, state: Path) -> dict[str, Any]:
    return {
        "application.id": name,
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(state),
        "default.key.serde": "string",
        "default.value.serde": "string",
    }


@pytest.mark.parametrize("kind", ["lru", "own", "setting"])
def test_a_store_in_memory_goes_on_after_a_restart(
    broker: Broker, bootstrap_servers: str, unique_name: str, tmp_path: Path, kind: str
) -> None:
    config = config_of(bootstrap_servers, unique_name, tmp_path / "state")
    if kind == "setting":
        config["dsl.store.suppliers.class"] = "in-memory"
    build = counting(broker.users, broker.out, kind)

    def run(sent: dict[str, str], expected: dict[str, list[str]]) -> None:
        with KafkaStreams(build, config) as streams:
            wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
            broker.send(broker.users, **sent)
            wait_for(lambda: broker.has_seen(**expected), what=f"{expected}")

    run({"a": "x", "b": "x"}, {"a": ["1"], "b": ["1"]})
    run({"a": "y"}, {"a": ["1", "2"], "b": ["1"]})

    assert not list((tmp_path / "state").glob("**/CURRENT"))


FOREVER_MS = 10_000 * 86_400_000
"""Records of today, and of a day that follows, lie in one window of this length."""


def tell(counts: KTable[Any, int], name: str, out: str) -> None:
    """Write counts under a name."""
    told = counts.to_stream().filter(lambda _, count: count is not None)
    told.map(lambda _, count: (name, f"{count}")).to(out)


def every_kind(users: str, clicks: str, out: str) -> Callable[[StreamsBuilder], None]:
    """Windows, sessions, versions and both sides of a join, in stores of a user's own."""

    def build(builder: StreamsBuilder) -> None:
        own = OwnVersions(name="users", history_retention_ms=FOREVER_MS)
        table = builder.table(users, materialized=Materialized.as_(own))
        table.to_stream().map_values(lambda user: f"is {user}").to(out)
        stream = builder.stream(clicks)
        stream.join(table, lambda click, user: f"{click} by {user}").to(out)
        span: dict[str, Any] = {"retention_ms": FOREVER_MS, "window_size_ms": FOREVER_MS}
        windows = TimeWindows.of(size=FOREVER_MS, grace=0)
        sessions = SessionWindows.of(inactivity_gap=FOREVER_MS, grace=0)
        group = stream.group_by_key()
        by_window = group.windowed_by(windows).count(Materialized.as_(OwnWindows(name="w", **span)))
        by_session = group.windowed_by(sessions).count(
            Materialized.as_(OwnSessions(name="s", retention_ms=FOREVER_MS))
        )
        tell(by_window, "windows", out)
        tell(by_session, "sessions", out)
        span = {"retention_ms": 2 * 86_400_000, "window_size_ms": 2 * 86_400_000}
        day = JoinWindows.of(before=86_400_000, after=86_400_000, grace=0)
        settings = (
            StreamJoined()
            .with_this_store_supplier(OwnWindows(name="left", retain_duplicates=True, **span))
            .with_other_store_supplier(OwnWindows(name="right", retain_duplicates=True, **span))
        )
        both = stream.join(stream, lambda one, other: f"{one}{other}", day, settings)
        both.map(lambda _, value: ("joined", value)).to(out)

    return build


def test_stores_of_ones_own_of_every_kind_go_on_after_a_restart(
    broker: Broker, bootstrap_servers: str, unique_name: str, tmp_path: Path
) -> None:
    config = config_of(bootstrap_servers, unique_name, tmp_path / "state")
    config["statestore.cache.max.bytes"] = 0
    build = every_kind(broker.users, broker.clicks, broker.out)
    expected = {"a": ["is ann"]}

    def run(click: str, joined: list[str], number: str) -> None:
        with KafkaStreams(build, config) as streams:
            wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=60)
            wait_for(lambda: broker.has_seen(**expected), what=f"{expected}")
            broker.send(broker.clicks, a=click)
            for name, told in (
                ("a", [f"{click} by ann"]),
                ("windows", [number]),
                ("sessions", [number]),
                ("joined", joined),
            ):
                expected[name] = [*expected.get(name, []), *told]
            wait_for(lambda: broker.has_seen(**expected), what=f"{expected}")

    broker.send(broker.users, a="ann")
    run("x", ["xx"], "1")
    run("y", ["yx", "xy", "yy"], "2")

    assert not list((tmp_path / "state").glob("**/CURRENT"))
