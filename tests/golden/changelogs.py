"""What Java writes to changelogs and internal topics, for every kind of store.

``python -m tests.golden.record`` writes ``changelogs/*.jsonl`` from Java: each line is a record,
with hexadecimal bytes. ``CASES`` has the topology and the records that are put in, in the oracle's
language (``tests/oracle/FORMAT.md``). No key is updated twice within a commit, so that what we
write is Java's record for record.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DIRECTORY: Final = Path(__file__).parent / "changelogs"
DAY_MS: Final = 86_400_000

STREAM: Final = {"id": "s", "op": "stream", "topics": ["in"]}
OTHER: Final = {"id": "o", "op": "stream", "topics": ["other"]}
TABLE: Final = {"id": "t", "op": "table", "topic": "tab", "materialized": {"store": "table"}}
GROUPED: Final = {"id": "g", "op": "group_by_key", "on": "s"}
COUNTED: Final = {
    "id": "c",
    "op": "count",
    "on": "w",
    # Without the key's serde Java's suppression takes the default one, of keys without windows.
    "materialized": {"store": "counts", "key": "string"},
}

Sent = tuple[str, str | None, str | None, int]


def _hex(text: str | None) -> str | None:
    return None if text is None else text.encode().hex()


def case(steps: Sequence[Mapping[str, Any]], sent: Iterable[Sent], **config: str) -> dict[str, Any]:
    """A request whose results go to the topic ``out``, as text.

    Args:
        steps: all but the last two.
        sent: topic, key, value and timestamp of each record; every third has a header.
        config: of the application.
    """
    inputs: list[dict[str, Any]] = [
        {"topic": topic, "key": _hex(key), "value": _hex(value), "timestamp": timestamp}
        for topic, key, value, timestamp in sent
    ]
    for record in inputs[::3]:
        record["headers"] = [["h", "00ff"], ["none", None]]
    return {
        "app_id": "app",
        "config": {"statestore.cache.max.bytes": "0", **config},
        "key": "string",
        "value": "string",
        "steps": [*steps, *_sunk(steps[-1])],
        "inputs": inputs,
    }


TABLES: Final = {"table", "count", "reduce", "aggregate", "suppress", "map_values"}


def _sunk(last: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What turns keys and values of any type into text and writes them."""
    is_table = last["op"] in TABLES or "foreign_key" in last
    shown = {"id": "shown", "op": "to_stream" if is_table else "select_key", "on": last["id"]}
    return [
        {**shown, "fn": "key_text"},
        {"id": "text", "op": "map_values", "on": "shown", "fn": "to_text"},
        {"id": "out", "op": "to", "on": "text", "topic": "out", "produced": {"value": "string"}},
    ]


def _windowed(windows: Mapping[str, Any], **emit: str) -> list[dict[str, Any]]:
    return [
        STREAM,
        GROUPED,
        {"id": "w", "op": "windowed_by", "on": "g", "windows": windows, **emit},
    ]


def _held(**store: Any) -> list[dict[str, Any]]:
    stores = [{"store": "held", **store}]
    return [STREAM, {"id": "p", "op": "process", "on": "s", "fn": "hold", "stores": stores}]


def _joined(op: str) -> list[dict[str, Any]]:
    windows = {"before": 10, "after": 20, "grace": 30}
    named = {"name": "pair", "store": "pair"}
    join = {"id": "j", "op": op, "on": "s", "with": "o", "fn": "both", "windows": windows}
    return [STREAM, OTHER, {**join, "stream_joined": named}]


def _by_foreign_key(op: str) -> list[dict[str, Any]]:
    other = {"id": "u", "op": "table", "topic": "others", "materialized": {"store": "others"}}
    join = {"id": "j", "op": op, "on": "t", "with": "u", "foreign_key": "first_letter"}
    named = {"table_joined": {"name": "fk"}, "materialized": {"store": "joined"}}
    return [TABLE, other, {**join, "fn": "both", **named}]


VALUES: Final[list[Sent]] = [
    ("in", "a", "x", 1_000),
    ("in", "b", "yy", 1_004),
    ("in", "a", "ä€", 1_002),
    ("in", "", "", 1_010),
    ("in", "b", None, 1_004),
    ("in", "a", "late", 3),
    ("in", "a", "x", 70_000),
    ("in", "c", "zzz", DAY_MS),
    ("in", "a", None, 70_000),
    ("in", "c", "q", DAY_MS + 3),
]
PAIRS: Final[list[Sent]] = [
    ("in", "a", "1", 1_000),
    ("in", "a", "2", 1_000),
    ("other", "a", "x", 1_005),
    ("in", "b", "3", 1_010),
    ("in", "b", "4", 1_010),
    ("other", "c", "y", 1_012),
    ("in", "c", "5", 1_014),
    ("other", "d", "ä", 1_040),
    ("in", "d", "late", 900),
    ("in", "e", "closes", 1_200),
    ("other", "e", "closes", 1_195),
    ("other", "f", "z", 200_000),
]
NO_VALUE: Final[list[Sent]] = [
    ("other", "c", "y", 1_012),
    ("other", "c", None, 1_013),
    ("other", "c", "z", 1_014),
]
UPDATES: Final[list[Sent]] = [
    ("others", "x", "X", 10),
    ("tab", "1", "x1", 11),
    ("tab", "2", "y2", 12),
    ("others", "y", "Y", 13),
    ("tab", "1", "y1", 9),
    ("tab", "3", "x3", 20),
    ("others", "x", None, 21),
    ("tab", "2", None, 22),
    ("others", "y", "YY", 23),
    ("tab", "4", "ä4", 24),
    ("others", "ä", "Ä", 25),
]
MINUTE: Final = {"kind": "time", "size": 60_000, "grace": 10_000}
GAP: Final = {"kind": "session", "gap": 1_000, "grace": 10_000}
FINAL: Final = {"id": "x", "op": "suppress", "on": "c", "name": "final"}
HEADERS: Final = {"dsl.store.format": "HEADERS"}
PASSING: Final = {"limit_ms": 50, "buffer": {"records": 2, "early": True}, "name": "passing"}
VERSIONED: Final = {**TABLE, "materialized": {"store": "versions", "history_ms": 60_000}}
ASKED: Final = {"id": "j", "op": "left_join", "on": "s", "with": "t", "fn": "both"}
IN_TIME: Final[list[Sent]] = [
    ("tab", "a", "x", 1_000),
    ("tab", "a", "z", 1_200),
    ("tab", "a", "y", 1_100),
    ("in", "a", "1", 1_150),
    ("in", "b", "2", 1_151),
    ("tab", "b", None, 1_149),
    ("in", "a", "3", 1_120),
    ("tab", "a", None, 1_300),
    ("in", "a", "4", 1_320),
    ("in", "a", "5", 1_600),
]

