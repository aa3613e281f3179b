"""Where stores are kept, by setting, operator and supplier: the same comes out as in Java."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.generate import generate
from tests.oracle.test_run import compare
from tests.oracle.test_windows import WINDOWS, drawn
from tests.support.custom_stores import AllOwn

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

RECORDS = 25
_JAVA = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$"
IN_MEMORY = {"dsl.store.suppliers.class": f"{_JAVA}InMemoryDslStoreSuppliers"}
"""The setting under which every store of the DSL is in memory."""


OWN = {"dsl.store.suppliers.class": AllOwn}
HERE: dict[str, dict[str, Any]] = {"in memory": {}, "of the user's own": OWN}
"""What is the same to a program: in memory as in Java, or stores of a user's own."""


@pytest.mark.seeded(40)
@pytest.mark.parametrize("here", HERE)
def test_a_random_topology_whose_stores_are_all_in_memory(
    here: str, seed: str, oracle: Oracle
) -> None:
    request = generate(Random(f"{seed} {here}"), records=RECORDS)
    request["config"] = {**request["config"], **IN_MEMORY}

    compare(request, oracle, **HERE[here])


@pytest.mark.seeded(25)
@pytest.mark.parametrize("here", HERE)
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_whose_stores_are_all_in_memory(
    kind: str, here: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} {here}")
    emit = random.choice((None, "close"))
    request = drawn(random, kind, None if kind == "unlimited" else emit)
    for step in request["steps"]:
        step.get("materialized", {}).pop("persistent", None)
    request["config"] = {"statestore.cache.max.bytes": "0", **IN_MEMORY}

    compare(request, oracle, **HERE[here])


def test_the_deprecated_setting_says_the_same(oracle: Oracle) -> None:
    request: dict[str, Any] = drawn(Random("deprecated"), "hopping", None)
    for step in request["steps"]:
        step.get("materialized", {}).pop("persistent", None)
    request["config"] = {"statestore.cache.max.bytes": "0", "default.dsl.store": "in_memory"}

    compare(request, oracle)


def _records(random: Random, nulls: float = 0.2) -> list[dict[str, Any]]:
    """Records of a dozen keys, some beginning alike, some without a value."""
    keys = ["a", "b", "c", "d", "ab", "abc", "b\x00", "ba", "m", "z", "{", "~"]
    return [
        {
            "topic": "in",
            "key": random.choice(keys[: random.choice((4, 12))]).encode().hex(),
            "value": None if random.random() < nulls else random.choice(("78", "79", "7a7a")),
            "timestamp": max(0, 10 * number + random.randint(-25, 25)),
        }
        for number in range(40)
    ]


def asked(random: Random, steps: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a request with 40 records, with or without record caches, with few commits or many."""
    both = {"key": "string", "value": "string"}
    config = {"statestore.cache.max.bytes": random.choice(("0", "400", "100000"))}
    request = {"app_id": "app", **both, "config": config, "steps": steps, **more}
    if random.random() < 0.5:
        request["commit_every"] = random.choice((3, 7, 40))
    return {**request, "inputs": _records(random)}


STREAM = {"id": "s", "op": "stream", "topics": ["in"]}


@pytest.mark.seeded(50)
@pytest.mark.parametrize("kept", ["disk", "memory", "lru", "own"])
def test_every_scan_of_a_store_finds_what_it_finds_in_java(
    kept: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kept} scans")
    store = {
        "store": "kept",
        "timestamped": random.random() < 0.5,
        "caching": random.random() < 0.5,
        "logging": random.random() < 0.8,
        **({"persistent": False} if kept in {"memory", "own"} else {}),
        **({"lru": random.choice((0, 1, 3, 5))} if kept == "lru" else {}),
    }
    # Over a record cache Java's backward scans tell keys that are deleted there.
    fn = random.choice(("scan_forward" if store["caching"] else "scan", "keep"))
    steps = [
        STREAM,
        {"id": "p", "op": "process", "on": "s", "fn": fn, "stores": [store]},
        {"id": "out", "op": "to", "on": "p", "topic": "out"},
    ]

    request = asked(random, steps, own=kept == "own")
    if kept == "lru" and fn == "scan_forward":
        # A scan uses what it finds in Java's cache; only above such a store one can tell.
        request["config"] = {"statestore.cache.max.bytes": "100000"}

    compare(request, oracle)


@pytest.mark.seeded(30)
@pytest.mark.parametrize("optimized", [False, True])
def test_a_read_only_store_is_what_it_is_in_java(
    seed: str, oracle: Oracle, *, optimized: bool
) -> None:
    random = Random(f"{seed} read only")
    store = {
        "store": "kept",
        "timestamped": random.random() < 0.5,
        "caching": random.random() < 0.5,
        "persistent": random.random() < 0.5,
    }
    steps = [
        STREAM,
        {"id": "p", "op": "process", "on": "s", "fn": "find", "finds": ["kept"], "name": "reader"},
        {"id": "out", "op": "to", "on": "p", "topic": "out"},
        {
            "id": "r",
            "op": "read_only_store",
            "topic": "kept-topic",
            "source": "from",
            "name": "keeper",
            "fn": "scan_forward" if store["timestamped"] else "keep",
            "stores": [store],
            "readers": ["reader"],
        },
    ]
    request = asked(random, steps)
    if optimized:
        request["config"]["topology.optimization"] = "all"
    for record in request["inputs"]:
        if random.random() < 0.4:
            # Values of the stream are the keys of the store.
            record["topic"], record["value"] = "in", random.choice(("61", "6162", "6d"))
        else:
            record["topic"] = "kept-topic"

    compare(request, oracle)


@pytest.mark.seeded(40)
@pytest.mark.parametrize("kind", ["windows", "sessions"])
@pytest.mark.parametrize("kept", ["disk", "memory", "own"])
def test_every_read_of_windows_and_sessions_finds_what_it_finds_in_java(
    kind: str, kept: str, seed: str, oracle: Oracle
) -> None:
    random = Random(f"{seed} {kind} {kept} reads")
    on_disk = kept == "disk"
    caching = random.random() < 0.4
    store = {
        "store": "kept",
        "kind": kind,
        "size": 10,
        "timestamped": random.random() < 0.5,
        "persistent": on_disk,
        "caching": caching,
        # What has expired is read in Java as long as its record cache has it.
        "retention_ms": 1_000_000 if caching else random.choice((60, 150, 1_000_000)),
    }
    steps = [
        STREAM,
        {"id": "p", "op": "process", "on": "s", "fn": kind, "stores": [store]},
        {"id": "out", "op": "to", "on": "p", "topic": "out"},
    ]
    request = asked(random, steps, own=kept == "own")
    request["config"] = {"statestore.cache.max.bytes": "100000"}
    for record in request["inputs"]:
        record["key"] = random.choice(("61", "62", "63", "64"))
        if caching or not on_disk:
            # Over a record cache Java's backward reads tell what is deleted there. In memory the
            # removal of a session does not move the time of its store.
            record["value"] = record["value"] or "78"

    compare(request, oracle)
