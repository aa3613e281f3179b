"""An application with many stores, which begins in one engine and goes on in the other.

They are on disk: stores of values, of values with timestamps, of windows (with timestamps and
without) and of sessions, each of these but the plain ones with headers, too; versioned tables;
tables that aggregate windows and sessions, at once and when they close; and what a suppression, a
join of streams, a join with grace and a join by a foreign key keep. Stores in memory and LRU maps
are not among them.

What the first has kept reaches the second by changelogs alone: each runs on an empty disk. Without
the changelogs no result is right.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.java.tool import Oracle
from tests.support.twins import SLOW_S, Output, Twins, in_order, outputs_of
from tests.support.waiting import wait_for

from headwater.state import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.java]

BEGIN = int(time.time()) // 10 * 10_000 - 600_000
"""Of today, or else the broker deletes entries of windows. Times of records count from here."""
JAVA_FORGETS = {("d", "waits+came late", 9_500), ("end", "end+null", 60_000)}
"""Java restores no record that waits in a join with grace, and has none wait afterwards."""
Sent = tuple[str, str, str, int]
WITHIN = {"before": 1_000, "after": 1_000, "grace": 2_000}
TUMBLING = {"kind": "time", "size": 10_000, "grace": 5_000}
SESSION = {"kind": "session", "gap": 2_000, "grace": 5_000}
KEPT_MS = 3_600_000


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """Java's test driver: what an application would put out that nobody stops."""
    running = Oracle()
    yield running
    running.close()


def steps(app: str) -> list[dict[str, Any]]:
    """The stores, each with an output topic of its own."""
    counted = {"op": "count", "on": "windows"}
    closing = {"op": "count", "on": "windows_to_close"}
    held: dict[str, dict[str, Any]] = {
        "values": {"timestamped": False},
        "stamped": {"timestamped": True},
        "windows": {"kind": "windows", "size": 1_000, "retention_ms": KEPT_MS},
        "plain_windows": {"kind": "windows", "size": 1_000, "retention_ms": KEPT_MS},
        "sessions": {"kind": "sessions", "retention_ms": KEPT_MS},
        "headers": {"headers": True},
        "window_headers": {"kind": "windows", "headers": True, "size": 1_000,
                           "retention_ms": KEPT_MS},
        "session_headers": {"kind": "sessions", "headers": True, "retention_ms": KEPT_MS},
    }  # fmt: skip
    held["plain_windows"]["timestamped"] = False
    versions = {"store": "versions", "history_ms": 60_000}
    left, right = ({"store": f"{side}-table"} for side in ("left", "right"))
    foreign = {"foreign_key": "first_letter", "table_joined": {"name": "fk"}}
    results: list[dict[str, Any]] = [
        *(
            {"id": f"held_{name}", "op": "process", "on": "in", "fn": "hold",
             "stores": [{"store": f"held-{name}", **store}]}
            for name, store in held.items()
        ),
        {"id": "counts", **counted, "materialized": {"store": "counts", "key": "string"}},
        {"id": "final", "op": "suppress", "on": "counts", "name": "final"},
        {"id": "sessions", "op": "count", "on": "session_windows",
         "materialized": {"store": "sessions"}},
        {"id": "closed", **closing, "materialized": {"store": "closing", "retention": 60_000}},
        {"id": "pairs", "op": "outer_join", "on": "in", "with": "other", "fn": "both",
         "windows": WITHIN, "stream_joined": {"store": "pairs", "name": "pairs"}},
        {"id": "valid", "op": "left_join", "on": "in", "with": "table", "fn": "both",
         "joined": {"grace_ms": 3_000, "name": "valid"}},
        {"id": "by_key", "op": "left_join", "on": "left", "with": "right", "fn": "both",
         **foreign, "materialized": {"store": "joined"}},
    ]  # fmt: skip
    read: list[dict[str, Any]] = [
        *(
            {"id": name, "op": "stream", "topics": [f"{app}-{name}"]}
            for name in ("in", "other", "closing")
        ),
        {"id": "table", "op": "table", "topic": f"{app}-table", "materialized": versions},
        {"id": "left", "op": "table", "topic": f"{app}-left", "materialized": left},
        {"id": "right", "op": "table", "topic": f"{app}-right", "materialized": right},
        {"id": "grouped", "op": "group_by_key", "on": "in"},
        {"id": "windows", "op": "windowed_by", "on": "grouped", "windows": TUMBLING},
        {"id": "session_windows", "op": "windowed_by", "on": "grouped", "windows": SESSION},
        {"id": "grouped_to_close", "op": "group_by_key", "on": "closing"},
        {"id": "windows_to_close", "op": "windowed_by", "on": "grouped_to_close",
         "windows": TUMBLING, "emit": "close"},
    ]  # fmt: skip
    return [*read, *(step for result in results for step in _written(app, result))]


