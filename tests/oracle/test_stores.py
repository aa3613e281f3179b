"""Where stores are kept, by setting, operator and supplier: the same comes out as in Java."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.generate import generate
from tests.oracle.test_run import compare
from tests.oracle.test_windows import WINDOWS, drawn

if TYPE_CHECKING:
    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

RECORDS = 25
_JAVA = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$"
IN_MEMORY = {"dsl.store.suppliers.class": f"{_JAVA}InMemoryDslStoreSuppliers"}
"""The setting under which every store of the DSL is in memory."""


@pytest.mark.seeded(60)
def test_a_random_topology_whose_stores_are_all_in_memory(seed: str, oracle: Oracle) -> None:
    request = generate(Random(f"{seed} in memory"), records=RECORDS)
    request["config"] = {**request["config"], **IN_MEMORY}

    compare(request, oracle)


@pytest.mark.seeded(40)
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_whose_stores_are_all_in_memory(kind: str, seed: str, oracle: Oracle) -> None:
    random = Random(f"{seed} {kind} in memory")
    emit = random.choice((None, "close"))
    request = drawn(random, kind, None if kind == "unlimited" else emit)
    for step in request["steps"]:
        step.get("materialized", {}).pop("persistent", None)
    request["config"] = {"statestore.cache.max.bytes": "0", **IN_MEMORY}

    compare(request, oracle)


def test_the_deprecated_setting_says_the_same(oracle: Oracle) -> None:
    request: dict[str, Any] = drawn(Random("deprecated"), "hopping", None)
    for step in request["steps"]:
        step.get("materialized", {}).pop("persistent", None)
    request["config"] = {"statestore.cache.max.bytes": "0", "default.dsl.store": "in_memory"}

    compare(request, oracle)
