"""The oracle answers what it is asked, and its functions are the twins of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle import functions
from tests.oracle.functions import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

KEYS = [None, "", "a", "m", "zed"]
STRINGS = [None, "", "x", "ab cd", " two  words ", "Odd", "same", "x"]
LONGS = [None, 0, 7, 8, -3, 1000]


def _encode(value: str | int | None) -> str | None:
    if value is None:
        return None
    return value.encode().hex() if isinstance(value, str) else value.to_bytes(8, signed=True).hex()


def _see(
    oracle: Oracle, steps: list[dict[str, Any]], values: Iterable[Any], value_serde: str
) -> list[tuple[str, str]]:
    """What a peek after the given steps (the last one has the id ``end``) sees."""
    source = {"id": "in", "op": "stream", "topics": ["in"]}
    records = [(key, value) for key in KEYS for value in values]
    answer = oracle.ask(
        {
            "app_id": "twins",
            "config": {"statestore.cache.max.bytes": "0"},
            "key": "string",
            "value": value_serde,
            "steps": [source, *steps, {"id": "peek", "op": "peek", "on": "end"}],
            "inputs": [
                {"topic": "in", "key": _encode(key), "value": _encode(value), "timestamp": 1}
                for key, value in records
            ],
        }
    )
    assert "error" not in answer, answer["error"]
    return [(key, value) for _, key, value in answer["seen"]]


def _pairs(
    values: list[Any], function: Callable[[Any, Any], Iterable[tuple[Any, Any]]]
) -> list[Any]:
    return [(text(k), text(v)) for key in KEYS for value in values for k, v in function(key, value)]


@pytest.mark.parametrize(
    ("values", "serde"), [(STRINGS, "string"), (LONGS, "long")], ids=["strings", "longs"]
)
@pytest.mark.parametrize(
    ("op", "catalogue", "apply"),
    [
        ("filter", functions.PREDICATES, lambda f: lambda k, v: [(k, v)] if f(k, v) else []),
        ("map_values", functions.VALUE_MAPPERS, lambda f: lambda k, v: [(k, f(v))]),
        ("map_values", functions.VALUE_MAPPERS_WITH_KEY, lambda f: lambda k, v: [(k, f(k, v))]),
        ("select_key", functions.KEY_MAPPERS, lambda f: lambda k, v: [(f(k, v), v)]),
        ("map", functions.PAIR_MAPPERS, lambda f: lambda k, v: [f(k, v)]),
        ("flat_map", functions.FLAT_PAIR_MAPPERS, lambda f: f),
        (
            "flat_map_values",
            functions.FLAT_VALUE_MAPPERS,
            lambda f: lambda k, v: [(k, each) for each in f(v)],
        ),
        (
            "flat_map_values",
            functions.FLAT_VALUE_MAPPERS_WITH_KEY,
            lambda f: lambda k, v: [(k, each) for each in f(k, v)],
        ),
    ],
    ids=[
        "predicates",
        "value_mappers",
        "value_mappers_with_key",
        "key_mappers",
        "pair_mappers",
        "flat_pair_mappers",
        "flat_value_mappers",
        "flat_value_mappers_with_key",
    ],
)
def test_stateless_functions_have_a_twin(
    oracle: Oracle, op: str, catalogue: dict[str, Any], apply: Any, values: list[Any], serde: str
) -> None:
    for name, function in catalogue.items():
        seen = _see(oracle, [{"id": "end", "op": op, "on": "in", "fn": name}], values, serde)

        assert (name, seen) == (name, _pairs(values, apply(function)))


@pytest.mark.parametrize("name", sorted(functions.JOINERS | functions.JOINERS_WITH_KEY))
def test_joiners_have_a_twin(oracle: Oracle, name: str) -> None:
    """With the record before as the table's value."""
    joiner = functions.JOINERS.get(name)
    keyed = functions.JOINERS_WITH_KEY.get(name, lambda k, a, b: joiner(a, b))  # type: ignore[misc]
    steps = [
        {"id": "grouped", "op": "group_by_key", "on": "in"},
        {"id": "held", "op": "reduce", "on": "grouped", "fn": "last"},
        {"id": "end", "op": "left_join", "on": "in", "with": "held", "fn": name},
    ]
    held: dict[Any, Any] = {}
    expected = []
    for key in KEYS:
        for value in filter(lambda value: value is not None, STRINGS):
            if key is not None:
                held[key] = value
            expected.append((text(key), text(keyed(key, value, held.get(key)))))

    assert _see(oracle, steps, STRINGS, "string") == expected


def _fold(values: list[Any], first: Callable[[], Any], step: Callable[[Any, Any, Any], Any]) -> Any:
    """Outputs of an aggregation at cache 0: each key's running value, null starts it anew."""
    seen = []
    for key in filter(lambda key: key is not None, KEYS):
        aggregate = first()
        for value in filter(lambda value: value is not None, values):
            aggregate = step(key, value, aggregate)
            seen.append((text(key), text(aggregate)))
            if aggregate is None:
                aggregate = first()
    return seen


