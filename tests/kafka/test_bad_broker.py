"""Bad surroundings: topics, brokers and groups that are not as an application needs them.

``tests/support/bad_input.py`` lists the tests of every kind of bad input.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.chaos.proof import counted_once_each
from tests.java.tool import JavaTool
from tests.support.local_cluster import LocalCluster, create_topics, read_counts, streamapp
from tests.support.mortal import mortal_broker
from tests.support.waiting import wait_for
from tests.support.worker import Counting, WorkerProcess

from headwater import errors
from headwater.ids import TaskId

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from headwater.local.broker import KafkaBroker

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow]

T0, T1 = TaskId(0, 0), TaskId(0, 1)
PARTITIONS = 2
NOBODY = "127.0.0.1:1"
IMPATIENT = {"request.timeout.ms": 8_000, "task.timeout.ms": 14_000}


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that may be killed."""
    with mortal_broker(tmp_path / "kafka") as running:
        yield running


def ends_with(
    cluster: LocalCluster, error: type[errors.HeadwaterError], *words: str, timeout_s: float = 240
) -> None:
    """Wait until ``headwater up`` ends; check its exit code and what a person reads."""
    code = cluster.wait(timeout_s)
    said = cluster.output.rstrip().splitlines()[-1]
    assert code == error.exit_code, cluster.output
    assert said.startswith("error: ")
    assert [word for word in words if word not in said] == []
    assert "Traceback" not in cluster.output


# -- topics --------------------------------------------------------------------------------------


def no_topics(servers: str, prefix: str) -> None:
    """Somebody forgot."""


def changelog_of_another_width(servers: str, prefix: str) -> None:
    """A source topic has got more partitions than it had when its state was built."""
    create_topics(servers, prefix, partitions=PARTITIONS)
    old = NewTopic(f"{prefix}-counts-changelog", PARTITIONS + 1)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([old])[old.topic].result(30)


TOPICS = [
    pytest.param(no_topics, errors.MissingTopicError, ["-in' does not exist", "create it"],
                 id="unknown source topic"),
    pytest.param(changelog_of_another_width, errors.PartitionMismatchError,
                 ["-counts-changelog has 3 partitions", "needs 2", "headwater reset"],
                 id="changelog of another width"),
]  # fmt: skip


@pytest.mark.parametrize(("prepare", "error", "words"), TOPICS)
def test_topics_that_do_not_fit_end_headwater_up_before_anything_is_written(
    cluster: LocalCluster,
    bootstrap_servers: str,
    topic_prefix: str,
    prepare: Callable[[str, str], None],
    error: type[errors.HeadwaterError],
    words: list[str],
) -> None:
    prepare(bootstrap_servers, topic_prefix)

    cluster.up(streamapp(bootstrap_servers, topic_prefix))

    ends_with(cluster, error, *words)
    assert not any(cluster.tasks().values())


# -- brokers -------------------------------------------------------------------------------------


def test_a_broker_that_never_answers_ends_headwater_up(
    cluster: LocalCluster, topic_prefix: str
) -> None:
    cluster.up(streamapp(NOBODY, topic_prefix, config=IMPATIENT))

    ends_with(cluster, errors.KafkaUnavailableError, NOBODY, "check bootstrap.servers")


@pytest.mark.soak(
    stays="tests/kafka/test_embedding_bad_input.py::test_a_broker_killed_in_mid_run_is_given_up_after_the_time_out_and_the_rest_is_made_up_later"
)
def test_a_broker_killed_in_mid_run_is_given_up_after_the_time_out_and_the_rest_is_made_up_later(
    mortal: KafkaBroker, unique_name: str, tmp_path: Path
) -> None:
    counting = Counting(mortal.bootstrap_servers, unique_name)
    with WorkerProcess(counting, tmp_path, threads=1, config=IMPATIENT) as worker:
        worker.started_with(T0, T1)
        counting.send(500)
        mortal.kill()

        code = worker.exit_code()
        reported, said = worker.status.error, worker.log.read_text()
        assert reported is not None
        assert (reported.error, code) == ("KafkaUnavailableError", 3), said
        assert mortal.bootstrap_servers in reported.message
        assert f"error: {reported.message}" in said
        assert "Traceback" not in said

        mortal.restart()
        worker.started_with(T0, T1)
        counting.send(500)
        wait_for(counting.all_counted, what="all counts")


def secure_settings(broker: KafkaBroker, **changes: str) -> dict[str, Any]:
    settings: dict[str, Any] = {**broker.secure_client_config("app"), **changes}
    del settings["bootstrap.servers"]
    return {name: value for name, value in settings.items() if value}


