"""What a worker does on the control loop's behalf, on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.creating import create_known
from tests.support.waiting import wait_for

from headwater.config import StreamsConfig
from headwater.ids import TopicPartition
from headwater.model.duties import (
    CreateTopics,
    DescribeGroup,
    DescribeTopics,
    DutyFailed,
    DutyResult,
    Fence,
    GroupDescribed,
    IdsFenced,
    Reset,
    ResetDone,
    TopicsCreated,
    TopicsDescribed,
)
from headwater.model.topics import InternalTopic
from headwater.service.duties import Duties, DutyRunner

pytestmark = pytest.mark.kafka


def duties_of(bootstrap_servers: str, application_id: str, *, timeout_s: float = 30) -> Duties:
    config = StreamsConfig.parse(
        {"application.id": application_id, "bootstrap.servers": bootstrap_servers}
    )
    return Duties(config, client_id=application_id, timeout_s=timeout_s)


def create(bootstrap_servers: str, **partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    create_known(admin, *(NewTopic(name, count, 1) for name, count in partitions.items()))


def test_topics_that_do_not_exist_are_not_named(bootstrap_servers: str, unique_name: str) -> None:
    create(bootstrap_servers, **{f"{unique_name}-a": 3})
    duty = DescribeTopics(id="d", epoch=1, topics=(f"{unique_name}-a", f"{unique_name}-b"))

    result = duties_of(bootstrap_servers, unique_name).carry_out(duty)

    assert isinstance(result, TopicsDescribed)
    assert result.partitions == {f"{unique_name}-a": 3}
    assert result.topic_ids.keys() == {f"{unique_name}-a"}
    assert result.delete_retention_ms == {}


def test_records_are_counted_in_partitions_without_a_committed_offset(
    bootstrap_servers: str, unique_name: str
) -> None:
    create(bootstrap_servers, **{unique_name: 3})
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(12):
        producer.produce(unique_name, b"v", partition=number % 3)
    assert producer.flush(30) == 0
    duties = duties_of(bootstrap_servers, unique_name)
    duties.admin.alter_offsets(unique_name, {TopicPartition(unique_name, 0): 1})
    topics = (unique_name, f"{unique_name}-absent")
    duty = DescribeTopics(id="d", epoch=1, topics=topics, inputs=topics)

    result = duties.carry_out(duty)

    assert isinstance(result, TopicsDescribed)
    assert result.unread == {unique_name: 8}


def test_a_topic_that_is_made_anew_is_described_with_another_id(
    bootstrap_servers: str, unique_name: str
) -> None:
    topic = f"{unique_name}-counts-changelog"
    create(bootstrap_servers, **{topic: 1})
    duties = duties_of(bootstrap_servers, unique_name)
    duty = DescribeTopics(id="d", epoch=1, topics=(topic,))
    first = duties.carry_out(duty)
    duties.admin.delete_topics([topic])
    wait_for(lambda: not duties.partitions([topic]), what="deletion")
    create(bootstrap_servers, **{topic: 1})

    second = duties.carry_out(duty)

    assert isinstance(first, TopicsDescribed)
    assert isinstance(second, TopicsDescribed)
    assert first.topic_ids[topic] != second.topic_ids[topic]


def test_internal_topics_are_created_once_and_existing_ones_left_alone(
    bootstrap_servers: str, unique_name: str
) -> None:
    old, new = f"{unique_name}-old-changelog", f"{unique_name}-new-changelog"
    create(bootstrap_servers, **{old: 2})
    compact = {"cleanup.policy": "compact", "delete.retention.ms": "7200000"}
    duty = CreateTopics(
        id="d",
        epoch=1,
        topics=(
            InternalTopic(name=old, partitions=4, configs=compact),
            InternalTopic(name=new, partitions=4, configs=compact),
        ),
    )
    duties = duties_of(bootstrap_servers, unique_name)

    first, second = duties.carry_out(duty), duties.carry_out(duty)

    assert first == second
    assert isinstance(first, TopicsCreated)
    assert first.partitions == {old: 2, new: 4}
    assert first.topic_ids.keys() == {old, new}
    assert first.delete_retention_ms == {old: 86_400_000, new: 7_200_000}


def test_a_fenced_producer_can_commit_nothing_more(
    bootstrap_servers: str, unique_name: str
) -> None:
    create(bootstrap_servers, **{unique_name: 1})
    ids = (f"{unique_name}-w-0-0", f"{unique_name}-w-0-1")
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": ids[0]})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(unique_name, b"zombie")
    producer.flush(30)
    duty = Fence(id="d", epoch=1, worker="w-0", transactional_ids=ids)

    assert duties_of(bootstrap_servers, unique_name).carry_out(duty) == IdsFenced(id="d")

    with pytest.raises(KafkaException, match="FENCED"):
        producer.commit_transaction(30)


def test_a_foreign_member_of_the_group_is_named(bootstrap_servers: str, unique_name: str) -> None:
    create(bootstrap_servers, **{unique_name: 1})
    duties = duties_of(bootstrap_servers, unique_name)
    duty = DescribeGroup(id="d", epoch=1, group=unique_name)
    assert duties.carry_out(duty) == GroupDescribed(id="d")
    member = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique_name,
            "client.id": "a-java-application",
        }
    )
    member.subscribe([unique_name])

    def described() -> DutyResult | None:
        member.poll(0.1)
        result = duties.carry_out(duty)
        return result if isinstance(result, GroupDescribed) and result.members else None

    result = wait_for(described, what="the member")
    member.close()

    assert isinstance(result, GroupDescribed)
    assert [found.client_id for found in result.members] == ["a-java-application"]


def test_a_reset_deletes_internal_topics_and_offsets_and_may_be_repeated(
    bootstrap_servers: str, unique_name: str
) -> None:
    internal = f"{unique_name}-counts-changelog"
    create(bootstrap_servers, **{internal: 1})
    duty = Reset(
        id="d",
        epoch=1,
        application_id=unique_name,
        internal_topics=(internal, f"{unique_name}-never-made"),
        input_topics=("lines",),
    )
    duties = duties_of(bootstrap_servers, unique_name)

    first = duties.carry_out(duty)
    second = duties.carry_out(duty)

    assert first == ResetDone(id="d", deleted_topics=(internal,))
    assert second == ResetDone(id="d")


def test_an_unreachable_broker_is_a_result_not_a_hang(unique_name: str) -> None:
    done: list[DutyResult] = []
    runner = DutyRunner(duties_of("127.0.0.1:1", unique_name, timeout_s=1), done.append)

    runner.begin(DescribeTopics(id="d", epoch=1, topics=("lines",)))

    wait_for(lambda: done, what="a result")
    runner.close(5)
    assert isinstance(done[0], DutyFailed)
    assert done[0].error == "KafkaUnavailableError"
    assert "127.0.0.1:1" in done[0].message
