"""A worker that cannot begin says why: in its status, on standard error, by its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import wait_for
from tests.support.worker import APP, Counting, WorkerProcess

from headwater import errors
from headwater.ids import TaskId
from headwater.local.broker import KafkaBroker
from headwater.model.duties import DescribeTopics, DutyFailed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

T0 = TaskId(0, 0)


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name)


def has_failed(worker: WorkerProcess, error: type[errors.HeadwaterError], words: str) -> None:
    code = worker.exit_code()
    reported = worker.status.error
    assert reported is not None
    assert (reported.error, code) == (error.__name__, error.exit_code)
    assert words in reported.message
    output = worker.log.read_text()
    assert f"error: {reported.message}" in output
    assert "Traceback" not in output


MISTAKES = [
    pytest.param(
        {"topology": {"module": "tests.support.nowhere:build"}}, errors.ImportPathError,
        "tests.support.nowhere", id="no such module",
    ),
    pytest.param(
        {"config": {"commit.intervall.ms": 1}}, errors.ConfigError,
        "commit.interval.ms", id="a misspelt option",
    ),
    pytest.param(
        {"config": {"state.dir": "/proc/nowhere"}}, errors.StateError,
        "/proc/nowhere", id="a state directory that cannot be made",
    ),
]  # fmt: skip
# The others of each kind, of which tests/unit/test_bad_input.py has the words.
REPEATED = [
    pytest.param(
        {"topology": {"module": "tests.support.topologies:nothing"}}, errors.ImportPathError,
        "has no 'nothing'", id="no such function",
    ),
    pytest.param(
        {"topology": {"module": "tests.support.topologies:doubled"}}, errors.TopologyError,
        "already", id="a topology that breaks a rule",
    ),
    pytest.param(
        {"kafka": {}}, errors.ConfigError,
        "bootstrap.servers is missing", id="no broker address",
    ),
    pytest.param(
        {"replicaz": 2}, errors.SpecError,
        "spec.replicaz: unknown field", id="an unknown field",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        *MISTAKES,
        *(pytest.param(*each.values, id=each.id, marks=pytest.mark.soak) for each in REPEATED),
    ],
)
def test_a_users_mistake_is_reported_without_a_traceback(
    counting: Counting,
    tmp_path: Path,
    spec: dict[str, Any],
    error: type[errors.HeadwaterError],
    words: str,
) -> None:
    with WorkerProcess(counting, tmp_path) as worker:
        worker.streamapp["spec"] |= spec
        if "state.dir" in spec.get("config", {}):
            worker.state_dir = spec["config"]["state.dir"]
            worker.start()
            wait_for(lambda: worker.status.incarnation or worker.status.error, what="a report")
            worker.grant(T0)
        else:
            worker.start()

        has_failed(worker, error, words)


def test_a_second_process_of_the_same_worker_does_not_start(
    counting: Counting, tmp_path: Path
) -> None:
    with WorkerProcess(counting, tmp_path) as first, WorkerProcess(counting, tmp_path) as second:
        first.start()
        first.incarnation()

        second.start()

        assert second.exit_code() == errors.InstanceRunningError.exit_code
        assert f"already running as process {first.pid}" in second.log.read_text()
        assert first.status.error is None


def test_without_arguments_a_worker_says_what_it_needs() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", "worker"],
        env={name: value for name, value in os.environ.items() if "HEADWATER" not in name},
        capture_output=True,
        text=True,
        check=False,
    )

    assert process.returncode == errors.ConfigError.exit_code
    assert "--app is missing" in process.stderr
    assert "HEADWATER_APP" in process.stderr


def test_everything_may_be_told_by_the_environment(counting: Counting, tmp_path: Path) -> None:
    with WorkerProcess(counting, tmp_path) as worker:
        environment = {
            **os.environ,
            "HEADWATER_APP": APP,
            "HEADWATER_NAME": worker.name,
            "HEADWATER_CLUSTER_DIR": str(worker.cluster_dir),
            "HEADWATER_STATE_DIR": str(worker.state_dir),
            "HEADWATER_TOPOLOGY": "tests.support.topologies:counts",
            "HEADWATER_TEST_TOPIC": counting.topic,
            "HEADWATER_BOOTSTRAP": counting.bootstrap_servers,
            "HEADWATER_THREADS": "1",
        }
        command = [sys.executable, "-m", "headwater.cli.main", "worker"]
        worker.process = subprocess.Popen(command, env=environment)

        worker.incarnation()

        assert worker.status.endpoint
        assert worker.stop() == 0


@pytest.mark.soak(
    stays="tests/kafka/test_bad_broker.py::test_topics_that_do_not_fit_end_headwater_up_before_anything_is_written"
)
def test_an_unknown_source_topic_ends_the_worker(counting: Counting, tmp_path: Path) -> None:
    with WorkerProcess(counting, tmp_path, HEADWATER_TEST_TOPIC="never-created") as worker:
        worker.start()
        worker.incarnation()
        worker.grant(T0)

        has_failed(worker, errors.MissingTopicError, "never-created")


def test_an_unreachable_broker_fails_the_duty_and_names_the_address(
    counting: Counting, tmp_path: Path
) -> None:
    with WorkerProcess(counting, tmp_path, config={"request.timeout.ms": 2_000}) as worker:
        worker.streamapp["spec"]["kafka"] = {"bootstrapServers": "127.0.0.1:1"}
        worker.start()
        worker.incarnation()
        worker.write(duties=(DescribeTopics(id="d", epoch=1, topics=("lines",)),))

        wait_for(lambda: worker.status.duty_results, what="the result")

        result = worker.status.duty_results[0]
        assert isinstance(result, DutyFailed)
        assert result.error == "KafkaUnavailableError"
        assert "127.0.0.1:1" in result.message
        assert worker.process is not None
        assert worker.process.poll() is None


@pytest.mark.soak(
    stays="tests/kafka/test_bad_broker.py::test_a_worker_that_the_broker_refuses_ends_at_once"
)
def test_a_refused_login_ends_the_worker_with_an_error_of_its_own(
    unique_name: str, tmp_path: Path
) -> None:
    with KafkaBroker(sasl_users={"alice": "right"}) as broker:
        counting = Counting(broker.bootstrap_servers, unique_name)
        with WorkerProcess(counting, tmp_path) as worker:
            settings = {**broker.secure_client_config("alice"), "sasl.password": "wrong"}
            worker.streamapp["spec"]["kafka"] = {
                "bootstrapServers": settings.pop("bootstrap.servers"),
                "config": settings,
            }
            worker.start()
            worker.incarnation()
            worker.grant(T0)

            has_failed(worker, errors.KafkaAuthError, "sasl")
