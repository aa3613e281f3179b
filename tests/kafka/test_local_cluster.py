"""The whole path on a real broker: StreamApp, supervisor, control loop, workers, Kafka."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.support import manifests
from tests.support.local_cluster import (
    APP,
    Load,
    LocalCluster,
    create_topics,
    is_gone,
    name_of,
    read_counts,
    streamapp,
)
from tests.support.membership import member
from tests.support.reading import held
from tests.support.thread_rig import Topics
from tests.support.waiting import wait_for

from headwater.errors import (
    BackfillUnfinishedError,
    ChangelogLostError,
    DeserializationError,
    ImportPathError,
    SpecError,
)
from headwater.local.broker import KafkaBroker
from headwater.model import losses
from headwater.model.backfill import BackfillState, manifest_topic
from headwater.model.cluster import generation_of
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 4


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


@pytest.fixture
def load(bootstrap_servers: str, topic_prefix: str) -> Iterator[Load]:
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    feeding = Load(bootstrap_servers, topic_prefix, records_per_s=1_000)
    yield feeding
    if feeding.is_alive():
        feeding.stop()


def wait_counted(bootstrap_servers: str, prefix: str, load: Load, cluster: LocalCluster) -> None:
    """Wait until every record is counted; fail if any is counted twice."""
    counts: dict[str, int] = {}

    def all_counted() -> bool:
        counts.update(read_counts(bootstrap_servers, prefix))
        twice = {key: count for key, count in counts.items() if count > load.sent[key]}
        assert twice == {}, cluster.output
        return counts == load.sent

    try:
        wait_for(all_counted, what="all counts", timeout_s=240, every_s=0.5)
    except AssertionError as error:
        wrong = {
            key: (load.sent[key], counts.get(key))
            for key in load.sent
            if counts.get(key) != load.sent[key]
        }
        raise AssertionError(
            f"{len(wrong)} wrong, such as {list(wrong.items())[:3]}\n{cluster.output}"
        ) from error


@pytest.mark.sampled
def test_scaling_to_three_and_back_under_load_loses_and_doubles_nothing(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load
) -> None:
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=1))
    load.start()
    cluster.wait_running(replicas=1)

    cluster.command("scale", APP, "--replicas", "3")
    cluster.wait_running(replicas=3)
    cluster.command("scale", APP, "--replicas", "1", "--threads", "3")
    cluster.wait_running(replicas=1)
    assert "pauses" in cluster.command("pause", APP)
    wait_for(lambda: cluster.status.paused, what="the pause")
    assert "goes on" in cluster.command("resume", APP)

    load.stop()
    wait_counted(bootstrap_servers, topic_prefix, load, cluster)
    told_to_who_joins(cluster, bootstrap_servers, topic_prefix)


@pytest.mark.sampled
def test_killed_workers_and_control_loops_are_replaced_and_every_count_is_right(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load
) -> None:
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=2))
    load.start()
    cluster.wait_running(replicas=2)
    before, generation = cluster.processes(), cluster.supervisor.generation

    os.kill(cluster.supervisor.loop_pid, signal.SIGKILL)
    wait_for(lambda: generation_of(cluster.status.assignment_epoch) > generation, what="a new loop")
    cluster.wait_running(replicas=2)
    adopted = cluster.processes()

    os.kill(before[f"{APP}-w-1"].pid, signal.SIGKILL)
    wait_for(lambda: cluster.processes()[f"{APP}-w-1"] != before[f"{APP}-w-1"], what="a new worker")
    cluster.wait_running(replicas=2)

    load.stop()
    wait_counted(bootstrap_servers, topic_prefix, load, cluster)
    assert adopted == before
    assert cluster.processes()[f"{APP}-w-0"] == before[f"{APP}-w-0"]


@pytest.mark.sampled
def test_one_bad_record_ends_every_worker_if_the_handler_says_so(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load
) -> None:
    handler = {"uncaught.exception.handler": "shutdown-application"}
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=2, config=handler))
    load.feed(f"key-{number}" for number in range(100))
    load.flush()
    cluster.wait_running(replicas=2)
    wait_counted(bootstrap_servers, topic_prefix, load, cluster)
    processes = cluster.descendants()

    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(f"{topic_prefix}-in", b"x", b"\xff", partition=0)
    assert producer.flush(30) == 0

    assert cluster.wait() == DeserializationError.exit_code, cluster.output
    assert [process for process in processes if not is_gone(process)] == []
    assert "partition 0" in cluster.output or f"{topic_prefix}-in-0 offset" in cluster.output


@pytest.mark.sampled
def test_ctrl_c_stops_in_order_and_the_next_start_goes_on_there(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load
) -> None:
    document = streamapp(bootstrap_servers, topic_prefix, replicas=2)
    cluster.up(document)
    load.start()
    cluster.wait_running(replicas=2)
    processes = cluster.descendants()

    cluster.interrupt()

    assert cluster.wait() == 0, cluster.output
    assert [process for process in processes if not is_gone(process)] == []
    assert {process.exit_code for process in cluster.processes().values()} == {0}
    cluster.up(document)
    cluster.wait_running(replicas=2)
    load.stop()
    wait_counted(bootstrap_servers, topic_prefix, load, cluster)


@pytest.mark.sampled
def test_a_changelog_that_is_gone_stops_the_application_and_the_stores_are_kept(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load
) -> None:
    document = streamapp(bootstrap_servers, topic_prefix, replicas=1)
    changelog = f"{topic_prefix}-counts-changelog"
    cluster.up(document)
    load.feed(f"key-{number}" for number in range(500))
    load.flush()
    cluster.wait_running(replicas=1)
    wait_counted(bootstrap_servers, topic_prefix, load, cluster)
    cluster.interrupt()
    assert cluster.wait() == 0, cluster.output
    root = cluster.cluster.app(APP).state(f"{APP}-w-0")
    before = StateDirectory(root, topic_prefix).stored()
    assert len(before) == PARTITIONS
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([changelog])[changelog].result(30)

    cluster.up(document)

    assert cluster.wait() == ChangelogLostError.exit_code, cluster.output
    assert losses.choices(changelog) in cluster.output
    assert changelog not in admin.list_topics(timeout=30).topics
    assert StateDirectory(root, topic_prefix).stored() == before
    cluster.up(
        streamapp(bootstrap_servers, topic_prefix, replicas=1, config={losses.OPTION: changelog})
    )
    cluster.wait_running(replicas=1)
    aside = [
        StateDirectory(root, topic_prefix).store(one.task, one.store).path / "db.set-aside-1"
        for one in before
    ]
    assert [path for path in aside if not path.is_dir()] == []


@pytest.mark.sampled
def test_nothing_survives_the_supervisor_and_others_can_read_nothing(
    cluster: LocalCluster, topic_prefix: str
) -> None:
    topics = [{"name": f"{topic_prefix}-{end}", "partitions": 2} for end in ("in", "out")]
    cluster.up(streamapp(None, topic_prefix, replicas=2, kafka={"topics": topics}))
    cluster.wait_running(replicas=2)
    processes = cluster.descendants()
    assert any("java" in name_of(process) for process in processes)

    os.kill(cluster.supervisor.pid, signal.SIGKILL)

    wait_for(lambda: all(map(is_gone, processes)), what="the end of all")
    assert cluster.wait() != 0
    # Nor can others read what is left: resources, logs, stores, Kafka's segments.
    root = cluster.cluster.root
    left = [root, *root.rglob("*")]
    assert {".lock", "worker.log", "00000000000000000000.log"} <= {path.name for path in left}
    assert [path for path in left if path.lstat().st_mode & 0o077] == []


@pytest.mark.sampled
def test_up_uses_the_broker_that_was_started_in_its_directory(
    cluster: LocalCluster, topic_prefix: str
) -> None:
    topics = [{"name": f"{topic_prefix}-{end}", "partitions": 2} for end in ("in", "out")]
    document = streamapp(None, topic_prefix, replicas=1, kafka={"topics": topics})
    with KafkaBroker(cluster.cluster.kafka_data) as broker:
        cluster.up(document)
        cluster.wait_running(replicas=1)

        assert cluster.supervisor.kafka.bootstrap_servers == broker.bootstrap_servers
        cluster.interrupt()
        assert cluster.wait() == 0, cluster.output
        assert broker.is_running()


@pytest.mark.sampled
def test_a_foreign_member_of_the_group_is_waited_for_and_named(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load
) -> None:
    name = "a-java-application"
    with member(bootstrap_servers, topic_prefix, f"{topic_prefix}-in", name) as stranger:
        cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=1))
        load.feed(f"key-{number}" for number in range(100))
        load.flush()

        def is_named() -> bool:
            stranger.poll(0.1)
            failure = cluster.status.failure
            return failure is not None and name in failure.message

        wait_for(is_named, what="the stranger's name")
        assert not any(cluster.tasks().values())
        wait_for(lambda: "GroupInUseError" in cluster.output, what="the reason on the screen")
    cluster.wait_running(replicas=1)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        pytest.param({"replcas": 2}, SpecError.exit_code, "replicas", id="a wrong field"),
        pytest.param(
            {"topology": {"module": "tests.support.no_such_module:build"}},
            ImportPathError.exit_code,
            "no_such_module",
            id="a wrong import path",
        ),
    ],
)
def test_a_users_mistake_ends_up_with_a_message_and_no_traceback(
    cluster: LocalCluster,
    bootstrap_servers: str,
    topic_prefix: str,
    change: dict[str, object],
    code: int,
    said: str,
) -> None:
    cluster.up(streamapp(bootstrap_servers, topic_prefix, **change))

    assert cluster.wait() == code, cluster.output
    assert said in cluster.output
    assert "Traceback" not in cluster.output


@pytest.mark.parametrize(
    "state", [pytest.param(BackfillState.PREPARED, marks=pytest.mark.soak), BackfillState.WRITTEN]
)
@pytest.mark.sampled
def test_an_unfinished_backfill_is_not_run_on(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, state: BackfillState
) -> None:
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    topics = Topics(bootstrap_servers)
    topics.create(manifest_topic(topic_prefix))
    manifests.leave(topics, topic_prefix, manifests.manifest(state).encode())
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=1))

    assert cluster.wait() == BackfillUnfinishedError.exit_code, cluster.output
    said = (state.value, "`headwater backfill` again", "--abort")
    assert [word for word in said if word not in cluster.output] == []
    assert not any(cluster.tasks().values())

    done = manifests.manifest(BackfillState.ABORTED)
    manifests.leave(topics, topic_prefix, done.encode())
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=1))
    cluster.wait_running(replicas=1)


def told_to_who_joins(cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str) -> None:
    """Bring a second application with a mistake; the first one goes on."""
    other = streamapp(
        bootstrap_servers,
        topic_prefix,
        applicationId=f"{topic_prefix}-other",
        topology={"module": "tests.support.no_such_module:build"},
    )
    other["metadata"] = {"name": "other"}

    joined = cluster.join(other)

    assert joined.returncode == ImportPathError.exit_code, (joined.stdout, joined.stderr)
    assert "no_such_module" in joined.stderr
    assert "Traceback" not in joined.stderr
    assert cluster.status.state == "RUNNING"


@pytest.mark.sampled
def test_a_reset_of_a_running_application_leaves_nothing_on_kafka_however_often(
    cluster: LocalCluster, bootstrap_servers: str, topic_prefix: str, load: Load
) -> None:
    """It counts from the beginning under the next ``up`` as under one that is detached."""
    text = "from tests.support.counting import build\n"
    document = streamapp(bootstrap_servers, topic_prefix, replicas=1, topology={"inline": text})
    cluster.up(document)
    cluster.wait_running(replicas=1)
    load.feed(f"key-{number}" for number in range(500))
    load.flush()
    wait_counted(bootstrap_servers, topic_prefix, load, cluster)

    for counted in (1_000, 1_500):
        assert "is reset" in cluster.command("reset", APP, "--yes")
        assert left_of(bootstrap_servers, topic_prefix) == []
        if counted == 1_000:
            wait_for(lambda: "the reset is done" in cluster.output, what="the word of the reset")
            cluster.interrupt()
            assert cluster.wait() == 0
            cluster.up(document)
        else:
            cluster.detached()
        wait_for(
            lambda wanted=counted: out_of(bootstrap_servers, topic_prefix) == wanted,
            what="every key to be counted once more",
        )
        wait_counted(bootstrap_servers, topic_prefix, load, cluster)

    assert "is reset" in cluster.command("reset", APP, "--yes")
    assert left_of(bootstrap_servers, topic_prefix) == []
    assert not cluster.cluster.app(APP).state(f"{APP}-w-0").exists()


def out_of(bootstrap_servers: str, prefix: str) -> int:
    return sum(1 for _ in held(bootstrap_servers, f"{prefix}-out"))


def left_of(bootstrap_servers: str, prefix: str) -> list[str]:
    """What Kafka has of an application beside its input and output."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    groups = admin.list_consumer_groups().result().valid
    found = [*admin.list_topics(timeout=30).topics, *(group.group_id for group in groups)]
    kept = {f"{prefix}-in", f"{prefix}-out"}
    return sorted(name for name in found if name.startswith(prefix) and name not in kept)
