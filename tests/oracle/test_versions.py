"""Versioned stores, here and in Java: what puts return, what is found as of a time, changelogs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.run import run

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

STREAM = {"id": "s", "op": "stream", "topics": ["in"]}


def _hex(text: str | None) -> str | None:
    return None if text is None else text.encode().hex()


def _request(
    steps: list[dict[str, Any]], inputs: list[tuple[str, str | None, str | None, int]], **more: Any
) -> dict[str, Any]:
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


def _agree(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    java, ours = oracle.ask(request), run(request)

    assert "error" not in java, java["error"]
    assert ours["describe"] == java["describe"]
    for part in ("outputs", "stores"):
        assert ours[part] == java[part], part
    assert _by_topic(ours) == _by_topic(java)
    return java


def _by_topic(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """What was sent, each topic's in order."""
    return sorted(answer["produced"], key=lambda record: str(record["topic"]))


@pytest.mark.seeded(60)
def test_a_processor_finds_in_a_versioned_store_what_java_finds(seed: str, oracle: Oracle) -> None:
    random = Random(f"{seed} versions")
    history = random.choice((0, 20, 60, 1000, 70_000))
    scale = random.choice((1, 10)) if history < 1000 else history // 60
    steps = [
        STREAM,
        {
            "id": "p",
            "op": "process",
            "on": "s",
            "fn": "versions",
            "stores": [{"store": "v", "history_ms": history}],
        },
        {"id": "out", "op": "to", "on": "p", "topic": "out"},
    ]
    now, inputs = random.randint(0, 50), []
    for _ in range(60):
        now = max(0, now + random.randint(-15, 20) * scale)
        value = random.choice((None, "", "x", "y", "z"))
        # What is deleted at its own time is told differently: see below.
        time = now * 2 + (value in {None, ""})
        inputs.append(("in", random.choice("aab"), value, time))

    java = _agree(oracle, _request(steps, inputs))

    changelog = java["subtopologies"]["0"]["changelog"]["app-v-changelog"]
    assert changelog["config"]["min.compaction.lag.ms"] == str(history + 86_400_000)


def test_what_is_deleted_at_its_own_time_stays_deleted_here_only(oracle: Oracle) -> None:
    """Java keeps no trace of such a deletion if nothing precedes it, so an older put is newest."""
    steps = [
        STREAM,
        {
            "id": "p",
            "op": "process",
            "on": "s",
            "fn": "versions",
            "stores": [{"store": "v", "history_ms": 60}],
        },
        {"id": "out", "op": "to", "on": "p", "topic": "out"},
    ]
    request = _request(steps, [("in", "a", v, t) for v, t in (("x", 18), ("", 18), ("y", 9))])

    java, ours = oracle.ask(request), run(request)

    last = [bytes.fromhex(answer["outputs"][-1]["value"]).decode() for answer in (java, ours)]
    assert last[0].startswith("-1 y@9 y@9 y@9 ")
    assert last[1].startswith("18 null null y@9 ")
