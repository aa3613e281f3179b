"""The comparison of engines sees a difference wherever there is one."""

from __future__ import annotations

from copy import deepcopy
from itertools import count
from typing import TYPE_CHECKING

import pytest

from headwater.dsl.loading import build_topology
from tests.oracle.run import run
from tests.support.agreement import (
    Expected,
    Left,
    check_changelogs,
    check_listed,
    check_outputs,
    expected,
    left_by_java,
)
from tests.support.applications import FORMAT, Order, Spread
from tests.support.random_applications import draw, readers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.java.tool import Oracle
    from tests.support.agreement import Sent
    from tests.support.applications import Application

pytestmark = pytest.mark.java

SEED = "how they compare"
TOPOLOGIES = 10


@pytest.fixture(scope="module")
def application() -> Application:
    """The first one that has every way in which keys and orders can lie."""
    drawn = (draw(f"{SEED} {number}", topologies=TOPOLOGIES, records=15) for number in count())
    return next(
        it
        for it in drawn
        if {*it.spread.values()} == set(Spread) and {*it.orders().values()} == set(Order)
    )


@pytest.fixture(scope="module")
def java(oracle: Oracle, application: Application) -> Expected:
    return expected(application, oracle.ask)


@pytest.fixture
def left(java: Expected) -> Left:
    """What an engine might leave: the second of two tasks comes after the first."""
    left = Left(changelogs=java.changelogs)
    for part in deepcopy(java.parts):
        for topic, sent in part.outputs.items():
            left.outputs[topic] += sent
    left.places = {at: java.place(*at) for at in left.changelogs}
    return left


def test_an_application_of_many_topologies_does_here_what_it_does_in_java(
    oracle: Oracle, application: Application
) -> None:
    """Topics of patterns are there from the start: for a new one the driver opens tasks anew."""
    matched = (topic for topic in application.topics if topic.startswith("pat-"))
    first = [{"topic": it, "key": None, "value": None, "timestamp": 0} for it in matched]
    request = {**application.request, "inputs": first + application.request["inputs"]}
    java, _ = left_by_java(oracle.ask(request), application.stores)

    ours, listed = left_by_java(run(request), application.stores)

    ours.places = dict.fromkeys(ours.changelogs, 0)
    orders, eventual = application.orders(), application.eventual
    _compare(ours, Expected((java,), orders=orders, eventual=eventual))
    check_listed(ours, listed, application.stores)


def test_java_is_asked_for_every_record_and_what_it_leaves_is_taken_as_it_is(
    application: Application, java: Expected, left: Left
) -> None:
    asked = [len(request["inputs"]) for request in application.requests()]

    # What global tables read is read in every partition.
    inputs = application.request["inputs"]
    twice = sum(record["topic"] in application.globals for record in inputs)
    assert sum(asked) == len(inputs) + twice
    assert set(Spread) == set(application.spread.values())
    assert set(Order) == set(java.orders.values())
    assert set(left.places.values()) == {0, 1}
    _compare(left, java)


def test_what_two_tasks_send_may_come_in_turns(java: Expected, left: Left) -> None:
    topic, (first, second) = _of_two_tasks(java)
    left.outputs[topic] = [*second[:1], *first[:2], *second[1:], *first[2:]]

    _compare(left, java)


def _of_two_tasks(java: Expected) -> tuple[str, list[list[Sent]]]:
    """A topic to which two tasks send, each something of its own."""
    found = ((topic, java.outputs(topic)) for topic in java.orders)
    return next(
        (topic, parts)
        for topic, parts in found
        if java.orders[topic] is Order.BY_TASK
        and all(len(set(part)) > 1 for part in parts)
        and not set(parts[0]).intersection(parts[1])
    )


def _compare(left: Left, java: Expected) -> None:
    check_outputs(left, java)
    check_changelogs(left, java)


@pytest.mark.parametrize("number", range(4))
def test_of_what_is_drawn_some_can_be_dataframes_and_some_cannot(number: int) -> None:
    application = draw(f"{SEED} {number}", topologies=TOPOLOGIES, records=1)

    chosen = application.for_dataframes()

    assert 0 < len(chosen) < len(build_topology(application.build()).subtopologies)


def test_every_family_of_operators_is_drawn() -> None:
    drawn = [draw(f"{SEED} {number}", topologies=TOPOLOGIES, records=1) for number in range(24)]

    steps = [step for one in drawn for step in one.request["steps"]]
    kinds = {step["windows"]["kind"] for step in steps if step["op"] == "windowed_by"}
    joined = {step["op"] for step in steps if step["op"].endswith("join") and "windows" in step}
    limits = {"limit_ms" in step for step in steps if step["op"] == "suppress"}
    between = {len(topics) > 1 for one in drawn for topics in readers(one)}

    assert kinds == {"time", "unlimited", "sliding", "session"}
    assert joined == {"join", "left_join", "outer_join"}
    assert limits == {True, False}
    assert between == {True, False}
    assert {"cogroup", "global_table"} <= {step["op"] for step in steps}
    assert {"close"} <= {step.get("emit") for step in steps}
    assert any("foreign_key" in step for step in steps)
    assert any("history_ms" in step.get("materialized", {}) for step in steps)
    assert any("grace_ms" in step.get("joined", {}) for step in steps)
    assert any("pattern" in step for step in steps)
    assert {"process", "process_values", "transform_values"} <= {step["op"] for step in steps}
    assert {"hold", "forward_all"} <= {step.get("fn") for step in steps}
    with_headers = [one for step in steps for one in step.get("stores", ()) if "headers" in one]
    assert {one.get("kind", "values") for one in with_headers} == {"values", "windows", "sessions"}
    assert {one.request["config"].get(FORMAT) for one in drawn} == {None, "HEADERS"}
    assert {"key", "partition", "batch", None} == {step.get("waits") for step in steps}
    assert any(map(_has_windows_of_a_cogroup, drawn))
    assert all(
        one.eventual for one in drawn if any("foreign_key" in s for s in one.request["steps"])
    )


