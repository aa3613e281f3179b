"""Kafka that asks what we may do: what is not allowed is named with the ACL to add.

The broker, its ACLs and the worker are real. What the page on security lists is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.support.handed import PASSWORD, USER, Handed, login
from tests.support.local_cluster import LocalCluster, create_topics, read_counts, streamapp
from tests.support.rights import GUARDED, Right, allow, listed
from tests.support.waiting import wait_for
from tests.support.worker import Counting

from headwater import errors
from headwater.ids import TaskId
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow]

T0, T1 = TaskId(0, 0), TaskId(0, 1)


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaBroker]:
    with KafkaBroker(sasl_users={USER: PASSWORD}, overrides=GUARDED, heap_mb=256) as broker:
        yield broker


def test_what_the_page_on_security_lists_is_enough(
    guarded: KafkaBroker, unique_name: str, tmp_path: Path
) -> None:
    servers, application_id = guarded.bootstrap_servers, f"app-{unique_name}"
    create_topics(servers, unique_name, partitions=2)
    allow(servers, USER, listed(application_id, [f"{unique_name}-in"], [f"{unique_name}-out"]))
    settings = guarded.secure_client_config(USER, "SCRAM-SHA-256")
    kafka = {"bootstrapServers": settings.pop("bootstrap.servers"), "config": settings}
    with LocalCluster(tmp_path, unique_name) as cluster:
        cluster.up(streamapp(None, application_id, replicas=1, kafka=kafka))
        cluster.wait_running(replicas=1)
        producer = Producer({"bootstrap.servers": servers})
        for key in ("a", "b", "a"):
            producer.produce(f"{unique_name}-in", key=key, value="x")
        assert producer.flush(30) == 0
        wait_for(
            lambda: read_counts(servers, unique_name) == {"a": 2, "b": 1},
            what="exact counts",
            timeout_s=120,
        )
        cluster.interrupt()
        assert cluster.wait(120) == 0


def needed(counting: Counting) -> dict[str, list[Right]]:
    """What a worker needs, by what for; the topic of its counts begins as its own topics do."""
    app = counting.application_id
    return {
        "source": [Right("Topic", counting.topic, "Read")],
        "output": [Right("Topic", f"{counting.topic}-counts", "Write")],
        "changelog": [
            Right("Topic", counting.changelog, operation)
            for operation in ("Read", "Write", "DescribeConfigs")
        ],
        "manifest": [Right("Topic", f"{app}-backfill-manifest", "Describe")],
        "group": [Right("Group", app, "Read")],
        "transactions": [Right("TransactionalId", f"{app}-", "Write", is_prefix=True)],
    }


@pytest.mark.parametrize(
    ("missing", "left", "said"),
    [
        ("source", "", "Read, or Write if it is an output, on topic {topic}"),
        pytest.param("output", "", "Write on topic {topic}-counts", marks=pytest.mark.soak),
        ("output", "Describe", "Write on topic {topic}-counts"),
        ("changelog", "Read", "DescribeConfigs on topic {topic}-counts-changelog"),
        ("group", "", "Read on the consumer group"),
        pytest.param("group", "Describe", "Read on the consumer group", marks=pytest.mark.soak),
        ("transactions", "", "Write on the transactional ids"),
    ],
)
def test_what_is_not_allowed_is_named_with_the_acl_to_add_and_then_it_goes_on(
    missing: str,
    left: str,
    said: str,
    guarded: KafkaBroker,
    unique_name: str,
    tmp_path: Path,
) -> None:
    counting = Counting(guarded.bootstrap_servers, unique_name)
    counting.send(200)
    rights = needed(counting)
    lacking = rights.pop(missing)
    given = [right for each in rights.values() for right in each]
    if left:
        some = lacking[0]
        given.append(Right(some.kind, some.name, left, some.is_prefix))
    allow(guarded.bootstrap_servers, USER, given)
    with Handed(counting, tmp_path, login(guarded, "SCRAM-SHA-256")) as worker:
        worker.start()
        refused = worker.incarnation()
        worker.grant(T0, T1)

        code = worker.exit_code(120)

        reported = worker.status.error
        assert reported is not None
        assert (reported.error, code) == ("KafkaAuthError", errors.KafkaAuthError.exit_code)
        message = reported.message
        assert f"allow {said.format(topic=counting.topic)}" in message
        assert "by an ACL of the broker (docs/security.md" in message
        assert "then change spec.restartNonce" in message
        assert counting.counted() == {}

        allow(guarded.bootstrap_servers, USER, lacking)
        worker.start()
        worker.incarnation(other_than=refused)
        worker.grant(T0, T1)
        worker.runs(T0, T1, timeout_s=120)
        wait_for(counting.all_counted, what="all counts", timeout_s=120)
        assert worker.stop() == 0
    worker.has_told_nothing()
