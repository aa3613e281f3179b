"""The comparison of engines sees a difference wherever there is one."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import pytest

from headwater.dsl.loading import build_topology
from tests.oracle.run import run
from tests.support.agreement import Left, check_changelogs, check_outputs, left_by_java
from tests.support.applications import draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.java.tool import Oracle

pytestmark = pytest.mark.java

SEED = "a comparison"


@pytest.fixture(scope="module")
def java(oracle: Oracle) -> Left:
    left, _ = left_by_java(oracle.ask(draw(SEED, topologies=6, records=15).request))
    return left


def test_an_application_of_many_topologies_does_here_what_it_does_in_java(java: Left) -> None:
    application = draw(SEED, topologies=6, records=15)

    ours, stores = left_by_java(run(application.request))

    _compare(ours, java)
    assert java.stores == ours.stores == stores


def _compare(left: Left, java: Left) -> None:
    check_outputs(left, java)
    check_changelogs(left, java)


@pytest.mark.parametrize("number", range(4))
def test_of_what_is_drawn_some_can_be_dataframes_and_some_cannot(number: int) -> None:
    application = draw(f"{SEED} {number}", topologies=10, records=1)

    chosen = application.for_dataframes()

    assert 0 < len(chosen) < len(build_topology(application.build()).subtopologies)


def _last_output_is_lost(left: Left) -> None:
    next(iter(left.outputs.values())).pop()


def _an_output_comes_twice(left: Left) -> None:
    sent = next(iter(left.outputs.values()))
    sent.append(sent[-1])


def _outputs_change_places(left: Left) -> None:
    sent = next(sent for sent in left.outputs.values() if len(set(sent)) > 1)
    sent.sort(key=repr, reverse=sent == sorted(sent, key=repr))


def _headers_are_lost(left: Left) -> None:
    sent = next(sent for sent in left.outputs.values() if any(one[3] for one in sent))
    sent[:] = [(*one[:3], ()) for one in sent]


def _another_time(left: Left) -> None:
    at, (value, timestamp) = next(iter(left.stores.items()))
    left.changelogs[at] = value, timestamp + 1


def _another_value(left: Left) -> None:
    at, (value, timestamp) = next(iter(left.stores.items()))
    left.changelogs[at] = f"{value}00", timestamp


def _a_key_is_lost(left: Left) -> None:
    del left.changelogs[next(iter(left.stores))]


def _a_deleted_key_lives(left: Left) -> None:
    at = next(at for at, entry in left.changelogs.items() if entry[0] is None)
    left.changelogs[at] = "00", left.changelogs[at][1]


def _another_time_of_a_deletion(left: Left) -> None:
    at = next(at for at, entry in left.changelogs.items() if entry[0] is None)
    left.changelogs[at] = None, left.changelogs[at][1] + 1


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
    ],
)
def test_a_planted_difference_is_seen(java: Left, fault: Callable[[Left], None]) -> None:
    left = deepcopy(java)
    fault(left)

    with pytest.raises(AssertionError):
        _compare(left, java)
