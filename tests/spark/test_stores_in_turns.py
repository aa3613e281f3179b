"""Stores of the user's own in tasks that Spark hosts: filled from changelogs where a task moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Materialized, Serdes, SessionWindows, StreamJoined, TimeWindows
from headwater.model.windows import JoinWindows
from headwater.spark.turns.hosting import Host
from tests.spark.test_live_task import Rig
from tests.support.custom_stores import MADE, AllOwn, OwnVersions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

DAY_MS = 86_400_000
LONG_MS = 10_000 * DAY_MS
"""Records of today, and of a day that follows, lie in one window of this length."""
STORES = ("windows", "sessions", "joined-this-join-store", "joined-other-join-store", "versions")


def every_kind(app: str) -> Callable[[StreamsBuilder], None]:
    """Windows, sessions, a join and versions, in stores of a user's own."""

    def build(builder: StreamsBuilder) -> None:
        out = f"{app}-out"
        texts: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        own: dict[str, Any] = {"store_type": AllOwn()}
        stream = builder.stream(f"{app}-a", **texts)
        group = stream.group_by_key()
        windows = group.windowed_by(TimeWindows.of(size=LONG_MS, grace=0))
        sessions = group.windowed_by(SessionWindows.of(inactivity_gap=LONG_MS, grace=0))
        for name, counts in (
            ("window", windows.count(store="windows", **own).to_stream()),
            ("session", sessions.count(store="sessions", **own).to_stream()),
        ):
            there = counts.filter(lambda _, count: count is not None)
            there.map(telling(name)).to(out, **texts)
        both = stream.join(
            stream,
            lambda one, other: f"{one}{other}",
            JoinWindows.of(before=DAY_MS, after=DAY_MS, grace=0),
            StreamJoined(store="joined", other_value_serde=Serdes.string, **texts, **own),
        )
        both.to(out, **texts)
        kept = Materialized.as_(OwnVersions(name="versions", history_retention_ms=LONG_MS))
        stream.to_table(kept, **texts)

    return build


def telling(name: str) -> Callable[[Any, int], tuple[str, str]]:
    """Return a function that tells of what there are so many."""
    return lambda _, count: ("k", f"{name} {count}")


def test_stores_of_ones_own_are_filled_where_their_task_goes_on(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    for name in ("a", "out", *(f"{store}-changelog" for store in STORES)):
        topics.create(f"{unique_name}-{name}")
    now_ms = time.time_ns() // 1_000_000
    for number, letter in enumerate("xyz"):
        topics.send(f"{unique_name}-a", [("k", letter)], 0, timestamp_ms=now_ms + number)
    rig = Rig(topics, unique_name, tmp_path, every_kind(unique_name))
    rig.take(1)
    rig.take(2, a=2)
    MADE.clear()

    moved = Host(rig.told).take(rig.turn(1, query=2, a=3))

    assert (moved.processed, moved.opened) == (1, True)
    assert len(MADE) == len(STORES)
    told = rig.out()
    assert [it for it in told if it.startswith("window")] == [f"window {n}" for n in (1, 2, 3)]
    assert [it for it in told if it.startswith("session")] == [f"session {n}" for n in (1, 2, 3)]
    joined = [it for it in told if " " not in it]
    assert joined == ["xx", "yx", "xy", "yy", "zx", "zy", "xz", "yz", "zz"]
    (versions,) = (made.held for made in MADE if hasattr(made, "forget"))
    assert sorted(versions.values()) == [b"x", b"y", b"z"]