CASES: Final[dict[str, dict[str, Any]]] = {
    "a_key_value_store": case(_held(timestamped=False), VALUES),
    "a_key_value_store_in_memory": case(_held(timestamped=False, persistent=False), VALUES),
    "a_store_of_few_entries": case(_held(timestamped=False, lru=2), VALUES),
    "a_timestamped_store_of_few_entries": case(_held(timestamped=True, lru=2), VALUES),
    "a_table_of_few_entries": case(
        [{**TABLE, "materialized": {"store": "table", "lru": 2}}],
        [("tab", *rest) for _, *rest in VALUES],
    ),
    "a_timestamped_key_value_store": case(_held(timestamped=True), VALUES),
    "a_table": case([TABLE], [("tab", *rest) for _, *rest in VALUES]),
    "a_window_store": case(
        _held(kind="windows", timestamped=False, size=60_000, retention_ms=DAY_MS), VALUES
    ),
    "a_timestamped_window_store": case(
        _held(kind="windows", timestamped=True, size=60_000, retention_ms=DAY_MS), VALUES
    ),
    "a_session_store": case(_held(kind="sessions", retention_ms=DAY_MS), VALUES),
    "a_key_value_store_with_headers": case(_held(headers=True), VALUES),
    "a_window_store_with_headers": case(
        _held(kind="windows", headers=True, size=60_000, retention_ms=DAY_MS), VALUES
    ),
    "a_session_store_with_headers": case(
        _held(kind="sessions", headers=True, retention_ms=DAY_MS), VALUES
    ),
    "a_table_with_headers": case([TABLE], [("tab", *rest) for _, *rest in VALUES], **HEADERS),
    "sessions_with_headers": case([*_windowed(GAP), COUNTED], VALUES, **HEADERS),
    "tumbling_windows": case([*_windowed(MINUTE), COUNTED], VALUES),
    "hopping_windows": case([*_windowed({**MINUTE, "advance": 30_000}), COUNTED], VALUES),
    "sliding_windows": case(
        [*_windowed({"kind": "sliding", "difference": 5, "grace": 100}), COUNTED], VALUES
    ),
    "unlimited_windows": case([*_windowed({"kind": "unlimited", "start": 0}), COUNTED], VALUES),
    "windows_that_close": case([*_windowed(MINUTE, emit="close"), COUNTED], VALUES),
    "sessions": case([*_windowed(GAP), COUNTED], VALUES),
    "sessions_that_close": case([*_windowed(GAP, emit="close"), COUNTED], VALUES),
    "a_versioned_store": case([VERSIONED], [one for one in IN_TIME if one[0] == "tab"]),
    "a_join_with_grace": case(
        [STREAM, VERSIONED, {**ASKED, "joined": {"grace_ms": 100, "name": "meet"}}], IN_TIME
    ),
    "suppressed_until_windows_close": case([*_windowed(MINUTE), COUNTED, FINAL], VALUES),
    "suppressed_for_a_while": case(
        [TABLE, {"id": "x", "op": "suppress", "on": "t", **PASSING}],
        [("tab", *rest) for _, *rest in VALUES],
    ),
    "streams_inner": case(_joined("join"), PAIRS),
    "streams_left": case(_joined("left_join"), PAIRS),
    "streams_outer": case(_joined("outer_join"), PAIRS),
    "streams_without_values": case(_joined("outer_join"), NO_VALUE),
    "foreign_key_inner": case(_by_foreign_key("join"), UPDATES),
    "foreign_key_left": case(_by_foreign_key("left_join"), UPDATES),
    "a_table_grouped_anew": case(
        [
            TABLE,
            {"id": "g", "op": "group_by", "on": "t", "fn": "first_letter_pair"},
            {"id": "c", "op": "count", "on": "g", "materialized": {"store": "counts"}},
        ],
        [one for one in UPDATES if one[0] == "tab"],
    ),
}


def lines(produced: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each record, as they stand in a file: those of one topic together, in order.

    A record of a buffer has no time of its own, so its producer gives it one: ``null``, which for
    our client is 0. In which order the keys of a commit are written depends on Java's hash map, so
    they are sorted here.
    """
    stamped = [{**record, "timestamp": record["timestamp"] or None} for record in produced]
    stamped.sort(key=lambda sent: (sent["topic"], sent["timestamp"] is None and sent["key"]))
    return [json.dumps(record) for record in stamped]


def recorded(name: str) -> list[str]:
    """The lines that Java has written for a case."""
    return (DIRECTORY / f"{name}.jsonl").read_text().splitlines()