REFUSALS = [
    pytest.param({"sasl.password": "wrong"}, ["sasl.*"], id="wrong password"),
    # Of a worker that does not trust the certificate, test_secured_kafka.py has another one.
    pytest.param({"ssl.ca.location": ""}, ["ssl.*"], id="not trusted", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("changes", "words"), REFUSALS)
def test_a_worker_that_the_broker_refuses_ends_at_once(
    secure: KafkaBroker,
    unique_name: str,
    tmp_path: Path,
    changes: dict[str, str],
    words: list[str],
) -> None:
    counting = Counting(secure.bootstrap_servers, unique_name)
    counting.bootstrap_servers = secure.secure_servers
    with WorkerProcess(
        counting, tmp_path, threads=1, config=secure_settings(secure, **changes)
    ) as worker:
        worker.start()
        worker.incarnation()
        worker.grant(T0, T1)

        code = worker.exit_code(120)  # long before task.timeout.ms

        reported, said = worker.status.error, worker.log.read_text()
        assert reported is not None
        assert (reported.error, code) == ("KafkaAuthError", 3), said
        assert [word for word in words if word not in reported.message] == []
        assert "Traceback" not in said

        worker.streamapp["spec"]["config"].update(secure_settings(secure))
        worker.started_with(T0, T1)


def test_headwater_up_ends_when_the_broker_refuses(
    cluster: LocalCluster, secure: KafkaBroker, topic_prefix: str
) -> None:
    config = {**secure_settings(secure, **{"sasl.password": "wrong"}), **IMPATIENT}

    cluster.up(streamapp(secure.secure_servers, topic_prefix, config=config))

    ends_with(cluster, errors.KafkaAuthError, "sasl.*", secure.secure_servers)


# -- foreign members -----------------------------------------------------------------------------


class Words:
    """The word count of ``tests.support.word_count``, in Java and here."""

    def __init__(self, servers: str, prefix: str, tmp_path: Path) -> None:
        create_topics(servers, prefix, partitions=PARTITIONS)
        self.servers = servers
        self.prefix = prefix
        self._state_dir = tmp_path / "java"
        self._producer = Producer({"bootstrap.servers": servers})
        self.sent: dict[str, int] = {}

    def feed(self, lines: int) -> None:
        for number in range(lines):
            self._producer.produce(f"{self.prefix}-in", value=f"word{number % 7}")
            self.sent[f"word{number % 7}"] = self.sent.get(f"word{number % 7}", 0) + 1
        assert self._producer.flush(30) == 0

    def wait_counted(self) -> None:
        wait_for(
            lambda: read_counts(self.servers, self.prefix) == self.sent,
            what="all words",
            timeout_s=240,
            every_s=0.2,
        )

    def streamapp(self) -> dict[str, object]:
        return streamapp(
            self.servers,
            self.prefix,
            topology={"module": "tests.support.word_count:build"},
            config={"statestore.cache.max.bytes": 0},
        )

    def java(self, *, session_timeout_ms: int = 6_000) -> subprocess.Popen[str]:
        return JavaTool(Path(__file__).parents[1] / "java" / "apps").start(
            "WordCountApp",
            f"application.id={self.prefix}",
            f"bootstrap.servers={self.servers}",
            f"input={self.prefix}-in",
            f"output={self.prefix}-out",
            f"state.dir={self._state_dir}",
            "commit.interval.ms=100",
            "processing.guarantee=exactly_once_v2",
            "statestore.cache.max.bytes=0",
            f"session.timeout.ms={session_timeout_ms}",
        )


@pytest.fixture
def shared(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Words:
    return Words(bootstrap_servers, topic_prefix, tmp_path)


@pytest.mark.java
def test_a_java_application_started_beside_ours_stops_ours(
    cluster: LocalCluster, shared: Words
) -> None:
    cluster.up(shared.streamapp())
    shared.feed(100)
    cluster.wait_running(replicas=1)
    java = shared.java()
    try:
        ends_with(
            cluster, errors.GroupInUseError, shared.prefix, "StreamThread-1-consumer", "we stop"
        )
    finally:
        java.kill()
        java.communicate(timeout=30)


@pytest.mark.java
def test_ours_started_a_second_after_the_end_of_javas_says_whom_it_waits_for_and_then_runs(
    cluster: LocalCluster, shared: Words
) -> None:
    # Time for ours to start in; and over at the third look, with half a minute of patience left.
    java = shared.java(session_timeout_ms=60_000)
    shared.feed(1_000)
    shared.wait_counted()
    said, _ = java.communicate("stop\n", timeout=240)
    assert "CLOSED" in said.splitlines()[-2:]

    cluster.up(shared.streamapp())

    def is_named() -> bool:
        return "GroupInUseError" in cluster.output and "StreamThread-1-consumer" in cluster.output

    wait_for(is_named, what="the name of whom we wait for", timeout_s=180)
    assert not any(cluster.tasks().values())
    cluster.wait_running(replicas=1, timeout_s=300)
    shared.feed(1_000)
    shared.wait_counted()
    cluster.interrupt()
    assert cluster.wait() == 0, cluster.output
    counted_once_each(shared.servers, f"{shared.prefix}-out", shared.sent)