@pytest.mark.parametrize("name", sorted(functions.AGGREGATORS))
def test_aggregators_and_initializers_have_a_twin(oracle: Oracle, name: str) -> None:
    result = functions.AGGREGATOR_TYPES[name]
    for initializer in functions.INITIALIZERS_FOR[result]:
        steps = [
            {"id": "grouped", "op": "group_by_key", "on": "in"},
            {
                "id": "table",
                "op": "aggregate",
                "on": "grouped",
                "init": initializer,
                "fn": name,
                "materialized": {"value": result},
            },
            {"id": "end", "op": "to_stream", "on": "table"},
        ]

        seen = _see(oracle, steps, STRINGS, "string")

        expected = _fold(STRINGS, functions.INITIALIZERS[initializer], functions.AGGREGATORS[name])
        assert seen == expected


_NOTHING = object()


@pytest.mark.parametrize("name", sorted(functions.REDUCERS))
def test_reducers_have_a_twin(oracle: Oracle, name: str) -> None:
    serde = "string" if "string" in functions.REDUCER_TAKES[name] else "long"
    values = STRINGS if serde == "string" else LONGS
    steps = [
        {"id": "grouped", "op": "group_by_key", "on": "in"},
        {"id": "table", "op": "reduce", "on": "grouped", "fn": name},
        {"id": "end", "op": "to_stream", "on": "table"},
    ]

    seen = _see(oracle, steps, values, serde)

    def step(_key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is _NOTHING else functions.REDUCERS[name](aggregate, value)

    assert seen == _fold(values, lambda: _NOTHING, step)


def test_the_topic_extractor_has_a_twin(oracle: Oracle) -> None:
    answer = oracle.ask(
        {
            "app_id": "twins",
            "key": "string",
            "value": "string",
            "steps": [
                {"id": "in", "op": "stream", "topics": ["in"]},
                {"id": "out", "op": "to", "on": "in", "extractor": "even_odd"},
            ],
            "inputs": [
                {"topic": "in", "key": None, "value": _encode(value), "timestamp": 1}
                for value in STRINGS
            ],
        }
    )

    assert [sent["topic"] for sent in answer["outputs"]] == [
        functions.topic_of(None, value) for value in STRINGS
    ]


def test_everything_that_was_produced_and_stored_is_told(oracle: Oracle) -> None:
    request = {
        "app_id": "app",
        "config": {"statestore.cache.max.bytes": "0"},
        "key": "string",
        "value": "string",
        "steps": [
            {"id": "in", "op": "stream", "topics": ["in"]},
            {"id": "grouped", "op": "group_by", "on": "in", "fn": "value_as_key"},
            {
                "id": "counted",
                "op": "count",
                "on": "grouped",
                "materialized": {"store": "counts", "persistent": False},
            },
            {"id": "stream", "op": "to_stream", "on": "counted"},
            {
                "id": "out",
                "op": "to",
                "on": "stream",
                "topic": "out",
                "produced": {"value": "long"},
            },
            {"id": "print", "op": "print", "on": "stream", "label": "L"},
        ],
        "inputs": [
            {"topic": "in", "key": None, "value": "61", "timestamp": 9, "headers": [["h", "00"]]},
            {"topic": "in", "key": None, "value": "61", "timestamp": 4},
        ],
    }

    answer = oracle.ask(request)

    assert answer["stores"] == {"counts": [["61", "0000000000000002", 9]]}
    assert [(sent["topic"], sent["value"]) for sent in answer["produced"]] == [
        ("app-counts-repartition", "61"),
        ("app-counts-changelog", "0000000000000001"),
        ("out", "0000000000000001"),
        ("app-counts-repartition", "61"),
        ("app-counts-changelog", "0000000000000002"),
        ("out", "0000000000000002"),
    ]
    assert answer["outputs"] == [sent for sent in answer["produced"] if sent["topic"] == "out"]
    assert answer["outputs"][0]["headers"] == [["h", "00"]]
    assert answer["seen"] == [["print", "[L]: a, 1"], ["print", "[L]: a, 2"]]
    assert list(answer["subtopologies"]["1"]["repartition"]) == ["app-counts-repartition"]
    changelog = answer["subtopologies"]["1"]["changelog"]["app-counts-changelog"]
    assert changelog["config"]["cleanup.policy"] == "compact"
    assert answer["describe"].startswith("Topologies:\n   Sub-topology: 0\n")


def test_errors_say_where_they_arose(oracle: Oracle) -> None:
    def stage(steps: list[dict[str, Any]], **more: Any) -> str:
        at: str = oracle.ask({"app_id": "app", "steps": steps, **more})["error"]["at"]
        return at

    source = {"id": "in", "op": "stream", "topics": ["in"], "consumed": {"value": "long"}}
    short = {"topic": "in", "key": None, "value": "00", "timestamp": 1}
    named = {"id": "x", "op": "peek", "on": "in", "name": "same"}

    assert stage([source, named, named]) == "build"
    assert stage([source], inputs=[short]) == "run"
    assert stage([source, {"id": "x", "op": "dance", "on": "in"}]) == "request"