def _written(app: str, result: dict[str, Any]) -> list[dict[str, Any]]:
    name = result["id"]
    is_table = name in {"counts", "final", "sessions", "closed", "by_key"}
    shown = {"op": "to_stream" if is_table else "select_key", "on": name, "fn": "key_text"}
    return [
        result,
        {"id": f"{name}_shown", **shown},
        {"id": f"{name}_text", "op": "map_values", "on": f"{name}_shown", "fn": "to_text"},
        {"id": f"{name}_out", "op": "to", "on": f"{name}_text", "topic": f"{app}-out-{name}",
         "produced": {"key": "string", "value": "string"}},
    ]  # fmt: skip


FIRST: list[Sent] = [
    ("table", "a", "t1", 0),
    ("table", "b", "u1", 1_000),
    ("table", "a", "t2", 2_000),
    ("in", "a", "x", 1_500),
    ("in", "b", "y", 1_600),
    ("other", "a", "o1", 1_700),
    ("in", "a", "z", 3_000),
    ("in", "c", "w", 3_500),
    ("other", "c", "waits", 9_000),
    ("other", "e", "alone", 9_100),
    ("in", "d", "waits", 9_500),
    ("closing", "a", "x", 1_000),
    ("closing", "b", "x", 9_000),
    ("right", "x", "X", 10),
    ("right", "y", "Y", 11),
    ("left", "1", "x1", 20),
    ("left", "2", "y2", 21),
    ("left", "3", "x3", 22),
    ("left", "4", "none", 23),
]
"""Windows, records without a partner and records that wait for their table are left open."""
THEN: list[Sent] = [
    ("in", "a", "goes on", 9_600),
    ("in", "a", "of the past", 1_900),
    ("in", "a", "again", 3_000),
    ("in", "d", "once more", 9_500),
    ("in", "c", "meets", 9_200),
    ("table", "d", "came late", 9_400),
    ("other", "d", "partner", 9_800),
    ("in", "c", "new window", 10_500),
    ("closing", "a", "y", 9_500),
    ("in", "end", "end", 60_000),
    ("other", "end", "end", 60_001),
    ("table", "end", "end", 60_002),
    ("closing", "end", "end", 20_000),
    ("right", "x", "XX", 60_000),
    ("right", "n", "N", 60_001),
]
NUDGES: list[Sent] = [("other", "nudge", "", 61_000), ("closing", "nudge", "", 21_000)]
"""A join and windows that close look once in a second for what is due, when a record comes."""


