"""Random topologies of what can be DataFrames, and random logs for them; seeded."""

from __future__ import annotations

import operator
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater import Serdes
from headwater import functions as f
from tests.support.dataframes import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import StreamsBuilder

_KEYS = ["", "a", "b", "ab", "ba", "ü", "\U0010ffff", "\uffff", "key-17", "\x00"]
_TEXTS = ["", "a", "abc", "b\u00e4c", "\U0001f600x", "zebra"]
_EDGES = [0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 2**40]


def number_predicate(rng: Random) -> Any:
    return rng.choice(
        [
            f.value > rng.randint(-5, 5),
            f.value % rng.randint(1, 5) == 0,
            (f.value <= 3) | f.value.is_null(),
            ~(f.value != 7) & (f.key >= "a"),
            f.key.starts_with("a") | f.key.contains("b"),
            f.value.or_else(0) >= 0,
            f.key.is_null(),
            (f.key.length() > 1) & (f.key != "ab"),
        ]
    )


def text_predicate(rng: Random) -> Any:
    return rng.choice(
        [
            f.value >= "b",
            f.value.ends_with("c"),
            f.value.length() == rng.randint(0, 4),
            f.value[1:3] == "bc",
            f.value == f.key,
            (f.value + "x") > f.key.or_else("m"),
        ]
    )


def new_key(rng: Random) -> Any:
    return rng.choice([f.key[:1], f.key + "-" + f.key, f.key.or_else("none")])


def numbers(rng: Random, builder: StreamsBuilder, topic: str, serde: Any) -> None:
    """A stream of numbers into one to three stores."""
    long = serde is Serdes.long
    stream: Any = builder.stream(topic, key_serde=Serdes.string, value_serde=serde)
    for _ in range(rng.randint(0, 2)):
        stream = _step(rng, stream, long=long)
    for at in range(rng.randint(1, 3)):
        branch = stream
        if rng.random() < 0.4:
            branch = branch.filter(number_predicate(rng))
        if rng.random() < 0.5:
            branch = branch.group_by(new_key(rng), key_serde=Serdes.string, value_serde=serde)
        elif rng.random() < 0.3:
            branch = branch.repartition(key_serde=Serdes.string, value_serde=serde)
            branch = branch.filter_not(number_predicate(rng))
            branch = branch.group_by_key(key_serde=Serdes.string, value_serde=serde)
        else:
            branch = branch.group_by_key(key_serde=Serdes.string, value_serde=serde)
        store = f"{topic}-{at}"
        reducer = rng.choice([None, f.add, f.smallest, f.largest, operator.add, min, max])
        if reducer is None:
            branch.count(store=store, key_serde=Serdes.string)
        else:
            table = branch.reduce(reducer, store=store, key_serde=Serdes.string, value_serde=serde)
            if rng.random() < 0.5:
                table.to_stream().filter(f.value > 3).to(f"{topic}-out")


def _step(rng: Random, stream: Any, *, long: bool) -> Any:
    chosen = rng.randrange(4)
    if chosen == 0:
        return stream.filter(number_predicate(rng))
    if chosen == 1:
        return stream.filter_not(number_predicate(rng))
    if chosen == 2 and long:
        mapper = rng.choice([f.value + 1, 3 - f.value, f.value * -2, f.value.or_else(5)])
        return stream.map_values(mapper)
    return stream


def texts(rng: Random, builder: StreamsBuilder, topic: str) -> None:
    """A stream of texts into one or two stores."""
    both: dict[str, Any] = {"key_serde": Serdes.string, "value_serde": Serdes.string}
    stream: Any = builder.stream(topic, **both)
    if rng.random() < 0.5:
        stream = stream.filter(text_predicate(rng))
    if rng.random() < 0.4:
        stream = stream.map_values(f.key + f.value.or_else("?"), with_key=True)
    grouped = stream.group_by(f.value[:2], **both) if rng.random() < 0.5 else None
    grouped = grouped or stream.group_by_key(**both)
    grouped.reduce(rng.choice([min, max, f.smallest]), store=f"{topic}-0", **both)
    if rng.random() < 0.5:
        stream.to_table(store=f"{topic}-1", **both)


def table(rng: Random, builder: StreamsBuilder, topic: str, serde: Any) -> None:
    """A table of a topic."""
    key: Any = Serdes.string
    drawn = builder.table(topic, key_serde=key, value_serde=serde, store=f"{topic}-0")
    if rng.random() < 0.5:
        drawn.to_stream().to(f"{topic}-out")


class Case(NamedTuple):
    """A topology and what its topics hold."""

    build: Callable[[StreamsBuilder], None]
    log: dict[str, list[list[Record]]]


def random_case(rng: Random, *, records: int = 120) -> Case:
    """Return three sub-topologies or more, and logs for them."""
    seed = rng.random()
    serdes = [rng.choice([Serdes.long, Serdes.integer]) for _ in range(2)]

    def build(builder: StreamsBuilder) -> None:
        again = Random(seed)
        numbers(again, builder, "numbers", serdes[0])
        texts(again, builder, "texts")
        table(again, builder, "table", serdes[1])

    widths = [8 if serde is Serdes.long else 4 for serde in serdes]
    edges = 0.02 if rng.random() < 0.2 else 0.0
    return Case(
        build,
        {
            "numbers": _partitions(rng, records, lambda: _number(rng, widths[0], edges)),
            "texts": _partitions(rng, records, lambda: rng.choice(_TEXTS).encode()),
            "table": _partitions(rng, records, lambda: _number(rng, widths[1], edges)),
        },
    )


def _partitions(rng: Random, records: int, value: Callable[[], bytes]) -> list[list[Record]]:
    """One to three partitions with nulls, ties, tombstones, and times in no order."""
    partitions: list[list[Record]] = [[] for _ in range(rng.choice([1, 2, 3]))]
    for _ in range(rng.choice([0, records // 4, records])):
        key = None if rng.random() < 0.1 else rng.choice(_KEYS).encode()
        found = None if rng.random() < 0.15 else value()
        rng.choice(partitions).append(Record(key, found, rng.randint(0, 20)))
    return partitions


def _number(rng: Random, width: int, edges: float) -> bytes:
    is_edge = rng.random() < edges
    number = rng.choice(_EDGES[:-1] if width == 4 else _EDGES) if is_edge else rng.randint(-9, 9)
    return number.to_bytes(width, "big", signed=True)
