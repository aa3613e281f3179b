"""The engine record as a value: who may run, and what older ones say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headwater.errors import EngineError, FencedError
from headwater.kafka.engine import check_run
from headwater.kafka.manifest import runs_elsewhere
from headwater.model.engine import EngineRecord, decode
from headwater.model.lifecycle import Engine
from headwater.spark.gate import refusal_of

TAKEN = EngineRecord(
    engine=Engine.SPARK,
    generation=3,
    attempt=1,
    since_ms=1_700_000_000_000,
    tasks=("0_0",),
    workers=("app-w-0",),
    is_fenced=False,
)


def test_only_what_is_fenced_has_a_holder() -> None:
    assert EngineRecord().holder is Engine.NATIVE
    assert TAKEN.holder is None
    assert EngineRecord(engine=Engine.SPARK, generation=1).holder is Engine.SPARK


def test_a_record_is_read_as_it_was_written() -> None:
    assert decode(TAKEN.encode(), "topic") == TAKEN


def test_a_record_from_before_there_were_two_states_is_fenced() -> None:
    fields = json.loads(TAKEN.encode())
    del fields["fenced"], fields["workers"]

    found = decode(json.dumps(fields).encode(), "topic")

    assert (found.holder, found.generation, found.workers) == (Engine.SPARK, 3, ())


@pytest.mark.parametrize("data", [b"7", b'{"version": 1}', b'{"version": 1, "engine": "Flink"}'])
def test_what_is_no_record_names_its_topic(data: bytes) -> None:
    with pytest.raises(EngineError, match="topic orders-x does not say which engine"):
        decode(data, "orders-x")


def test_who_is_refused_while_a_take_over_is_under_way_is_told_how_to_go_on() -> None:
    said = runs_elsewhere(TAKEN, "orders")

    words = ("orders", "taken over for Spark", "generation 3", "takeover=True", "headwater spark")
    assert [word for word in words if word not in said] == []


def test_a_backfill_that_spark_keeps_from_beginning_says_the_next_step() -> None:
    taken = replace(TAKEN, is_fenced=True)
    assert refusal_of(EngineRecord(), "orders") == ""
    said = refusal_of(taken, "orders")
    words = ("no backfill of orders", "generation 3", "`headwater up`", "run the backfill again")
    assert [word for word in words if word not in said] == []
    assert "takeover=True" in refusal_of(TAKEN, "orders")


def test_who_was_shut_out_is_told_what_has_become_of_it() -> None:
    ours = replace(TAKEN, is_fenced=True)
    check_run(ours, ours, "orders")
    for now in (replace(ours, generation=4), replace(ours, is_fenced=False)):
        with pytest.raises(FencedError, match=r"has taken over.*its driver ends"):
            check_run(ours, now, "orders")
