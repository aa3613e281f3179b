"""Whoever comes to the group of an application that Spark runs is looked for now and then."""

from __future__ import annotations

import pytest

from headwater.errors import FencedError, GroupInUseError, KafkaUnavailableError
from headwater.spark.turns.others import LOOK_S, RECORD_LOOK_S, Others


class Group:
    """A group that somebody may come to, and a clock turned by hand."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.now_s = 100.0
        self.looks = 0

    def look(self) -> None:
        self.looks += 1
        if self.error is not None:
            raise self.error

    def others(self) -> Others:
        return Others(self.look, lambda: self.now_s)


def test_the_group_is_looked_at_every_thirty_seconds() -> None:
    group = Group()
    others = group.others()
    for _ in range(1_000):
        group.now_s += 0.1
        others.check()

    assert LOOK_S == 30.0
    assert group.looks == 3


def test_the_engine_record_is_looked_at_more_often() -> None:
    group = Group()
    record = Others(group.look, lambda: group.now_s, every_s=RECORD_LOOK_S)
    group.error = FencedError("another driver has taken over")
    group.now_s += RECORD_LOOK_S

    with pytest.raises(FencedError, match="another driver"):
        record.check()
    assert RECORD_LOOK_S <= 5.0


def test_whoever_is_there_is_told_and_an_outage_is_waited_for() -> None:
    group = Group()
    others = group.others()
    group.error = KafkaUnavailableError("no broker")
    group.now_s += LOOK_S
    others.check()

    group.error = GroupInUseError("somebody")
    others.check()
    group.now_s += LOOK_S
    with pytest.raises(GroupInUseError, match="somebody"):
        others.check()
    assert group.looks == 2
