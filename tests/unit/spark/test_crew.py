"""A query is begun anew when its executors are not those that it began with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from headwater.spark.turns.crew import Crew, crew_of
from headwater.spark.turns.query import TurnsFailedError


class Seen:
    """Executors that come and go, and a clock turned by hand."""

    def __init__(self) -> None:
        self.there = frozenset({"driver", "a", "b"})
        self.now_s = 100.0
        self.looks = 0

    def look(self) -> frozenset[str]:
        self.looks += 1
        return self.there

    def crew(self) -> Crew:
        return Crew(self.look, lambda: self.now_s)


@pytest.mark.parametrize(
    ("there", "lost", "grown"),
    [
        ({"driver", "a", "b"}, False, False),
        ({"driver", "a"}, True, False),
        ({"driver", "a", "b", "c"}, False, True),
        ({"driver", "a", "c"}, True, True),
    ],
)
def test_who_has_gone_and_who_has_come_is_told_apart(
    there: set[str], lost: bool, grown: bool
) -> None:
    seen = Seen()
    crew = seen.crew()
    seen.there = frozenset(there)
    seen.now_s += 2

    assert crew.is_another() is (lost or grown)
    assert (crew.has_lost, crew.has_grown) == (lost, grown)


def test_spark_is_asked_once_a_second() -> None:
    seen = Seen()
    crew = seen.crew()
    for _ in range(50):
        seen.now_s += 0.1
        assert not crew.is_another()

    assert 4 <= seen.looks <= 7


class Jvm:
    """A Spark with one executor, whose JVM may die."""

    def __init__(self) -> None:
        self.is_there = True

    def sc(self) -> Any:
        if not self.is_there:
            raise Py4JNetworkError("Error while sending or receiving")
        executor = SimpleNamespace(host=lambda: "10.0.0.1", port=lambda: 7079)
        tracker = SimpleNamespace(getExecutorInfos=lambda: [executor])
        return SimpleNamespace(statusTracker=lambda: tracker)


def test_a_spark_that_dies_during_a_look_is_told_in_one_line() -> None:
    jvm = Jvm()
    context = SimpleNamespace(master="k8s://https://10.0.0.1:443", _jsc=jvm)
    session: Any = SimpleNamespace(sparkContext=context)
    crew = crew_of(session)
    assert crew is not None
    assert not crew.is_another()

    jvm.is_there = False
    crew._next_s = 0
    with pytest.raises(TurnsFailedError, match=r"given a look at its executors up"):
        crew.is_another()
    with pytest.raises(TurnsFailedError):
        crew_of(session)