def _has_windows_of_a_cogroup(drawn: Application) -> bool:
    steps = drawn.request["steps"]
    cogroups = {step["id"] for step in steps if step["op"] == "cogroup"}
    return any(step["op"] == "windowed_by" and step["on"] in cogroups for step in steps)


# -- planted differences ---------------------------------------------------------------------------


def _ordered(left: Left, java: Expected) -> list[list[Sent]]:
    """What was put out by one task alone."""
    return [
        sent
        for topic, sent in left.outputs.items()
        if java.orders[topic] is Order.BY_TASK and sent in java.outputs(topic)
    ]


def _last_output_is_lost(left: Left, java: Expected) -> None:
    _ordered(left, java)[0].pop()


def _an_output_comes_twice(left: Left, java: Expected) -> None:
    sent = _ordered(left, java)[0]
    sent.append(sent[-1])


def _outputs_change_places(left: Left, java: Expected) -> None:
    sent = next(sent for sent in _ordered(left, java) if len(set(sent)) > 1)
    sent.sort(key=repr, reverse=sent == sorted(sent, key=repr))


def _headers_are_lost(left: Left, java: Expected) -> None:
    sent = next(sent for sent in _ordered(left, java) if any(one[3] for one in sent))
    sent[:] = [(*one[:3], ()) for one in sent]


def _another_time(left: Left, java: Expected) -> None:
    at, (value, timestamp) = next(it for it in left.stores.items() if it[0][0] not in java.eventual)
    left.changelogs[at] = value, timestamp + 1


def _another_value(left: Left, _java: Expected) -> None:
    at, (value, timestamp) = next(iter(left.stores.items()))
    left.changelogs[at] = f"{value}00", timestamp


def _a_key_is_lost(left: Left, _java: Expected) -> None:
    del left.changelogs[next(iter(left.stores))]


def _a_deleted_key_lives(left: Left, _java: Expected) -> None:
    at = next(at for at, entry in left.changelogs.items() if entry[0] is None)
    left.changelogs[at] = "00", left.changelogs[at][1]


def _another_time_of_a_deletion(left: Left, java: Expected) -> None:
    deleted = (at for at, entry in left.changelogs.items() if entry[0] is None)
    at = next(at for at in deleted if at[0] not in java.eventual)
    left.changelogs[at] = None, left.changelogs[at][1] + 1


def _a_key_is_in_another_partition(left: Left, java: Expected) -> None:
    at = next(at for at, place in left.places.items() if place == 1)
    left.places[at] = 0


def _of_two_tasks_one_sends_in_another_order(left: Left, java: Expected) -> None:
    topic, (first, second) = _of_two_tasks(java)
    left.outputs[topic] = [*reversed(second), *first]


def _of_two_tasks_one_sends_nothing(left: Left, java: Expected) -> None:
    topic, (first, _) = _of_two_tasks(java)
    left.outputs[topic] = first


def _what_has_no_order_lacks_a_record(left: Left, java: Expected) -> None:
    next(left.outputs[topic] for topic, order in java.orders.items() if order is Order.NONE).pop()


def _a_turn_is_taken_twice(left: Left, java: Expected) -> None:
    """Its records come once more after all of them, in their order."""
    sent = next(sent for sent in _ordered(left, java) if len(set(sent)) > 2)
    sent += sent[-3:]


def _a_turn_comes_before_the_one_before(left: Left, java: Expected) -> None:
    sent = next(sent for sent in _ordered(left, java) if len(set(sent)) > 3)
    sent[:] = [*sent[-2:], *sent[:-2]]


@pytest.mark.parametrize(
    "fault",
    [
        _last_output_is_lost,
        _an_output_comes_twice,
        _outputs_change_places,
        _headers_are_lost,
        _another_time,
        _another_value,
        _a_key_is_lost,
        _a_deleted_key_lives,
        _another_time_of_a_deletion,
        _a_key_is_in_another_partition,
        _of_two_tasks_one_sends_in_another_order,
        _of_two_tasks_one_sends_nothing,
        _what_has_no_order_lacks_a_record,
        _a_turn_is_taken_twice,
        _a_turn_comes_before_the_one_before,
    ],
)
def test_a_planted_difference_is_seen(
    java: Expected, left: Left, fault: Callable[[Left, Expected], None]
) -> None:
    fault(left, java)

    with pytest.raises(AssertionError):
        _compare(left, java)
