"""A versioned table and records that wait for it, restored from their changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Serdes, StreamsBuilder
from headwater.ids import TaskId

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.kafka

FIRST = TaskId(0, 0)


def joining(app: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        strings: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        table = builder.table(f"{app}-tab", store="v", history_retention=1_000, **strings)
        (
            builder.stream(f"{app}-in", **strings)
            .left_join(table, lambda value, found: f"{value} {found}", name="meet", grace=100)
            .to(f"{app}-out", **strings)
        )

    return build


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_what_was_valid_and_what_waits_come_back_from_changelogs(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, guarantee: str
) -> None:
    topics = Topics(bootstrap_servers)
    for topic in ("in", "tab", "out"):
        topics.create(f"{unique_name}-{topic}")
    for store in ("v", "meet-Buffer"):
        topics.create(f"{unique_name}-{store}-changelog", cleanup_policy="compact")

    def send(topic: str, value: str, time: int) -> None:
        topics.send(f"{unique_name}-{topic}", [("k", value)], timestamp_ms=time)

    def out() -> list[str]:
        return [value.decode() for _, value in topics.read(f"{unique_name}-out")]

    def committed(topic: str) -> int:
        return topics.committed(unique_name, f"{unique_name}-{topic}")[0]

    build = joining(unique_name)
    with ThreadRig(
        topics, unique_name, build, tmp_path / "first", processing_guarantee=guarantee
    ) as rig:
        rig.start(FIRST)
        for value, time in (("x", 1_000), ("z", 1_200), ("y", 1_100)):
            send("tab", value, time)
        wait_for(lambda: committed("tab") == 3, what="the table's updates")
        send("in", "waits", 1_150)
        wait_for(lambda: committed("in") == 1, what="the record that waits")
        assert out() == []
        rig.stop()

    with ThreadRig(
        topics, unique_name, build, tmp_path / "second", processing_guarantee=guarantee
    ) as rig:
        rig.start(FIRST)
        send("in", "lets go", 1_250)
        send("in", "is last", 1_400)
        wait_for(lambda: len(out()) == 2, what="what was let go")
        assert out() == ["waits y", "lets go z"]
        rig.stop()
