"""Windows and sessions on a real broker: kills, and stores that are gone, change no result."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.reading import by_partition
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Serdes, SessionWindows, StreamsBuilder, TimeWindows, Window, Windowed
from headwater.ids import TaskId

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.kafka

TASK = TaskId(0, 0)
BEGIN = 1_700_000_000_000
TUMBLING = TimeWindows.of(size=10_000, grace=5_000)


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


def windows(app: str, *, persistent: bool) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        grouped = builder.stream(
            f"{app}-in", key_serde=Serdes.string, value_serde=Serdes.string
        ).group_by_key()
        tumbling = grouped.windowed_by(TUMBLING)
        tumbling.count(store="counts", persistent=persistent).to_stream().to(f"{app}-counts")
        sessions = grouped.windowed_by(SessionWindows.of(inactivity_gap=3_000, grace=5_000))
        sessions.count(store="sessions", persistent=persistent).to_stream().to(f"{app}-sessions")

    return build


def last(topics: Topics, topic: str, serde: Any) -> dict[Any, int | None]:
    """The last value of each key of a topic, tombstones left out."""
    decode, number = serde.deserializer(topic), Serdes.long.deserializer(topic)
    found: dict[Any, int | None] = {}
    for message in by_partition(topics.bootstrap_servers, topic):
        value = message.value()
        found[decode(message.key())] = None if value is None else number(value)
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.sampled
def test_kills_and_lost_stores_change_no_result(
    topics: Topics, unique_name: str, tmp_path: Path, *, persistent: bool
) -> None:
    for topic in ("in", "counts", "sessions", "counts-changelog", "sessions-changelog"):
        topics.create(f"{unique_name}-{topic}", 1)
    build = windows(unique_name, persistent=persistent)
    with ThreadRig(
        topics, unique_name, build, tmp_path, processing_guarantee="exactly_once_v2"
    ) as rig:
        for number, second in enumerate((0, 1, 2, 6, 9, 11, 14, 90, 91)):
            topics.send(
                f"{unique_name}-in", [("a", "x"), ("b", "x")], 0, timestamp_ms=BEGIN + second * 1000
            )
            rig.start(TASK)
            rig.wait_processed(2)
            if number % 3:
                rig.stop()
                if number % 3 == 2:
                    shutil.rmtree(tmp_path / unique_name, ignore_errors=True)
                continue
            offset = 2 * (number + 1)

            def is_committed(offset: int = offset) -> bool:
                return topics.committed(unique_name, f"{unique_name}-in")[0] == offset

            wait_for(is_committed, what="the commit")
            rig.kill()
        rig.start(TASK)
        rig.stop()

    def window(second: int) -> Window:
        start = BEGIN // 10_000 * 10_000 + second * 1000
        return Window(start, start + 10_000)

    def session(first: int, to: int) -> Window:
        return Window(BEGIN + first * 1000, BEGIN + to * 1000)

    counts = last(topics, f"{unique_name}-counts", Serdes.time_windowed(Serdes.string, 10_000))
    sessions = last(topics, f"{unique_name}-sessions", Serdes.session_windowed(Serdes.string))
    assert counts == {
        Windowed(key, window(second)): count
        for key in "ab"
        for second, count in ((0, 5), (10, 2), (90, 2))
    }
    assert sessions == {
        Windowed(key, span): count
        for key in "ab"
        for span, count in ((session(0, 2), 3), (session(6, 14), 4), (session(90, 91), 2))
    }
