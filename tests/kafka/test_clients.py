"""What the Kafka clients promise the engine, on a real broker."""

from __future__ import annotations

import gc
import traceback
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.support.clients import Clients
from tests.support.raw_headers import send_with_headers
from tests.support.waiting import wait_for

from headwater.errors import (
    ConfigError,
    DeserializationError,
    FencedError,
    KafkaAuthError,
    KafkaUnavailableError,
    MissingTopicError,
    ProductionError,
    RecordTooLargeError,
)
from headwater.kafka.admin import Admin
from headwater.kafka.consumer import FROM_START, PartitionConsumer
from headwater.kafka.errors import OutputRefusedError, TransactionAbortedError
from headwater.kafka.fencing import fence
from headwater.kafka.settings import (
    admin_settings,
    producer_settings,
)
from headwater.local.broker import KafkaBroker
from headwater.model.topics import InternalTopic
from headwater.native.watching import TopicWatch
from headwater.ports import PartitionOffsets, Unreadable
from headwater.spark.reader import TurnReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater.ids import TopicPartition

pytestmark = pytest.mark.kafka


@pytest.fixture(params=["false", "true"], ids=["in Python", "in C"])
def in_c(request: pytest.FixtureRequest) -> dict[str, str]:
    """Either path of records keeps each promise."""
    return {"headwater_native": request.param}


@pytest.fixture
def clients(bootstrap_servers: str, unique_name: str, in_c: dict[str, str]) -> Clients:
    found = Clients(bootstrap_servers, unique_name, **in_c)
    found.create()
    return found


@pytest.fixture
def exactly_once(bootstrap_servers: str, unique_name: str, in_c: dict[str, str]) -> Clients:
    found = Clients(bootstrap_servers, unique_name, processing_guarantee="exactly_once_v2", **in_c)
    found.create()
    return found


def read_until(consumer: PartitionConsumer, done: Callable[[], bool]) -> dict[TopicPartition, list]:
    found: dict[TopicPartition, list[Any]] = {}

    def step() -> bool:
        for partition, records in consumer.poll(0.1):
            found.setdefault(partition, []).extend(records)
        return done()

    wait_for(step, what="records", every_s=0)
    return found


# -- consumer ------------------------------------------------------------------------------------


def test_records_come_by_partition_in_order_with_all_that_was_sent(clients: Clients) -> None:
    producer = clients.producer()
    send = producer.sender(clients.topic)
    for number in range(5_000):
        send(b"k%d" % number, b"v", 1_000 + number, None, number % 2)
    send(None, None, 7, [("name", b"value"), ("empty", None)], 0)
    producer.flush(30)
    consumer = clients.consumer()
    consumer.assign({clients.first: 0, clients.second: 2_000})

    found = read_until(
        consumer,
        lambda: consumer.end_of(clients.first) == 2_501 and consumer.lag(clients.second) == 0,
    )

    first, second = found[clients.first], found[clients.second]
    assert first[3] == (3, 1_006, b"k6", b"v", None)
    assert first[-1] == (2_500, 7, None, None, [("name", b"value"), ("empty", None)])
    assert consumer.lag(clients.second) == 0
    assert [record[0] for record in first] == list(range(2_501))
    assert [record[0] for record in second] == list(range(2_000, 2_500))
    consumer.close()


