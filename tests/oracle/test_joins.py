"""Joins where Java loses sight of a topic or a table; what we do stands in unit/test_joins.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.differences import refused_by_java_alone
from tests.oracle.translate import Drawing

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STREAM = {"id": "s", "op": "stream", "topics": ["in"]}
TABLE = {"id": "t", "op": "table", "topic": "tab"}
REKEYED = {"id": "k", "op": "select_key", "on": "s", "fn": "value_as_key"}
FORGOTTEN: dict[str, list[dict[str, Any]]] = {
    "a source that is shared": [
        STREAM,
        {**STREAM, "id": "again"},
        TABLE,
        {"id": "j", "op": "join", "on": "again", "with": "t", "fn": "both"},
    ],
    "a repartition that is used again": [
        STREAM,
        REKEYED,
        {"id": "u", "op": "table", "topic": "first"},
        {"id": "i", "op": "join", "on": "k", "with": "u", "fn": "both"},
        TABLE,
        {"id": "j", "op": "join", "on": "k", "with": "t", "fn": "both"},
    ],
}


def _asked(steps: list[dict[str, Any]]) -> dict[str, Any]:
    both = {"key": "string", "value": "string"}
    return {"app_id": "app", "config": {}, "inputs": [], **both, "steps": steps}


@pytest.mark.parametrize("case", FORGOTTEN)
def test_java_does_not_copartition_what_we_do(case: str, oracle: Oracle) -> None:
    request = _asked(FORGOTTEN[case])

    java = oracle.ask(request)
    groups = Drawing(request).topology().report("app").copartition_groups

    assert ["tab"] in java["copartitioned"]
    assert len(groups) == 1
    assert {"tab"} < {*groups[0]}


def test_java_writes_a_join_before_its_table_when_a_group_is_used_again(oracle: Oracle) -> None:
    request = _asked(
        [
            STREAM,
            {
                "id": "g",
                "op": "group_by",
                "on": "s",
                "fn": "value_as_key",
                "grouped": {"name": "g"},
            },
            {"id": "t", "op": "count", "on": "g", "materialized": {"store": "first"}},
            {"id": "j", "op": "join", "on": "s", "with": "t", "fn": "both"},
            {"id": "u", "op": "count", "on": "g"},
        ]
    )

    assert refused_by_java_alone(oracle.ask(request))
    assert "first" in Drawing(request).topology().stores
