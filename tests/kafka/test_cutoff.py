"""A consumer that its client has cut off from the brokers is noticed; one that waits is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.clients import Clients
from tests.support.waiting import wait_for

from headwater.errors import KafkaUnavailableError
from headwater.kafka.consumer import FROM_START
from headwater.native.cutoff import CutOffWatch

if TYPE_CHECKING:
    from headwater.kafka.consumer import PartitionConsumer

pytestmark = pytest.mark.kafka

PATIENCE_S = 0.5


class Watched:
    """A consumer of the first partition, its watch, and a clock that we move."""

    def __init__(self, clients: Clients, *, role: str, committed_only: bool) -> None:
        self.clients = clients
        self.consumer: PartitionConsumer = clients.consumer(role)
        self.consumer.assign({clients.first: FROM_START})
        self.now = 0.0
        self.watch = CutOffWatch(
            self.consumer,
            clients.admin,
            committed_only=committed_only,
            patience_s=PATIENCE_S,
            clock=lambda: self.now,
        )

    def turn(self, seconds: float = 0.1) -> None:
        """Poll once; then so much time has passed."""
        self.consumer.poll(0.02)
        self.now += seconds
        self.watch.check(lambda: [self.clients.first])

    def read_to_the_end(self) -> None:
        first = self.clients.first
        end = self.clients.admin.end_offsets([first])[first]

        def is_at_end() -> bool:
            self.consumer.poll(0.1)
            return self.consumer.end_of(first) == end

        wait_for(is_at_end, what="the end of the partition")

    def watch_through(self, windows: int) -> None:
        """Take so many looks, each with an answer of the broker."""
        for _ in range(windows):
            self.turn(0.9 * PATIENCE_S)
            answer = self.clients.admin.ends_later([self.clients.first], committed_only=True)
            wait_for(lambda answer=answer: answer() is not None, what="an answer")  # type: ignore[misc]
            self.turn(0.9 * PATIENCE_S)


@pytest.fixture
def clients(bootstrap_servers: str, unique_name: str) -> Clients:
    found = Clients(bootstrap_servers, unique_name)
    found.create()
    return found


def send(clients: Clients, *, commit: bool = True) -> None:
    """Send a record to the first partition, in a transaction that is committed or stays open."""
    producer = clients.transactional()
    producer.sender(clients.topic)(b"k", b"v", 1, [], 0)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
        wait_for(lambda: is_settled(clients), what="the marker")
    else:
        clients.held = producer  # type: ignore[attr-defined]  # kept: closing it would abort


def is_settled(clients: Clients) -> bool:
    """Whether no transaction is open in the first partition: a commit is answered before."""
    ends = clients.admin.end_offsets
    return ends([clients.first], committed_only=True) == ends([clients.first])


def test_a_consumer_that_gets_nothing_of_what_is_there_is_noticed(clients: Clients) -> None:
    watched = Watched(clients, role="main", committed_only=False)
    watched.read_to_the_end()
    watched.consumer.pause([clients.first])  # the client fetches no more, as one that is cut off
    send(clients)

    with pytest.raises(KafkaUnavailableError, match=f"nothing of {clients.first} has come"):
        watched.watch_through(8)


def test_a_consumer_that_was_never_served_is_noticed(clients: Clients) -> None:
    send(clients)
    watched = Watched(clients, role="restore", committed_only=True)
    watched.consumer.pause([clients.first])

    with pytest.raises(KafkaUnavailableError, match="lost its brokers"):
        watched.watch_through(8)


def test_a_quiet_partition_is_none_that_is_cut_off(clients: Clients) -> None:
    send(clients)
    watched = Watched(clients, role="main", committed_only=False)
    watched.read_to_the_end()

    watched.watch_through(8)


def test_an_open_transaction_keeps_a_reader_of_committed_records_waiting(clients: Clients) -> None:
    send(clients, commit=False)
    watched = Watched(clients, role="restore", committed_only=True)

    watched.watch_through(8)


def test_records_that_come_are_progress(clients: Clients) -> None:
    watched = Watched(clients, role="main", committed_only=False)
    for _ in range(4):
        send(clients)
        watched.read_to_the_end()
        watched.watch_through(1)


def test_time_in_which_nobody_looked_does_not_count(clients: Clients) -> None:
    watched = Watched(clients, role="main", committed_only=False)
    watched.read_to_the_end()
    patient = CutOffWatch(
        watched.consumer,
        clients.admin,
        committed_only=False,
        patience_s=5,
        clock=lambda: watched.now,
    )
    patient.check(lambda: [clients.first])
    watched.consumer.pause([clients.first])
    send(clients)

    for _ in range(4):  # frozen for an hour each time: four looks are not five seconds of waiting
        watched.now += 3_600
        patient.check(lambda: [clients.first])