def test_a_header_name_that_is_not_utf_8_comes_with_u_fffd_and_the_others_as_they_are(
    clients: Clients, bootstrap_servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    fine: list[tuple[bytes, bytes | None]] = [(b"trace", b"t1"), (b"caf\xc3\xa9", None)]
    one = [fine[0], (b"caf\xe9", b"v"), fine[1]]
    several = [(b"\xff-first", b"1"), fine[0], (b"\xff-second", None), (b"\xff-third", b"3")]
    rows = [(b"a", fine), (b"b", one), (b"c", several), (b"d", fine), (b"e", one)]
    send_with_headers(
        bootstrap_servers,
        clients.topic,
        0,
        [(key, key, headers) for key, headers in rows],
    )
    consumer = clients.consumer()
    consumer.assign({clients.first: FROM_START})
    found = read_until(consumer, lambda: (consumer.end_of(clients.first) or 0) >= len(rows))
    consumer.close()

    as_text = [("trace", b"t1"), ("caf\u00e9", None)]
    mended = [as_text[0], ("caf\ufffd", b"v"), as_text[1]]
    # Of a record with several such names, Python's client keeps the first only.
    further: list[Any] = [("\ufffd", None), ("\ufffd", b"3")]
    if clients.native is not None:
        further = [("\ufffd-second", None), ("\ufffd-third", b"3")]
    assert [(record[3], record[4]) for record in found[clients.first]] == [
        (b"a", as_text),
        (b"b", mended),
        (b"c", [("\ufffd-first", b"1"), as_text[0], further[0], further[1]]),
        (b"d", as_text),
        (b"e", mended),
    ]
    assert caplog.text.count("not UTF-8") == 1
    assert f"{clients.first} offset 1" in caplog.text


SMALL_BOUND = {
    "consumer.receive.message.max.bytes": 2_000_512,
    "consumer.fetch.max.bytes": 2_000_000,
}
BOMB_BYTES = 5_000_000


def with_bombs(clients: Clients, codec: str) -> None:
    """Send a, two values that are small until they are unpacked, in one batch, and z."""
    settings = {"message.max.bytes": 20_000_000, "compression.type": codec, "linger.ms": 500}
    for keys, value in ((b"a", b"1"), (b"bc", bytes(BOMB_BYTES)), (b"z", b"1")):
        producer = Producer({"bootstrap.servers": clients.config.bootstrap_servers, **settings})
        for key in keys:
            producer.produce(clients.topic, value, bytes([key]), partition=0)
        assert producer.flush(30) == 0


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_record_that_unpacks_to_more_than_memory_may_hold_is_passed_over_by_its_place(
    bootstrap_servers: str, unique_name: str, codec: str, in_c: dict[str, str]
) -> None:
    clients = Clients(bootstrap_servers, unique_name, **SMALL_BOUND, **in_c)
    clients.create()
    with_bombs(clients, codec)

    consumer = clients.consumer(hands_on=True)
    consumer.assign({clients.first: FROM_START})
    batches: list[list[Any]] = []

    def read() -> bool:
        batches.extend(records for _, records in consumer.poll(0.1))
        return consumer.end_of(clients.first) is not None

    wait_for(read, what="the end", every_s=0)
    consumer.close()
    unreadable = [records for records in batches if isinstance(records, Unreadable)]
    assert [records[0][0] for records in unreadable] == [1, 2]
    assert all("receive.message.max.bytes (2,000,512 bytes)" in r.reason for r in unreadable)
    assert [r[0] for records in batches for r in records] == [0, 1, 2, 3]
    assert [r[2] for records in batches for r in records] == [b"a", None, None, b"z"]

    # Continuous running on Spark reads up to a cut, and beyond it when that is moved.
    turns = clients.consumer(kind=TurnReader, hands_on=True)
    turns.assign({clients.first: 0})
    turns.read_up_to({clients.first: 1})
    wait_for(lambda: turns.poll(0.1) or None, what="the first record", every_s=0)
    wait_for(lambda: turns.poll(0.1) or turns.position(clients.first) == 4, what="the rest")
    turns.read_up_to({clients.first: 3})
    found = turns.poll(0.1)
    assert [(type(records), records[0][0]) for _, records in found] == [
        (Unreadable, 1),
        (Unreadable, 2),
    ]
    turns.read_up_to({clients.first: 4})
    assert [records[0][2] for _, records in turns.poll(0.1)] == [b"z"]
    turns.close()


def test_a_changelog_record_that_cannot_be_unpacked_is_named_by_its_place(
    bootstrap_servers: str, unique_name: str, in_c: dict[str, str]
) -> None:
    clients = Clients(bootstrap_servers, unique_name, **SMALL_BOUND, **in_c)
    clients.create()
    with_bombs(clients, "zstd")
    consumer = clients.consumer("restore")
    consumer.assign({clients.first: FROM_START})

    with pytest.raises(DeserializationError, match=rf"{clients.first} offset 1: .*receive"):
        wait_for(lambda: consumer.poll_runs(0.1) and None, what="an error", every_s=0)
    consumer.close()


def test_an_answer_that_is_larger_than_the_client_takes_is_no_outage(
    bootstrap_servers: str, unique_name: str, in_c: dict[str, str]
) -> None:
    clients = Clients(bootstrap_servers, unique_name, **SMALL_BOUND, **in_c)
    clients.create(max_message_bytes="20000000")
    with_bombs(clients, "none")
    consumer = clients.consumer(hands_on=True)
    consumer.assign({clients.first: FROM_START})

    with pytest.raises(DeserializationError, match=rf"{clients.first} offset 1\. Raise consumer\."):
        wait_for(lambda: consumer.poll(0.1) and None, what="an error", every_s=0)
    consumer.close()


def test_what_is_there_is_returned_without_waiting_for_a_full_batch(clients: Clients) -> None:
    producer = clients.producer()
    producer.sender(clients.topic)(b"k", b"v", 1, None, 0)
    producer.flush(30)
    consumer = clients.consumer()
    consumer.assign({clients.first: 0})

    # A wait for a full batch of 2,000 would only end with its own time-out.
    found = read_until(consumer, lambda: consumer.next_offset(clients.first) == 1)

    assert len(found[clients.first]) == 1
    consumer.close()


def test_a_paused_partition_gives_nothing_and_goes_on_where_it_was(clients: Clients) -> None:
    producer = clients.producer()
    send = producer.sender(clients.topic)
    for number in range(10):
        send(None, b"%d" % number, 1, None, number % 2)
    producer.flush(30)
    consumer = clients.consumer()
    consumer.assign({clients.first: 0, clients.second: 0})
    consumer.pause([clients.first])

    found = read_until(consumer, lambda: consumer.end_of(clients.second) == 5)
    assert clients.first not in found

    consumer.resume([clients.first])
    found = read_until(consumer, lambda: consumer.end_of(clients.first) == 5)
    assert [record[0] for record in found[clients.first]] == [0, 1, 2, 3, 4]
    consumer.close()


def test_a_consumer_whose_partitions_were_all_paused_goes_on_with_those_it_resumes(
    clients: Clients,
) -> None:
    producer = clients.producer()
    send = producer.sender(clients.topic)
    for number in range(10):
        send(None, b"%d" % number, 1, None, number % 2)
    producer.flush(30)
    consumer = clients.consumer()
    consumer.assign({clients.first: 0, clients.second: 0})
    consumer.pause([clients.first, clients.second])

    consumer.resume([clients.second])
    found = read_until(consumer, lambda: consumer.end_of(clients.second) == 5)

    assert set(found) == {clients.second}
    assert [record[0] for record in found[clients.second]] == [0, 1, 2, 3, 4]
    consumer.close()


def test_the_end_lies_behind_transaction_markers_and_aborted_records(exactly_once: Clients) -> None:
    producer = exactly_once.transactional()
    send = producer.sender(exactly_once.topic)
    send(b"k", b"seen", 1, None, 0)
    producer.commit_transaction(30)
    producer.begin()
    send(b"k", b"never seen", 1, None, 0)
    producer.flush(30)
    producer.abort_transaction(30)
    consumer = exactly_once.consumer()
    consumer.assign({exactly_once.first: FROM_START})

    found = read_until(consumer, lambda: consumer.end_of(exactly_once.first) == 4)

    assert [record[3] for record in found[exactly_once.first]] == [b"seen"]
    consumer.close()


def test_an_offset_that_is_gone_is_reported_and_not_chosen_by_the_client(clients: Clients) -> None:
    consumer = clients.consumer()
    consumer.assign({clients.first: 17})
    lost: list[TopicPartition] = []

    read_until(consumer, lambda: bool(lost.extend(consumer.take_lost()) or lost))

    assert lost == [clients.first]
    assert consumer.take_lost() == []
    consumer.seek(clients.first, 0)
    read_until(consumer, lambda: consumer.end_of(clients.first) == 0)
    consumer.close()


def test_a_paused_partition_is_read_again_once_it_was_set_back(clients: Clients) -> None:
    producer = clients.producer()
    send = producer.sender(clients.topic)
    for number in range(2):
        send(None, b"%d" % number, 1, None, 0)
    producer.flush(30)
    consumer = clients.consumer()
    consumer.assign({clients.first: 0})
    read_until(consumer, lambda: consumer.next_offset(clients.first) == 2)
    consumer.pause([clients.first])

    consumer.seek(clients.first, 0)

    read_until(consumer, lambda: consumer.next_offset(clients.first) == 2)
    consumer.close()


def test_offsets_are_committed_with_metadata_and_read_back(clients: Clients) -> None:
    consumer = clients.consumer()

    committing = consumer.commit_later(
        [PartitionOffsets(partition=clients.first, offset=12, metadata="AgAAAA==")]
    )
    read_until(consumer, committing.done)
    committing.result()

    committed = clients.admin.committed(clients.topic, [clients.first, clients.second])
    assert committed.keys() == {clients.first}
    assert (committed[clients.first].offset, committed[clients.first].metadata) == (12, "AgAAAA==")
    consumer.close()


def test_offsets_in_an_open_transaction_are_waited_for(
    exactly_once: Clients, bootstrap_servers: str
) -> None:
    consumer = exactly_once.consumer()
    producer = exactly_once.transactional()
    offsets = [PartitionOffsets(partition=exactly_once.first, offset=3, metadata="")]
    producer.add_offsets(offsets, consumer.group_metadata, 30)
    impatient = Admin(
        admin_settings(exactly_once.config, exactly_once.connection, client_id="impatient"),
        exactly_once.connection,
        timeout_s=0.5,
    )

    with pytest.raises(Exception, match="open transaction"):
        impatient.committed(exactly_once.topic, [exactly_once.first])

    producer.commit_transaction(30)
    found = exactly_once.admin.committed(exactly_once.topic, [exactly_once.first])
    assert found[exactly_once.first].offset == 3
    consumer.close()


# -- producer ------------------------------------------------------------------------------------


def test_keys_go_where_java_sends_them(clients: Clients) -> None:
    producer = clients.producer()
    send = producer.sender(clients.topic)
    for key in (b"21", b"foobar", b"a-little-bit-long-string"):
        send(key, b"v", 1, None, None)
    producer.flush(30)
    consumer = clients.consumer()
    consumer.assign({clients.first: 0, clients.second: 0})

    found = read_until(
        consumer, lambda: sum(consumer.next_offset(p) or 0 for p in consumer.assigned) == 3
    )

    # murmur2 of these keys: -973932308, -790332482, -985981536, made positive, modulo 2.
    keys = {p.partition: {r[2] for r in records} for p, records in found.items()}
    assert keys == {0: {b"21", b"foobar", b"a-little-bit-long-string"}}
    assert producer.sent == 3
    assert producer.partitions(clients.topic) == 2
    consumer.close()


class Refusals:
    """An ``on_refused`` that lets every output go and remembers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes | None, int, int, Any, int | None]] = []
        self.errors: set[type[ProductionError]] = set()

    def __call__(
        self,
        error: ProductionError,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Any,
        partition: int | None,
    ) -> None:
        self.errors.add(type(error))
        self.asked.append((key, len(value or b""), timestamp, headers, partition))


def test_a_record_refused_by_the_broker_ends_the_flush_with_its_topic_named(
    bootstrap_servers: str, unique_name: str, in_c: dict[str, str]
) -> None:
    clients = Clients(bootstrap_servers, unique_name, **in_c)
    clients.create(max_message_bytes="1000")
    producer = clients.producer()
    producer.sender(clients.topic)(b"k", b"v" * 5_000, 1, None, 1)
    producer.sender(clients.topic)(b"k", b"small", 1, None, 0)

    with pytest.raises(RecordTooLargeError, match=f"{clients.topic}-1.*max.message.bytes"):
        producer.flush(30)


def test_a_record_that_no_queue_has_room_for_is_too_large(
    bootstrap_servers: str, unique_name: str, in_c: dict[str, str]
) -> None:
    clients = Clients(
        bootstrap_servers, unique_name, **{"producer.max.request.size": 104_000_000}, **in_c
    )
    clients.create()
    producer = clients.producer()
    producer.sender(clients.topic)(b"k", bytes(70_000_000), 1, None, 1)

    with pytest.raises(RecordTooLargeError, match=f"buffer.memory.*{clients.topic}-1"):
        producer.flush(30)


def test_what_the_client_does_not_take_is_asked_about_at_once(clients: Clients) -> None:
    refusals = Refusals()
    producer = clients.producer()
    headers = [("h", b"1")]

    producer.sender(clients.topic, refusals)(b"k", b"v" * 5_000_000, 9, headers, 1)
    producer.flush(30)

    assert refusals.asked == [(b"k", 5_000_000, 9, headers, 1)]
    assert refusals.errors == {RecordTooLargeError}
    with pytest.raises(RecordTooLargeError, match=clients.topic):
        producer.sender(clients.topic)(b"k", b"v" * 5_000_000, 9, None, 1)


def test_a_refused_output_is_asked_about_when_it_is_made_again(
    bootstrap_servers: str, unique_name: str, in_c: dict[str, str]
) -> None:
    clients = Clients(bootstrap_servers, unique_name, **in_c)
    clients.create(max_message_bytes="1000")
    refusals = Refusals()
    producer = clients.producer()
    send = producer.sender(clients.topic, refusals)
    rounds = 0

    while True:
        rounds += 1
        try:
            for number in range(20):
                size = 5_000 if number % 5 == 0 else 10
                send(b"%d" % number, b"v" * size, number, [("n", b"%d" % number)], 0)
            producer.flush(30)
            break
        except OutputRefusedError:
            assert not refusals.asked or rounds > 2
            refusals.asked.clear()
            producer.drain(30)
            producer.abort_transaction(30)

    assert refusals.asked == [
        (b"%d" % number, 5_000, number, [("n", b"%d" % number)], 0) for number in (0, 5, 10, 15)
    ]
    assert refusals.errors == {RecordTooLargeError}
    # Small ones shared a batch with large ones, and the broker refuses whole batches.
    delivered = delivered_keys(clients)
    assert delivered >= {b"%d" % number for number in range(20) if number % 5}
    assert not delivered & {b"0", b"5", b"10", b"15"}
    producer.settle_refused()
    send(b"0", b"v" * 5_000, 0, None, 0)
    with pytest.raises(OutputRefusedError):
        producer.flush(30)


def test_a_refused_output_that_is_not_made_again_is_asked_about_in_the_end(
    bootstrap_servers: str, unique_name: str, in_c: dict[str, str]
) -> None:
    clients = Clients(bootstrap_servers, unique_name, **in_c)
    clients.create(max_message_bytes="1000")
    refusals = Refusals()
    producer = clients.producer()
    send = producer.sender(clients.topic, refusals)
    send(b"once", b"v" * 5_000, 1, None, 1)
    with pytest.raises(OutputRefusedError, match=f"{clients.topic}-1"):
        producer.flush(30)
    producer.abort_transaction(30)

    send(b"other", b"v", 2, None, 1)
    producer.flush(30)
    producer.settle_refused()

    assert refusals.asked == [(b"once", 5_000, -1, None, 1)]
    producer.settle_refused()
    assert len(refusals.asked) == 1


def delivered_keys(clients: Clients) -> set[bytes]:
    consumer = clients.consumer()
    consumer.assign({clients.first: FROM_START})
    end = clients.admin.end_offsets([clients.first])[clients.first]
    found = read_until(consumer, lambda: (consumer.position(clients.first) or 0) >= end)
    consumer.close()
    return {record[2] for record in found[clients.first]}


def test_a_topic_that_does_not_exist_is_named(clients: Clients) -> None:
    producer = clients.producer()
    producer.sender(f"{clients.topic}-absent")(b"k", b"v", 1, None, None)

    with pytest.raises(MissingTopicError, match=f"{clients.topic}-absent"):
        producer.flush(60)
    with pytest.raises(MissingTopicError, match="absent-2"):
        producer.partitions(f"{clients.topic}-absent-2")


def test_a_fenced_producer_commits_nothing_and_says_so(exactly_once: Clients) -> None:
    old = exactly_once.transactional()
    send = old.sender(exactly_once.topic)
    send(b"k", b"from the fenced", 1, None, 0)
    old.flush(30)

    fence(
        producer_settings(
            exactly_once.config,
            exactly_once.connection,
            client_id="fence",
            transactional_id=old.transactional_id,
        ),
        exactly_once.connection,
        timeout_s=30,
    )

    with pytest.raises(FencedError, match="another process has taken over") as caught:
        old.commit_transaction(30)
    assert "fenced" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(FencedError):
        send(b"k", b"more", 1, None, 0)
    # Now and then the client forgets what it has died of before it returns; it can be asked.
    lost = SystemError("<method 'flush' of ...> returned NULL without setting an exception")
    assert isinstance(old._died(lost), FencedError)
    old.discard()
    consumer = exactly_once.consumer()
    consumer.assign({exactly_once.first: 0})
    assert read_until(consumer, lambda: consumer.end_of(exactly_once.first) == 2) == {}
    consumer.close()


def test_an_aborted_transaction_can_be_followed_by_another(exactly_once: Clients) -> None:
    producer = exactly_once.transactional()
    send = producer.sender(exactly_once.topic)
    assert not producer.is_transaction_open
    send(b"k", b"aborted", 1, None, 0)
    assert producer.is_transaction_open
    producer.abort_transaction(30)
    assert not producer.is_transaction_open

    def commit_one() -> bool:
        producer.begin()
        send(b"k", b"committed", 1, None, 0)
        try:
            producer.commit_transaction(30)
        except TransactionAbortedError:
            producer.abort_transaction(30)
            return False
        return True

    wait_for(commit_one, what="a commit")
    consumer = exactly_once.consumer()
    consumer.assign({exactly_once.first: 0})
    found = read_until(consumer, lambda: consumer.next_offset(exactly_once.first) is not None)
    assert [record[3] for record in found[exactly_once.first]] == [b"committed"]
    consumer.close()


def test_a_producer_that_is_thrown_away_is_gone_with_what_was_on_its_way(clients: Clients) -> None:
    """A delivery report that nobody serves would keep it for ever, and its connections."""
    left = []
    for number in range(12):
        producer = clients.producer()
        send = producer.sender(clients.topic)
        send(None, b"first", 1_000, None, 0)
        producer.flush(30)
        for _ in range(number + 1):
            send(None, b"on its way" * 100, 1_000, None, 0)
        producer.discard()
        left.append(producer.queued)
        freed = weakref.ref(producer)
        del producer, send
        gc.collect()
        assert freed() is None

    assert not any(left), left


# -- admin ---------------------------------------------------------------------------------------


def test_topics_are_created_described_purged_and_deleted(clients: Clients) -> None:
    name = f"{clients.topic}-made"
    topic = InternalTopic(name=name, partitions=3, configs={"cleanup.policy": "compact"})
    clients.admin.create_topics([topic, topic])
    clients.admin.create_topics([topic])
    wait_for(lambda: name in clients.admin.describe_topics([name]), what="the topic")
    found = clients.admin.describe_topics([name, "absent"])
    assert found.keys() == {name}
    assert found[name].partitions == 3
    first_id = found[name].topic_id

    assert clients.admin.delete_topics([name, "absent"]) == (name,)
    wait_for(lambda: name not in clients.admin.describe_topics([name]), what="the deletion")
    clients.admin.create_topics([topic])
    wait_for(lambda: name in clients.admin.describe_topics([name]), what="the topic")
    assert clients.admin.describe_topics([name])[name].topic_id not in {"", first_id}

    watch = TopicWatch(clients.admin, clients.connection)
    watch.watch({name: first_id})
    with pytest.raises(MissingTopicError, match=f"{name} was deleted and created again"):
        wait_for(watch.check, what="the watch to tell the topics apart")


def test_records_below_an_offset_can_be_deleted(clients: Clients) -> None:
    producer = clients.producer()
    for _ in range(10):
        producer.sender(clients.topic)(b"k", b"v", 1, None, 0)
    producer.flush(30)

    for future in clients.admin.delete_records({clients.first: 7}):
        future.result(30)

    assert clients.admin.earliest_offsets([clients.first, clients.second]) == {
        clients.first: 7,
        clients.second: 0,
    }


def test_a_group_is_described_altered_and_deleted(clients: Clients) -> None:
    assert clients.admin.group_members(clients.topic) == ()
    assert not clients.admin.delete_group(clients.topic)

    clients.admin.alter_offsets(clients.topic, {clients.first: 5})

    found = clients.admin.committed(clients.topic, [clients.first])
    assert found[clients.first].offset == 5
    assert clients.admin.group_members(clients.topic) == ()
    assert clients.admin.delete_group(clients.topic)
    assert clients.admin.committed(clients.topic, [clients.first]) == {}


# -- trouble -------------------------------------------------------------------------------------


def test_no_broker_is_an_error_within_the_time_given(unique_name: str) -> None:
    nobody = Clients("127.0.0.1:1", unique_name)

    with pytest.raises(KafkaUnavailableError, match=r"127\.0\.0\.1:1.*bootstrap\.servers"):
        nobody.admin.check_reachable(1)


def test_a_wrong_setting_is_named(bootstrap_servers: str, unique_name: str) -> None:
    clients = Clients(bootstrap_servers, unique_name, **{"consumer.fetch_wait_max_ms": "soon"})

    with pytest.raises(ConfigError, match=r"fetch\.wait\.max\.ms"):
        clients.consumer()


@pytest.mark.sampled
def test_a_wrong_password_or_protocol_is_an_authentication_error(
    secure: KafkaBroker, unique_name: str
) -> None:
    settings = secure.secure_client_config("app")
    settings.pop("bootstrap.servers")
    wrong = {**settings, "sasl.password": "wrong"}
    denied = Clients(secure.secure_servers, unique_name, **wrong)
    with pytest.raises(KafkaAuthError, match=r"sasl\.\*"):
        denied.admin.check_reachable(60)
    for protocol, servers, right in (
        ("SASL_SSL", secure.bootstrap_servers, "PLAINTEXT"),
        ("SSL", secure.bootstrap_servers, "PLAINTEXT"),
        ("SASL_PLAINTEXT", secure.bootstrap_servers, "PLAINTEXT"),
        ("PLAINTEXT", secure.secure_servers, "SASL_SSL"),
        ("SSL", secure.secure_servers, "SASL_SSL"),
        ("SASL_PLAINTEXT", secure.secure_servers, "SASL_SSL"),
    ):
        mistaken = Clients(servers, unique_name, **{**settings, "security.protocol": protocol})
        with pytest.raises(KafkaAuthError, match=rf"{protocol}; set it to {right} "):
            mistaken.admin.check_reachable(60)
    Clients(secure.secure_servers, unique_name, **settings).admin.check_reachable(30)


@pytest.mark.sampled
def test_a_transaction_is_committed_after_every_broker_was_away(
    tmp_path: Path, unique_name: str, in_c: dict[str, str]
) -> None:
    with KafkaBroker(tmp_path / "kafka", heap_mb=256) as broker:
        clients = Clients(
            broker.bootstrap_servers, unique_name, processing_guarantee="exactly_once_v2", **in_c
        )
        clients.create()
        consumer = clients.consumer()
        producer = clients.transactional()
        send = producer.sender(clients.topic)

        def commit(number: int) -> None:
            send(b"key", b"%d" % number, 1, None, 0)
            offset = PartitionOffsets(partition=clients.second, offset=number, metadata="")
            producer.add_offsets([offset], consumer.group_metadata, 60)
            producer.commit_transaction(60)

        commit(0)
        broker.kill()

        def is_known() -> bool:
            producer.check()
            return clients.connection.lost_for_s > 0

        wait_for(is_known, what="the outage")
        broker.restart()
        producer.begin()
        commit(1)
        assert clients.admin.committed(unique_name, [clients.second])[clients.second].offset == 1