class Story:
    """The application's inputs and results."""

    def __init__(self, twins: Twins, oracle: Oracle) -> None:
        self.twins, self.oracle = twins, oracle
        self._nudges = 0

    def inputs(self, sent: Sequence[Sent]) -> list[dict[str, Any]]:
        return [
            {
                "topic": f"{self.twins.app}-{topic}",
                "key": key.encode().hex(),
                "value": value.encode().hex(),
                "timestamp": BEGIN + time,
                "headers": _headers(topic, key, value),
            }
            for topic, key, value, time in sent
        ]

    def expected(self) -> list[Output]:
        """What comes out if nobody stops."""
        parts = (in_order(self.inputs(part)) for part in (FIRST, THEN, NUDGES))
        inputs = [one for part in parts for one in part]
        return outputs_of(self.oracle.ask({**self.twins.request, "inputs": inputs}))

    def begin(self, engine: str) -> None:
        """Run with the first records; leave much open."""
        twins = self.twins
        twins.send(self.inputs(FIRST))
        joined = f"{twins.app}-out-by_key"
        with twins.runs(engine):
            wait_for(twins.has_read_all, what="the first records", timeout_s=SLOW_S)
            wait_for(
                lambda: sum(out.topic == joined for out in twins.outputs()) >= 4,
                what="the tables to be joined",
                timeout_s=SLOW_S,
            )

    def go_on(self, engine: str, nudges: int) -> list[Output]:
        """Run with the others; return what has come out, at the latest after so many nudges."""
        twins = self.twins
        twins.send(self.inputs(THEN))
        count = len(self.expected())

        def is_over() -> bool:
            if len(twins.outputs()) >= count or self._nudges == nudges:
                return True
            self._nudges += 1
            nudge = self.inputs(NUDGES)
            twins.send([{**it, "timestamp": it["timestamp"] + self._nudges} for it in nudge])
            return False

        with twins.runs(engine):
            wait_for(twins.has_read_all, what="the other records", timeout_s=SLOW_S)
            wait_for(is_over, what="all results", timeout_s=SLOW_S, every_s=1.1)
        return twins.outputs()


@pytest.fixture
def story(bootstrap_servers: str, unique_name: str, tmp_path: Path, oracle: Oracle) -> Story:
    request = {
        "app_id": unique_name,
        "config": {"statestore.cache.max.bytes": "0"},
        "key": "string",
        "value": "string",
        "steps": steps(unique_name),
    }
    return Story(Twins(bootstrap_servers, request, tmp_path), oracle)


BOTH_WAYS = pytest.mark.parametrize(("first", "second"), [("java", "ours"), ("ours", "java")])


@BOTH_WAYS
@pytest.mark.sampled
def test_every_store_goes_on_in_the_other_engine(
    story: Story, first: str, second: str, tmp_path: Path
) -> None:
    story.begin(first)

    found, expected = story.go_on(second, nudges=60), story.expected()

    for topic in sorted(story.twins.out):
        results = [_of(outputs, topic) for outputs in (found, expected)]
        if second == "java":
            results = [[it for it in one if it not in JAVA_FORGETS] for one in results]
        assert results[0] == results[1]
    # What was restored is what the task has opened.
    where = sorted(tmp_path.glob("state-*"))[second == "ours"]
    names = {it.store for it in StateDirectory(where, story.twins.app).stored()}
    assert {name for name in names if "headers" in name} == {
        f"held-{name}~headers" for name in ("headers", "window_headers", "session_headers")
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [("java", "ours"), pytest.param("ours", "java", marks=pytest.mark.soak)],
)
@pytest.mark.sampled
def test_without_changelogs_no_result_is_right(story: Story, first: str, second: str) -> None:
    """Planted: what the first has written is gone, so the second has nothing to go on from."""
    story.begin(first)
    _wipe(story.twins)

    found = story.go_on(second, nudges=5)

    expected = story.expected()
    right = {it for it in story.twins.out if _of(found, it) == _of(expected, it)}
    assert right == set()


def _headers(topic: str, key: str, value: str) -> list[list[str]]:
    """Headers of one record alone: a row with those of another one is seen."""
    own = f"{topic} {key} {value}".encode().hex()
    return [["h", own], ["h", ""]] if len(value) % 2 else [["of", own]]


def _of(outputs: Sequence[Output], topic: str) -> list[tuple[str, str, int]]:
    """Key, value and time of what came out in a topic."""

    def text(data: str | None) -> str:
        return "nothing" if data is None else bytes.fromhex(data).decode()

    return [
        (text(one.key), text(one.value), one.timestamp - BEGIN)
        for one in outputs
        if one.topic == topic
    ]


def _wipe(twins: Twins) -> None:
    """Make all changelogs anew, without records."""
    for topic in twins.changelogs():
        twins.topics.delete(topic)
        twins.topics.create(topic, cleanup_policy="compact")
