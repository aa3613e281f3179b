"""What the random topologies and records for the Java oracle reach, counted: no Java is needed."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracle import generate as generator
from tests.oracle.processors import TICKS
from tests.oracle.translate import Drawing

from headwater.model.operators.stream_join import StreamSelfJoin

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = 400
FEWEST = 4
"""Of 400: twenty of the 2,000."""
FORMAT = Path(generator.__file__).with_name("FORMAT.md")
SELF_JOINED, SELF_JOINS = 300, 20
"""Of so many requests, so many have a stream that is joined with itself and kept once."""
OF_TABLES = (
    *("filter", "map_values", "transform_values", "join", "join by a foreign key"),
    *("group_by", "suppress", "to_table"),
)
"""What a table of windows may be made into; what is below its stream counts."""
VARIANTS = {
    "a pattern",
    "a table with a history",
    "a join of a table by foreign key",
    "a join of a stream with a stream",
    "a join of a stream with itself",
    "a join of a stream with a table",
    "a join of a stream with a global table",
    "a join with grace",
    "a join of tables",
    "a suppression until a limit",
    "a suppression until the window closes",
    "results when the window closes",
    "results when it changes",
    "windows of kind time",
    "windows of kind unlimited",
    "windows of kind sliding",
    "windows of kind session",
    "windows of a cogroup",
    "windows that wait in a record cache",
    *(f"{op} of a table of windows" for op in OF_TABLES),
    *TICKS,
}


@cache
def requests() -> tuple[dict[str, Any], ...]:
    return tuple(
        generator.generate(Random(f"reach {number}"), records=25) for number in range(NUMBER)
    )


def kinds(request: dict[str, Any]) -> Iterator[str]:
    """What the steps of a request are, beside their operations."""
    made = {step["id"]: step for step in request["steps"]}
    for step in request["steps"]:
        op, stored = step["op"], step.get("materialized", {})
        if "pattern" in step:
            yield "a pattern"
        if "history_ms" in stored:
            yield "a table with a history"
        if op.endswith("join"):
            yield _join(step, made)
        if "grace_ms" in step.get("joined", {}):
            yield "a join with grace"
        if op == "suppress":
            until = "a limit" if "limit_ms" in step else "the window closes"
            yield f"a suppression until {until}"
        if op == "windowed_by":
            yield f"windows of kind {step['windows']['kind']}"
            when = {"close": "the window closes", "update": "it changes"}.get(step.get("emit", ""))
            if when:
                yield f"results when {when}"
            if made[step["on"]]["op"] == "cogroup":
                yield "windows of a cogroup"
        yield from _of_windows(step, made)
        if step.get("fn") in TICKS:
            yield step["fn"]


def _of_windows(step: dict[str, Any], made: dict[str, dict[str, Any]]) -> Iterator[str]:
    op, stored = step["op"], step.get("materialized", {})
    if stored.get("retention") and stored.get("caching", True):
        yield "windows that wait in a record cache"
    if _has_windows_for_keys(made, step.get("on")):
        kind = "join" if op.endswith("join") else op.removesuffix("_not")
        yield f"{kind}{' by a foreign key' * ('foreign_key' in step)} of a table of windows"


def _has_windows_for_keys(made: dict[str, dict[str, Any]], name: str | None) -> bool:
    """Whether a table or stream is of windows, and has not got other keys since."""
    step = made.get((name or "").split("/")[0])
    if step is None or step["op"] in {"stream", "table", "global_table"}:
        return False
    if step["op"] in {"count", "reduce", "aggregate"}:
        return bool(made[step["on"]]["op"] == "windowed_by")
    kept = {"filter", "filter_not", "map_values", "transform_values", "suppress", "to_table"}
    stays = step["op"] in kept or (step["op"] == "to_stream" and "fn" not in step)
    return stays and _has_windows_for_keys(made, step["on"])


def _join(step: dict[str, Any], made: dict[str, dict[str, Any]]) -> str:
    if "foreign_key" in step:
        return "a join of a table by foreign key"
    if "windows" in step:
        own = step["on"] == step["with"]
        return f"a join of a stream with {'itself' if own else 'a stream'}"
    if "selector" in step:
        return "a join of a stream with a global table"
    is_table = "joined" not in step and _is_table(made, step["on"])
    return "a join of tables" if is_table else "a join of a stream with a table"


def _is_table(made: dict[str, dict[str, Any]], name: str) -> bool:
    step = made[name.split("/", maxsplit=1)[0]]
    tables = {"table", "to_table", "count", "reduce", "aggregate", "suppress", "transform_values"}
    if step["op"] in tables:
        return True
    same = step["op"] in {"filter", "filter_not", "map_values"} or step["op"].endswith("join")
    return same and _is_table(made, step["on"])


def test_every_operation_is_drawn_often_enough() -> None:
    text = FORMAT.read_text().split("## Steps")[1].split("## Functions")[0]
    table = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (?:-|[a-z, ]+) \|", text, re.MULTILINE)
    known = {name for names in table for name in re.findall(r"\w+", names)}
    drawn = Counter(op for it in requests() for op in {step["op"] for step in it["steps"]})

    assert {"stream", "suppress", "cogroup", "process_values"} < known
    assert {op: drawn[op] for op in known if drawn[op] < FEWEST} == {}


def test_every_kind_of_operation_is_drawn_often_enough() -> None:
    drawn = Counter(kind for it in requests() for kind in set(kinds(it)))

    assert {kind: drawn[kind] for kind in VARIANTS if drawn[kind] < FEWEST} == {}


def test_streams_that_are_joined_with_themselves_are_often_kept_once() -> None:
    """Of the optimisations this is the one that a topology seldom has a place for."""
    drawn = requests()[:SELF_JOINED]

    kept_once = sum(map(_keeps_a_self_join_once, drawn))

    assert kept_once >= SELF_JOINS, kept_once


def _keeps_a_self_join_once(request: dict[str, Any]) -> bool:
    nodes = (node for part in Drawing(request).topology().subtopologies for node in part.nodes)
    return any(isinstance(getattr(it, "operator", None), StreamSelfJoin) for it in nodes)


def depth(request: dict[str, Any]) -> int:
    """How many operations lie one above the other at most."""
    depths: dict[str, int] = {}
    for step in request["steps"]:
        above = [step[name].split("/")[0] for name in ("on", "with") if name in step]
        depths[step["id"]] = 1 + max((depths[name] for name in above), default=0)
    return max(depths.values())


@pytest.mark.parametrize("wanted", [3, 4, 5, 6])
def test_operations_lie_deep_below_each_other(wanted: int) -> None:
    assert sum(depth(it) >= wanted for it in requests()) >= NUMBER // 5


def test_caches_and_optimisations_are_on_and_off() -> None:
    configs = [it["config"] for it in requests()]
    caches = Counter("statestore.cache.max.bytes" in it for it in configs)
    optimised = Counter(it.get("topology.optimization", "") for it in configs)

    assert min(caches[True], caches[False]) > NUMBER // 4
    assert set(optimised) == set(generator.OPTIMIZATIONS)
    assert min(optimised.values()) > NUMBER // 20


def test_records_are_null_equal_late_and_come_with_time() -> None:
    inputs = [record for it in requests() for record in it["inputs"]]
    records = [record for record in inputs if "topic" in record]
    times = [one["timestamp"] - other["timestamp"] for other, one in pairwise(records)]

    assert sum(record["key"] is None for record in records) > len(records) // 25
    assert sum(record["value"] is None for record in records) > len(records) // 10
    assert sum(time == 0 for time in times) > len(times) // 100
    assert sum(-1_000 < time < 0 for time in times) > len(times) // 5
    assert len(inputs) - len(records) > len(records) // 25
