"""Global tables on a real broker: full before the first record, and kept up to date, everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import NewPartitions
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import (
    FailureReason,
    KafkaStreams,
    KeyQuery,
    QueryableStoreTypes,
    Serdes,
    StateQueryRequest,
    StoreQueryParameters,
    StreamsBuilder,
)
from headwater.ids import TaskId
from headwater.model.lifecycle import ClientState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.kafka


@pytest.fixture
def topics(bootstrap_servers: str, unique_name: str) -> Topics:
    found = Topics(bootstrap_servers)
    found.create(f"{unique_name}-in", 2)
    found.create(f"{unique_name}-places", 3, cleanup_policy="compact")
    found.create(f"{unique_name}-out", 2)
    return found


def joining(app: str) -> Callable[[StreamsBuilder], None]:
    """People live at places: ``(person, place)`` becomes ``(person, name of the place)``."""

    def build(builder: StreamsBuilder) -> None:
        strings: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        places = builder.global_table(f"{app}-places", store="places", **strings)
        (
            builder.stream(f"{app}-in", **strings)
            .left_join(places, lambda _person, place: place, lambda _place, name: f"{name}")
            .to(f"{app}-out", **strings)
        )

    return build


def _found(topics: Topics, app: str) -> dict[str, str]:
    return {key: value.decode() for key, value in topics.read(f"{app}-out")}


def test_every_thread_finds_every_row_from_the_first_record_on(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    places = [(f"place-{number}", f"name {number}") for number in range(3_000)]
    topics.send(f"{unique_name}-places", places)
    people = [(f"person-{number}", place) for number, (place, _) in enumerate(places)]
    topics.send(f"{unique_name}-in", people)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": topics.bootstrap_servers,
        "num.stream.threads": 2,
        "state.dir": str(tmp_path / "state"),
    }

    with KafkaStreams(joining(unique_name), config) as streams:
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING")
        wait_for(lambda: len(_found(topics, unique_name)) == len(people), what="all people")
        assert set(_found(topics, unique_name).values()) == {name for _, name in places}

        # Kept up to date: by both threads, whose tasks have a partition each.
        topics.send(f"{unique_name}-places", [("place-0", "renamed"), ("place-new", "new")])

        def is_heard_of() -> bool:
            asking = [("early", "place-0"), ("late", "place-new")]
            for partition in (0, 1):
                asked = [(f"{person}-{partition}", place) for person, place in asking]
                topics.send(f"{unique_name}-in", asked, partition)
            seen = _found(topics, unique_name)
            wanted = {"early": "renamed", "late": "new"}
            return all(seen.get(f"{p}-{n}") == name for p, name in wanted.items() for n in (0, 1))

        wait_for(is_heard_of, what="the new rows")
        kind = QueryableStoreTypes.key_value_store()
        view = streams.store(StoreQueryParameters.from_name_and_type("places", kind))
        wait_for(lambda: view.get("place-new") == "new", what="an answer", timeout_s=20)
        assert view.get("place-0") == "renamed"
        assert len(list(view.all())) == 3_001
        refused = streams.query(StateQueryRequest.in_store("places").with_query(KeyQuery("a")))
        assert refused.global_result is not None
        assert refused.global_result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE

    group = ConsumerGroupTopicPartitions(unique_name)
    listed = topics.admin.list_consumer_group_offsets([group])[unique_name].result(30)
    assert {found.topic for found in listed.topic_partitions} == {f"{unique_name}-in"}
    names = {name for name in topics.admin.list_topics(timeout=30).topics if unique_name in name}
    assert not any("changelog" in name or "repartition" in name for name in names)


def test_only_what_is_committed_gets_into_the_table(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    """Behind an aborted and an open transaction; markers are no records."""
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap_servers, "transactional.id": f"{unique_name}-p"}
    )
    producer.init_transactions(30)
    for name, commits in (("true", True), ("false", False)):
        producer.begin_transaction()
        producer.produce(f"{unique_name}-places", name, "a", 0)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(f"{unique_name}-places", "open", "a", 0)
    producer.flush(30)
    topics.send(f"{unique_name}-in", [("k", "a")], 0)

    with ThreadRig(topics, unique_name, joining(unique_name), tmp_path) as rig:
        rig.start_global_thread()
        rig.start(TaskId(1, 0))
        wait_for(lambda: _found(topics, unique_name) == {"k": "true"}, what="the record")

        producer.commit_transaction(30)

        def is_heard_of() -> bool:
            topics.send(f"{unique_name}-in", [("k", "a")], 0)
            return _found(topics, unique_name) == {"k": "open"}

        wait_for(is_heard_of, what="what was committed late")


def test_partitions_that_are_added_are_read_and_a_missing_topic_is_named(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    name = f"{unique_name}-places"
    with ThreadRig(topics, unique_name, joining(unique_name), tmp_path) as rig:
        rig.start_global_thread()
        rig.start(TaskId(1, 0))
        topics.admin.create_partitions([NewPartitions(name, 4)])[name].result(30)
        wait_for(
            lambda: len(topics.admin.list_topics(name).topics[name].partitions) == 4,
            what="4 partitions",
        )
        fresh = Topics(topics.bootstrap_servers)
        fresh.send(name, [("a", "of the fourth")], 3)

        def is_heard_of() -> bool:
            topics.send(f"{unique_name}-in", [("k", "a")], 0)
            return _found(topics, unique_name) == {"k": "of the fourth"}

        wait_for(is_heard_of, what="the record of the new partition")

    topics.delete(name)
    with ThreadRig(topics, unique_name, joining(unique_name), tmp_path) as rig:
        failed = rig.global_failure()
        assert failed.error == "MissingTopicError"
        assert name in failed.message
