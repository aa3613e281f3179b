"""For each rule by which DataFrames are made: steps of the oracle's language, and mean records.

The steps are those of ``tests/oracle/FORMAT.md``, each on the one before unless it says otherwise.
Records have nulls, tombstones, ties, and times that go back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from headwater import Serdes
from tests.oracle.expressions import Types, result_type
from tests.oracle.translate import Drawing
from tests.support.dataframes import Record

if TYPE_CHECKING:
    from headwater import StreamsBuilder
    from tests.support.dataframes import Log

STORE: Final = "made"


@dataclass(frozen=True)
class RuleCase:
    """A topology with one store, what its topics hold, and the faults that are to be seen."""

    given: tuple[dict[str, Any], ...]
    log: Log
    faults: tuple[str, ...]

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """With numbers, each on the one before."""
        return [
            {"id": f"s{number}", **({"on": f"s{number - 1}"} if number else {}), **step}
            for number, step in enumerate(self.given)
        ]

    @property
    def types(self) -> dict[str, Types]:
        """By step, of what comes out of it."""
        found: dict[str, Types] = {}
        for step in self.steps:
            if step["op"] in {"stream", "table"}:
                found[step["id"]] = Types(step["consumed"]["key"], step["consumed"]["value"])
                continue
            key, value = before = found[step["on"]]
            match step["op"]:
                case "map_values":
                    value = result_type(step["fn"], before)
                case "select_key" | "group_by":
                    key = result_type(step["fn"], before)
                case "count":
                    value = "long"
                case _:
                    pass
            found[step["id"]] = Types(key, value)
        return found

    def build(self, builder: StreamsBuilder) -> None:
        """Draw it with functions that are known."""
        Drawing({"steps": self.steps}, known=self.types, builder=builder).draw()

    def request(self, log: Log) -> dict[str, Any]:
        """Return what the Java oracle is asked about these records, topic by topic."""
        return {
            "app_id": "app",
            "config": {"statestore.cache.max.bytes": "0"},
            "steps": self.steps,
            "inputs": [
                {
                    "topic": topic,
                    "key": _hex(record.key),
                    "value": _hex(record.value),
                    "timestamp": record.timestamp,
                }
                for topic, partitions in log.items()
                for records in partitions
                for record in records
            ],
        }


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


# -- steps -----------------------------------------------------------------------------------------


def _stream(key: str, value: str, *topics: str) -> dict[str, Any]:
    consumed = {"key": key, "value": value}
    return {"op": "stream", "topics": list(topics) or ["in"], "consumed": consumed}


def _table(key: str, value: str, op: str = "table") -> dict[str, Any]:
    both = {"key": key, "value": value}
    source = {"topic": "in", "consumed": both} if op == "table" else {}
    return {"op": op, **source, "materialized": {"store": STORE, **both}}


def _by(key: str, value: str, fn: str = "") -> dict[str, Any]:
    named = {"op": "group_by", "fn": fn} if fn else {"op": "group_by_key"}
    return {**named, "grouped": {"key": key, "value": value}}


def _count(key: str) -> dict[str, Any]:
    return {"op": "count", "materialized": {"store": STORE, "key": key}}


def _reduce(fn: str, key: str, value: str) -> dict[str, Any]:
    return {"op": "reduce", "fn": fn, "materialized": {"store": STORE, "key": key, "value": value}}


def _do(op: str, fn: str) -> dict[str, Any]:
    return {"op": op, "fn": fn}


def _out(key: str, value: str) -> tuple[dict[str, Any], ...]:
    return {"op": "to_stream"}, {
        "op": "to",
        "topic": "out",
        "produced": {"key": key, "value": value},
    }


# -- records ---------------------------------------------------------------------------------------


def _log(
    key_serde: str,
    value_serde: str,
    *partitions: list[tuple[Any, Any, int]],
    topic: str = "in",
) -> dict[str, list[list[Record]]]:
    write = [Serdes.by_name(name).serializer(topic) for name in (key_serde, value_serde)]

    def record(k: Any, v: Any, at: int) -> Record:
        key, value = (
            None if one is None else serialize(one)
            for serialize, one in zip(write, (k, v), strict=True)
        )
        return Record(key, value, at)

    return {topic: [[record(*one) for one in records] for records in partitions]}


_NUMBERS: Final = [
    ("a", 30, 50),
    ("a", -5, 50),
    ("a", -5, 50),
    ("a", 10, 20),
    ("a", 9, 30),
    ("a", None, 90),
    (None, 7, 95),
    ("b", 4, 5),
    ("b", 9, 11),
    ("b", 5, 11),
    ("b", None, 60),
    ("b", 6, 1),
    ("only nulls", None, 8),
    ("", 0, 0),
    ("z", -1, 40),
    ("z", -20, 1),
    ("z", 3, 97),
]
_MORE: Final = [("a", 100, 7), ("m", 7, 7), ("m", 7, 3), (None, None, 99)]
_TEXTS: Final = [
    ("a", "horse", 50),
    ("a", "Zebra", 50),
    ("a", "cat", 3),
    ("a", None, 70),
    ("b", "", 4),
    ("b", "ab", 2),
    ("b", "mouse", 3),
    (None, "nobody", 80),
    ("c", "xy", 6),
    ("c", "ä", 5),
    ("g", "hen", 4),
    ("d", None, 1),
]
_UPDATES: Final = [
    ("tie", "first", 5),
    ("tie", "second", 5),
    ("back", "late", 9),
    ("back", "early", 3),
    ("gone", "here", 1),
    ("gone", None, 2),
    ("gone late", "here", 7),
    ("gone late", None, 2),
    ("again", None, 2),
    ("again", "here", 1),
    ("never", None, 4),
    ("empty", "x", 1),
    ("empty", "", 2),
    (None, "nobody", 50),
]
_OTHERS: Final = [("tie", "elsewhere", 1), ("even", "back", 3), ("even", "odd", 9)]

_LONGS = _log("string", "long", _NUMBERS, _MORE, [])
_INTEGERS = _log("string", "integer", _NUMBERS, _MORE)
_STRINGS = _log("string", "string", _TEXTS, [("b", "words", 1), ("e", "", 2), ("f", "f", 7)])
_TABLE = _log("string", "string", _UPDATES, _OTHERS)
_RAW = _log(
    "bytes",
    "bytes",
    [(b"", b"x", 3), (b"\xff", b"x", 4), (b"\xff", b"", 2), (b"\x00", b"y", 1), (b"\x00", None, 0)],
    [(None, b"z", 9), (b"\xff\xfe", b"\x80", 9)],
)
_DOUBLES = _log(
    "string",
    "double",
    [("a", math.nan, 3), ("a", -0.0, 9), ("a", None, 10), ("b", math.inf, 1), ("c", math.nan, 2)],
    [("a", math.nan, 4), (None, 1.5, 5)],
)
_LONG = ("string", "long")
_INTEGER = ("string", "integer")
_STRING = ("string", "string")

CASES: Final[dict[str, RuleCase]] = {
    "count": RuleCase(
        (_stream(*_LONG), _by(*_LONG), _count("string"), *_out(*_LONG)),
        _LONGS,
        (
            "a null value is one",
            "a row is a record",
            "merged rows have the last time",
            "a late record is left out",
        ),
    ),
    "count of fractions": RuleCase(
        (_stream("string", "double"), _by("string", "double"), _count("string")),
        _DOUBLES,
        ("what is not a number is none",),
    ),
    "count of numbers by a number": RuleCase(
        (_stream(*_STRING), _by("long", "string", "length_key"), _count("long")),
        _STRINGS,
        ("lengths are of bytes", "another partition"),
    ),
    "sum": RuleCase(
        (_stream(*_LONG), _by(*_LONG), _reduce("add", *_LONG), *_out(*_LONG)),
        _LONGS,
        (
            "each value once",
            "only what is positive",
            "the time of a dropped record",
            "the time of the last record",
            "a late record is left out",
        ),
    ),
    "sum of integers": RuleCase(
        (_stream(*_INTEGER), _by(*_INTEGER), _reduce("add", *_INTEGER)),
        _INTEGERS,
        ("numbers are wide",),
    ),
    "smallest": RuleCase(
        (_stream(*_LONG), _by(*_LONG), _reduce("smallest", *_LONG)),
        _LONGS,
        (
            "numbers in the order of texts",
            "the time of the smallest",
            "the largest for the smallest",
            "a null value is one",
            "a late record is left out",
        ),
    ),
    "smallest of integers": RuleCase(
        (_stream(*_INTEGER), _by(*_INTEGER), _reduce("smallest", *_INTEGER)),
        _INTEGERS,
        ("numbers have no sign",),
    ),
    "smallest of texts": RuleCase(
        (_stream(*_STRING), _by(*_STRING), _reduce("smallest", *_STRING)),
        _STRINGS,
        ("capitals do not matter", "an empty text is none", "the time of a dropped record"),
    ),
    "largest": RuleCase(
        (_stream(*_LONG), _by(*_LONG), _reduce("largest", *_LONG)),
        _LONGS,
        ("the one farthest from zero", "the time of the largest"),
    ),
    "table": RuleCase(
        (_table(*_STRING), *_out(*_STRING)),
        _TABLE,
        (
            "a table by time",
            "the first of two",
            "a deleted key comes back",
            "the latest time of a table",
            "a late record is left out",
        ),
    ),
    "table of bytes": RuleCase((_table("bytes", "bytes"),), _RAW, ("an empty value is none",)),
    "filter": RuleCase(
        (_stream(*_LONG), _do("filter", "is_odd"), _table(*_LONG, op="to_table")),
        _LONGS,
        ("unknown is true", "a filter is left out", "what is filtered out is deleted"),
    ),
    "filter_not": RuleCase(
        (_stream(*_LONG), _do("filter_not", "is_odd"), _table(*_LONG, op="to_table")),
        _LONGS,
        ("unknown is true", "a filter is left out", "a deleted key comes back"),
    ),
    "projection": RuleCase(
        (
            _stream(*_STRING),
            _do("map_values", "with_key"),
            _do("filter", "even_length"),
            _by(*_STRING),
            _reduce("largest", *_STRING),
        ),
        _STRINGS,
        ("null stays null", "a filter is left out"),
    ),
    "projection to nothing": RuleCase(
        (_stream(*_STRING), _do("map_values", "length"), _table(*_LONG, op="to_table")),
        _STRINGS,
        ("lengths are of bytes", "a deleted key comes back", "a table by time"),
    ),
    "another key": RuleCase(
        (_stream(*_STRING), _do("select_key", "first_letter"), _by(*_STRING), _count("string")),
        _STRINGS,
        ("another partition", "the time of the last record"),
    ),
    "no key": RuleCase(
        (_stream(*_STRING), _by(*_STRING, "key_text"), _count("string")),
        _STRINGS,
        ("no key is an empty one",),
    ),
    "a filter behind a shuffle": RuleCase(
        (
            _stream(*_LONG),
            {"op": "repartition", "repartitioned": {"key": "string", "value": "long"}},
            _do("filter_not", "is_odd"),
            _by(*_LONG),
            _reduce("add", *_LONG),
        ),
        _LONGS,
        ("what is filtered out has not come", "a filter is left out", "another partition"),
    ),
    "two topics": RuleCase(
        (
            _stream(*_LONG),
            _stream(*_LONG, "other"),
            {"op": "merge", "with": "s0"},
            _by(*_LONG),
            _reduce("add", *_LONG),
        ),
        {**_LONGS, **_log("string", "long", _MORE, _NUMBERS, topic="other")},
        ("the second topic is left out", "a topic comes twice", "each value once"),
    ),
}
"""By what is computed."""
