"""Each rule by which DataFrames are made gives what tasks and Java make of the meanest records.

And each way in which it may be wrong is seen.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from headwater.spark.frames.rows import Trouble
from tests.support.agreement import left_by_java
from tests.support.dataframes import by_dataframes, crossed, latest, natively, translated
from tests.support.planted import planted
from tests.support.rule_cases import CASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.model.topology import Topology
    from headwater.spark.frames.plan import Translation
    from tests.java.tool import Oracle
    from tests.support.dataframes import Log, State
    from tests.support.rule_cases import RuleCase

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow]


@cache
def drawn(name: str) -> tuple[Topology, Translation]:
    topology, translation = translated(CASES[name].build)
    units = {number for unit in translation.units for number in unit.subtopologies}
    assert units == set(translation.subtopologies), translation.subtopologies
    return topology, translation


@cache
def expected(name: str) -> tuple[State, dict[tuple[str, int], int]]:
    """What tasks make of a case, and the latest time of each partition."""
    topology, translation = drawn(name)
    log = CASES[name].log
    times = dict(latest(log)) | crossed(topology, log)
    return natively(topology, translation, log), times


def by_java(
    oracle: Oracle, case: RuleCase, topology: Topology, log: Log
) -> Iterable[tuple[str, bytes, tuple[bytes | None, int]]]:
    """The newest changelog record of each key; Java has one partition."""
    java, _ = left_by_java(oracle.ask(case.request(log)), topology.stores)
    for (store, key), (value, at) in java.changelogs.items():
        found = None if value is None else bytes.fromhex(value)
        yield store, bytes.fromhex(key), (found, at)


@pytest.mark.parametrize("name", CASES)
def test_dataframes_make_what_tasks_and_java_make(session: Any, oracle: Oracle, name: str) -> None:
    case = CASES[name]
    topology, translation = drawn(name)

    computed = by_dataframes(session, translation, case.log)

    state, times = expected(name)
    assert state
    assert (computed.trouble, computed.state, computed.times) == (Trouble.NONE, state, times)
    in_java = natively(topology, translation, case.log, run=partial(by_java, oracle, case))
    assert state == in_java


def planted_in_rules() -> Iterator[Any]:
    """Every fault is planted in every run, in the first rule that it may be in."""
    before: set[str] = set()
    for name, case in CASES.items():
        for fault in case.faults:
            if fault in before:
                yield pytest.param(name, fault, marks=pytest.mark.soak)
            else:
                yield pytest.param(name, fault)
            before.add(fault)


@pytest.mark.parametrize(("name", "fault"), [*planted_in_rules()])
def test_a_fault_planted_in_a_rule_is_seen(quick: Any, name: str, fault: str) -> None:
    _, translation = drawn(name)

    with planted(fault):
        computed = by_dataframes(quick, translation, CASES[name].log)

    assert (computed.state, computed.times) != expected(name)
