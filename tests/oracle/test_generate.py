"""Random requests to the oracle have every operator often enough: drawn and counted, not asked."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from tests.oracle.generate import generate
from tests.oracle.growing import is_self_join
from tests.oracle.processors import TICKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REQUESTS = 2_000
LEAST = 20
"""Requests that have an operator, of these."""
WINDOWS = ("time", "unlimited", "sliding", "session")
JOINS = ("join", "left_join")
WANTED = {
    "stream", "pattern", "table", "global_table", "filter", "filter_not", "map", "map_values",
    "flat_map", "flat_map_values", "select_key", "peek", "for_each", "print", "merge", "split",
    "repartition", "to", "to by extractor", "to_table", "to_stream", "group_by_key", "group_by",
    "transform_values", "count", "reduce", "aggregate", "cogroup", "process", "process_values",
    "suppress by time", "suppress until close", "versioned table", "stores with headers",
    "join with grace", "join of a stream with itself", "global_store", "read_only_store",
    "global_store of a topology", "processor find",
    *(f"{op} with {other}" for op in JOINS for other in ("table", "global table", "foreign key")),
    *(f"{op} of streams" for op in (*JOINS, "outer_join")),
    "outer_join with table",
    *(f"{kind} windows" for kind in WINDOWS),
    *(f"{kind} windows on close" for kind in WINDOWS if kind != "unlimited"),
    *(f"{kind} windows of a cogroup" for kind in WINDOWS),
    *(f"processor {fn}" for fn in ("again", "turn", "with_header", "place", "keep", *TICKS)),
}  # fmt: skip


def operators(request: Mapping[str, Any]) -> Iterator[str]:
    """The operators of a request, the variants that matter by names of their own."""
    cogroups = {step["id"] for step in request["steps"] if step["op"] == "cogroup"}
    if "dsl.store.format" in request["config"]:
        yield "stores with headers"
    for step in request["steps"]:
        op = step["op"]
        if op == "windowed_by":
            kind = step["windows"]["kind"]
            yield f"{kind} windows{' of a cogroup' if step['on'] in cogroups else ''}"
            if step.get("emit") == "close":
                yield f"{kind} windows on close"
        elif op in {*JOINS, "outer_join"}:
            yield joined(op, step)
            if "grace_ms" in step.get("joined", {}):
                yield "join with grace"
            if is_self_join(step):
                yield "join of a stream with itself"
        elif op == "suppress":
            yield "suppress by time" if "limit_ms" in step else "suppress until close"
        else:
            yield op
        yield from variants(op, step)


def variants(op: str, step: Mapping[str, Any]) -> Iterator[str]:
    """What an operator is besides."""
    if op in {"process", "process_values"}:
        yield f"processor {step['fn']}"
    if op == "global_store" and "source" in step:
        yield "global_store of a topology"
    if "pattern" in step:
        yield "pattern"
    if "extractor" in step:
        yield "to by extractor"
    if "history_ms" in step.get("materialized", {}):
        yield "versioned table"


def joined(op: str, step: Mapping[str, Any]) -> str:
    """A join by what is joined."""
    if "windows" in step:
        return f"{op} of streams"
    if "foreign_key" in step:
        return f"{op} with foreign key"
    return f"{op} with {'global table' if 'selector' in step else 'table'}"


def test_each_operator_is_in_twenty_of_two_thousand_requests() -> None:
    found: Counter[str] = Counter()
    for number in range(REQUESTS):
        found.update({*operators(generate(Random(f"how often {number}")))})

    assert {operator: found[operator] for operator in WANTED if found[operator] < LEAST} == {}
    assert set(found) == WANTED, "an operator that is drawn is not counted"
