"""Global tables and stores: what a stream finds in them, here and in Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater import TopologyError
from tests.oracle.run import run
from tests.oracle.translate import Drawing

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

GLOBAL = {"id": "g", "op": "global_table", "topic": "glob", "materialized": {"store": "all"}}
STREAM = {"id": "s", "op": "stream", "topics": ["in"]}
OUT = {"id": "out", "op": "to", "on": "j", "topic": "out"}


def _request(steps: list[dict[str, Any]], *inputs: tuple[Any, ...], **more: Any) -> dict[str, Any]:
    return {
        "app_id": "app",
        "config": {},
        "key": "string",
        "value": "string",
        "steps": steps,
        "inputs": [
            {"topic": topic, "key": _hex(key), "value": _hex(value), "timestamp": timestamp}
            for topic, key, value, timestamp in inputs
        ],
        **more,
    }


def _hex(text: str | None) -> str | None:
    return None if text is None else text.encode().hex()


def _agree(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    java, ours = oracle.ask(request), run(request)

    assert "error" not in java, java["error"]
    assert ours["describe"] == java["describe"]
    for part in ("outputs", "produced", "stores", "dropped"):
        assert ours[part] == java[part], part
    return ours


@pytest.mark.parametrize("op", ["join", "left_join"])
def test_a_stream_finds_what_the_table_holds_when_its_record_comes(op: str, oracle: Oracle) -> None:
    join = {"id": "j", "op": op, "on": "s", "with": "g", "selector": "value_as_key", "fn": "both"}

    ours = _agree(
        oracle,
        _request(
            [GLOBAL, STREAM, join, OUT],
            ("in", "k", "a", 1),
            ("glob", "a", "first", 50),
            ("in", "k", "a", 2),
            ("glob", "a", "earlier", 10),
            ("in", None, "a", 3),
            ("in", "k", None, 3),
            ("glob", None, "no key", 11),
            ("glob", "a", None, 60),
            ("in", "k", "a", 4),
        ),
    )

    assert len(ours["outputs"]) == (2 if op == "join" else 4)
    assert ours["stores"] == {"all": []}


@pytest.mark.parametrize("op", ["join", "left_join"])
def test_a_selected_key_of_null(op: str, oracle: Oracle) -> None:
    swap = {"id": "m", "op": "map", "on": "s", "fn": "swap"}
    selector = {"selector": "key_text", "fn": "both"}
    join = {"id": "j", "op": op, "on": "m", "with": "g", **selector}

    ours = _agree(
        oracle,
        _request([GLOBAL, STREAM, swap, join, OUT], ("in", "k", None, 1), ("in", None, None, 2)),
    )

    assert len(ours["outputs"]) == (0 if op == "join" else 1)


@pytest.mark.parametrize("stamped", [True, False])
def test_a_processor_reads_a_global_store_that_another_keeps(stamped: bool, oracle: Oracle) -> None:
    steps = [
        {
            "id": "g",
            "op": "global_store",
            "topic": "glob",
            "fn": "keep",
            "stores": [{"store": "all", "timestamped": stamped}],
            "consumed": {"name": "kept"},
        },
        {"id": "t", "op": "global_table", "topic": "other", "materialized": {"store": "table"}},
        STREAM,
        {"id": "j", "op": "process", "on": "s", "fn": "find", "finds": ["all", "table"]},
        OUT,
    ]

    ours = _agree(
        oracle,
        _request(
            steps,
            ("in", "k", "a", 1),
            ("glob", "a", "kept", 50),
            ("other", "a", "tabled", 7),
            ("in", "k", "a", 2),
        ),
    )

    found = [bytes.fromhex(record["value"]).decode() for record in ours["outputs"]]
    assert found == ["a=null", "a=null", f"a=kept{'@50' if stamped else ''}", "a=tabled@7"]


def test_what_the_application_writes_to_the_topic_is_in_the_table_at_once(oracle: Oracle) -> None:
    steps = [
        GLOBAL,
        STREAM,
        {"id": "w", "op": "to", "on": "s", "topic": "glob"},
        {
            "id": "j",
            "op": "left_join",
            "on": "s",
            "with": "g",
            "selector": "same_key",
            "fn": "both",
        },
        OUT,
    ]

    _agree(oracle, _request(steps, ("in", "a", "1", 1), ("in", "a", "2", 2), ("in", "b", "3", 1)))


def test_what_keeps_global_stores_is_not_wrapped(oracle: Oracle) -> None:
    kept = {"id": "k", "op": "global_store", "topic": "other", "fn": "keep"}
    steps = [GLOBAL, {**kept, "stores": [{"store": "gs"}]}, STREAM]
    request = _request(steps, ("glob", "a", "1", 1), ("other", "a", "1", 1), wrapped=True)

    java, ours = oracle.ask(request), run(request)

    assert "error" not in java, java["error"]
    assert ours["wrapped"] == java["wrapped"] == []
    assert ours["records"] == java["records"] == {}


def test_a_timestamp_extractor_of_a_global_store_is_not_asked(oracle: Oracle) -> None:
    table = {**GLOBAL, "consumed": {"timestamps": "wall_clock"}}

    ours = _agree(oracle, _request([table, STREAM], ("glob", "a", "1", 77)))

    assert ours["stores"]["all"][0][2] == 77


def test_java_alone_wants_a_name_for_a_global_table_with_settings(oracle: Oracle) -> None:
    request = _request([{**GLOBAL, "materialized": {"caching": False}}])

    answer = oracle.ask(request)

    assert answer["error"]["message"].startswith("Global stores must pass in suppliers")
    assert list(Drawing(request).topology().global_stores) == ["glob-STATE-STORE-0000000000"]


REFUSED: dict[str, list[dict[str, Any]]] = {
    "a table and a global table of one topic": [
        {"id": "t", "op": "table", "topic": "glob"},
        GLOBAL,
    ],
    "two global stores of one name": [GLOBAL, {**GLOBAL, "id": "h", "topic": "other"}],
    "a global store named like another": [
        {"id": "t", "op": "table", "topic": "tab", "materialized": {"store": "all"}},
        GLOBAL,
    ],
    "a store named like a global one": [
        GLOBAL,
        {"id": "t", "op": "table", "topic": "tab", "materialized": {"store": "all"}},
    ],
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_java_refuses_to_build_we_refuse(case: str, oracle: Oracle) -> None:
    request = _request(REFUSED[case])

    answer = oracle.ask(request)

    assert answer["error"]["at"] == "build", answer
    with pytest.raises(TopologyError):
        Drawing(request).topology()
