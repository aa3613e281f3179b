"""When the planner of a continuous query plans a turn, and up to where, by what Kafka says."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from headwater.errors import TopicError
from headwater.ids import TaskId, TopicPartition
from headwater.spark.turns.messages import Turn, TurnNumber
from headwater.spark.turns.planner import Planner, PlannerSettings
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.support.thread_rig import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PARTITIONS = 2
RECORDS = 30
"""Of each partition."""
FOR_EVER_S = 3_600.0


class Planned:
    """An application over one topic, and the turns that are planned for it."""

    def __init__(self, topics: Topics, app: str) -> None:
        self._topics, self._app = topics, app
        topics.create(app, PARTITIONS)
        for number in range(PARTITIONS):
            topics.send(app, [("k", "v")] * RECORDS, number)
        self.partitions = [TopicPartition(app, number) for number in range(PARTITIONS)]
        self.commit(0)

    def commit(self, offset: int) -> None:
        """Commit the same offset of every partition."""
        consumer = Consumer(
            {"bootstrap.servers": self._topics.bootstrap_servers, "group.id": self._app}
        )
        offsets = [ClientPartition(self._app, number, offset) for number in range(PARTITIONS)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    def planner(self, **told: Any) -> Planner:
        tasks = {TaskId(0, p.partition): (p,) for p in self.partitions}
        given: dict[str, Any] = {
            "config": {
                "application.id": self._app,
                "bootstrap.servers": self._topics.bootstrap_servers,
            },
            "inputs": tasks,
            "routes": {task: number for number, task in enumerate(tasks)},
            "slots": 1,
            "limit": 1_000,
            "idle_s": FOR_EVER_S,
            "before": TurnNumber(0, 0, 1, 0),
        }
        return Planner(PlannerSettings(**{**given, **told}))


@pytest.fixture
def planned(topics: Topics, unique_name: str) -> Planned:
    return Planned(topics, unique_name)


def test_a_topic_without_new_records_has_turns_for_the_clock_but_no_sooner_than_they_are_due(
    planned: Planned,
) -> None:
    """Punctuation by the wall clock happens in turns."""
    planned.commit(RECORDS)
    seldom, often = planned.planner(), planned.planner(idle_s=0.2)

    assert len(seldom.next(1)) == len(often.next(1)) == PARTITIONS
    assert [seldom.next(2) for _ in range(3)] == [[], [], []]
    for number in (2, 3):
        rows = wait_for(lambda n=number: often.next(n), what="a turn for the clock")
        assert [row[1] for row in rows] == [number] * PARTITIONS


def test_records_that_have_come_are_not_kept_waiting_for_the_clock(
    planned: Planned, topics: Topics, unique_name: str
) -> None:
    planned.commit(RECORDS)
    planner = planned.planner()
    planner.next(1)
    assert planner.next(2) == []

    topics.send(unique_name, [("k", "v")], 1)

    assert len(wait_for(lambda: planner.next(2), what="a turn for the record")) == PARTITIONS


def test_a_turn_takes_no_more_than_the_limit_although_more_waits(planned: Planned) -> None:
    planner = planned.planner(limit=7)

    turns: list[Turn] = [pickle.loads(row[2]) for row in planner.next(1)]

    # A share is rounded up, at the cost of one offset a partition.
    assert 7 <= sum(end for turn in turns for end in turn.ends.values()) < 7 + PARTITIONS
    assert [turn.more for turn in turns] == [frozenset([p]) for p in planned.partitions]


def test_a_topic_that_ends_before_what_is_committed_of_it_ends_the_query(planned: Planned) -> None:
    """As one that was made anew: a turn up to there would never be over."""
    planned.commit(RECORDS + 1)

    with pytest.raises(TopicError, match=rf"-0 ends at offset {RECORDS}, and {RECORDS + 1} is"):
        planned.planner().next(1)


def test_what_was_read_of_an_open_transaction_is_no_end_that_was_lost(
    planned: Planned, topics: Topics, unique_name: str
) -> None:
    """At-least-once reads it natively, and commits what lies behind it."""
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap_servers, "transactional.id": unique_name}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(PARTITIONS):
        producer.produce(unique_name, b"v", b"k", number)
    assert producer.flush(30) == 0
    planned.commit(RECORDS + 1)

    assert len(planned.planner().next(1)) == PARTITIONS
    producer.abort_transaction(30)
