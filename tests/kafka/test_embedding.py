"""``KafkaStreams`` in a plain program: starts, closes, stays alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for
from tests.support.worker import Counting

from headwater import KafkaStreams
from headwater.config import StreamsConfig
from headwater.errors import (
    ConfigError,
    DeserializationError,
    GroupInUseError,
    ImportPathError,
    InstanceRunningError,
    KafkaUnavailableError,
    MissingTopicError,
    PartitionMismatchError,
)
from headwater.model.lifecycle import ClientState
from headwater.service.duties import Duties
from headwater.service.owner import OwnedCarrier, OwnerRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

PROGRAM = """
    import sys
    from headwater import KafkaStreams, Serdes

    topic, servers, state_dir = sys.argv[1:4]

    def build(builder):
        (
            builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)
            .group_by_key(key_serde=Serdes.string, value_serde=Serdes.string)
            .count(store="counts", key_serde=Serdes.string)
            .to_stream()
            .to(topic + "-counts", key_serde=Serdes.string, value_serde=Serdes.long)
        )

    config = {
        "application.id": topic,
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": state_dir,
    }
"""


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name, changelog=False)


@pytest.fixture
def config(counting: Counting, tmp_path: Path) -> dict[str, Any]:
    return {
        "application.id": counting.application_id,
        "bootstrap.servers": counting.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 2,
        "state.dir": str(tmp_path / "state"),
    }


def running(streams: KafkaStreams) -> None:
    wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING")


@contextlib.contextmanager
def program(
    path: Path, counting: Counting, text: str, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Run ``PROGRAM`` followed by ``text`` as a script."""
    script = path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(text))
    with subprocess.Popen(
        [sys.executable, str(script), counting.topic, counting.bootstrap_servers, str(path / "s")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()  # or the end of the block waits for it
            raise


def test_an_application_counts_goes_through_its_states_and_leaves_nothing_behind(
    counting: Counting, config: dict[str, Any]
) -> None:
    counting.send(1_000)
    states: list[str] = []
    streams = KafkaStreams(counts_of(counting.topic), config)
    streams.set_state_listener(lambda new, _old: states.append(new))

    with streams:
        running(streams)
        wait_for(counting.all_counted, what="all counts")

    assert streams.state is ClientState.NOT_RUNNING
    assert states[0] == "REBALANCING"
    assert states[-3:] == ["RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING"]
    assert counting.committed() == {0: 500, 1: 500}

    counting.send(100)
    with KafkaStreams(counts_of(counting.topic), config):  # goes on where the first has ended
        wait_for(counting.all_counted, what="all counts")


def test_an_import_path_will_do(
    counting: Counting, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_TEST_TOPIC", counting.topic)
    counting.send(10)

    with KafkaStreams("tests.support.topologies:counts", config, http_port=0) as streams:
        wait_for(counting.all_counted, what="all counts")
        assert streams.endpoint.startswith("127.0.0.1:")


def test_a_second_instance_refuses_to_start(counting: Counting, config: dict[str, Any]) -> None:
    with KafkaStreams(counts_of(counting.topic), config) as first:
        running(first)
        second = KafkaStreams(
            counts_of(counting.topic), {**config, "state.dir": config["state.dir"] + "-2"}
        )

        with pytest.raises(InstanceRunningError, match=f"process {os.getpid()}.*takeover=True"):
            second.start()

        assert second.state is ClientState.ERROR
        counting.send(100)
        wait_for(counting.all_counted, what="all counts")


@pytest.mark.parametrize(
    "guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.soak)]
)
def test_a_takeover_replaces_the_instance_that_runs(
    counting: Counting, config: dict[str, Any], guarantee: str
) -> None:
    config |= {"processing.guarantee": guarantee, "commit.interval.ms": 100}
    first = KafkaStreams(counts_of(counting.topic), config)
    with contextlib.closing(first):  # its own error is expected here
        first.start()
        running(first)
        counting.send(500)
        wait_for(counting.all_counted, what="all counts")

        second = KafkaStreams(
            counts_of(counting.topic),
            {**config, "state.dir": config["state.dir"] + "-2"},
            takeover=True,
        )
        with second:
            counting.send(500)

            wait_for(counting.all_counted, what="all counts")
            wait_for(lambda: first.state is ClientState.ERROR, what="the first to give up")
            assert isinstance(first.error, InstanceRunningError)
            running(second)
    assert second.state is ClientState.NOT_RUNNING


def test_an_instance_that_was_fenced_but_owns_the_application_still_goes_on(
    counting: Counting, config: dict[str, Any]
) -> None:
    with KafkaStreams(counts_of(counting.topic), config) as streams:
        running(streams)
        parsed = StreamsConfig.parse(config)
        ids = [f"{counting.application_id}-embedded-{slot}" for slot in range(2)]
        Duties(parsed, client_id="a-test").fence(ids)

        counting.send(500)

        # A commit without an answer alone is given 15 s before the process is replaced.
        wait_for(counting.all_counted, what="all counts", timeout_s=120)
        assert streams.error is None


def test_a_grant_that_the_worker_has_yet_to_read_is_not_lost_when_it_is_asked_for_again(
    config: dict[str, Any],
) -> None:
    """A worker that had not read it waited for ever: the watcher had read it in its place."""
    with contextlib.closing(
        OwnerRecord(StreamsConfig.parse(config), client_id="a-test", transactional_ids=())
    ) as record:
        record.claim(takeover=False)
        carrier = OwnedCarrier(record)
        acknowledged = carrier.set_spec(app="counts").epoch
        carrier.read()

        carrier.grant_again(acknowledged)
        carrier.grant_again(acknowledged)

        assert carrier.has_changed()
        granted = carrier.read()
        assert granted is not None
        assert granted.epoch == acknowledged + 1


def test_a_crashed_instance_on_this_machine_is_replaced_at_once(
    counting: Counting, config: dict[str, Any], tmp_path: Path
) -> None:
    text = """
        with KafkaStreams(build, config) as streams:
            print("started", flush=True)
            streams.wait()
    """
    counting.send(100)
    with program(tmp_path, counting, text) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        wait_for(counting.all_counted, what="all counts")
        process.kill()

    counting.send(100)
    with KafkaStreams(counts_of(counting.topic), config):
        wait_for(counting.all_counted, what="all counts")


def test_a_script_whose_function_is_its_own_needs_no_guard(
    counting: Counting, tmp_path: Path
) -> None:
    text = """
        streams = KafkaStreams(build, config)
        streams.start()
        sys.stdin.read()
        print("closed", streams.close())
    """
    counting.send(100)
    with program(tmp_path, counting, text, stdin=subprocess.PIPE) as process:
        wait_for(counting.all_counted, what="all counts")
        output, _ = process.communicate(timeout=240)

    assert output == "closed True\n"


def test_a_program_that_just_ends_has_committed_everything(
    counting: Counting, tmp_path: Path
) -> None:
    text = """
        config |= {"processing.guarantee": "at_least_once", "commit.interval.ms": 600_000}
        streams = KafkaStreams(build, config, http_port=0)
        streams.start()
        print(streams.endpoint, flush=True)
        sys.stdin.read()
    """
    counting.send(100)
    with program(tmp_path, counting, text, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = f"http://{process.stdout.readline().strip()}/tasks"
        wait_for(lambda: _processed(url) == 100, what="the records to be processed")
        assert counting.counted() == {}
        process.communicate(timeout=240)

    assert process.returncode == 0
    assert counting.committed() == {0: 50, 1: 50}
    assert counting.all_counted()


_BLOCK = """
    with streams:
        print(streams.endpoint, flush=True)
        streams.wait()
"""
_WAIT = """
    streams.start()
    print(streams.endpoint, flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("rest", [_BLOCK, _WAIT], ids=["in a block", "in a wait of its own"])
def test_a_program_that_is_told_to_end_commits_first_however_often_it_is_told(
    counting: Counting, tmp_path: Path, rest: str
) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    text = f"""
        import pathlib
        import threading

        def tell(new, old):
            if new == "PENDING_SHUTDOWN":
                print("closing", flush=True)
                pathlib.Path({str(told)!r}).read_text()

        config |= {{"processing.guarantee": "at_least_once", "commit.interval.ms": 600_000}}
        streams = KafkaStreams(build, config, http_port=0)
        streams.set_state_listener(tell)
    """
    counting.send(100)
    script = textwrap.dedent(text) + textwrap.dedent(rest)
    with program(tmp_path, counting, script, start_new_session=True) as process:
        assert process.stdout is not None
        url = f"http://{process.stdout.readline().strip()}/tasks"
        wait_for(lambda: _processed(url) == 100, what="the records to be processed")

        # As a service manager does: every process of it is told.
        os.killpg(process.pid, signal.SIGTERM)
        assert process.stdout.readline() == "closing\n"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.killpg(process.pid, number)
        told.write_text("all")
        output, _ = process.communicate(timeout=240)

    assert process.returncode == 128 + signal.SIGTERM
    assert output == ""
    assert counting.committed() == {0: 50, 1: 50}
    assert counting.all_counted()


def _processed(url: str) -> int:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return sum(task["processed"] for task in json.load(answer)["tasks"])


def test_a_script_that_names_itself_without_a_guard_is_told_so(
    counting: Counting, tmp_path: Path
) -> None:
    text = """
        KafkaStreams("program:build", config).start()
    """
    with program(tmp_path, counting, text, cwd=tmp_path) as process:
        output, _ = process.communicate(timeout=240)

    assert process.returncode != 0
    assert 'if __name__ == "__main__":' in output.strip().splitlines()[-1]


def _missing(counting: Counting, config: dict[str, Any]) -> Callable[..., Any]:
    return counts_of(f"{counting.topic}-that-is-not-there")


def _mismatch(counting: Counting, config: dict[str, Any]) -> Callable[..., Any]:
    counting.create(counting.changelog, 3)
    return counts_of(counting.topic)


def _unreachable(counting: Counting, config: dict[str, Any]) -> Callable[..., Any]:
    config |= {"bootstrap.servers": "127.0.0.1:1", "request.timeout.ms": 1_000}
    return counts_of(counting.topic)


@pytest.mark.parametrize(
    ("prepare", "error", "message"),
    [
        (_missing, MissingTopicError, "that-is-not-there"),
        (_mismatch, PartitionMismatchError, "counts-changelog"),
        (_unreachable, KafkaUnavailableError, r"127\.0\.0\.1:1"),
    ],
    ids=["a source topic is missing", "an old changelog has other partitions", "no broker"],
)
def test_what_cannot_run_does_not_start(
    counting: Counting, config: dict[str, Any], prepare: Any, error: type[Exception], message: str
) -> None:
    build = prepare(counting, config)

    with pytest.raises(error, match=message):
        KafkaStreams(build, config).start()


FAILURES = [
    pytest.param(b"\xff", {}, DeserializationError, "offset 50: the value", id="undecodable value"),
    pytest.param(
        b"x", {"default.timestamp.extractor": "math:pi"}, ConfigError, "timestamp.extractor",
        id="an extractor that is none",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("value", "changes", "error", "message"), FAILURES)
def test_what_ends_an_application_is_raised_to_who_waits_for_it(
    counting: Counting,
    config: dict[str, Any],
    value: bytes,
    changes: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    counting.send(100)
    producer = Producer({"bootstrap.servers": counting.bootstrap_servers})
    producer.produce(counting.topic, value, b"key", partition=0)
    assert producer.flush(30) == 0

    with (
        KafkaStreams(counts_of(counting.topic), config | changes) as streams,
        pytest.raises(error, match=message),
    ):
        streams.wait(timedelta(minutes=4))

    assert streams.state is ClientState.ERROR
    assert counting.committed()[0] <= 50


def test_a_block_that_does_not_wait_raises_what_has_ended_the_application_all_the_same(
    counting: Counting, config: dict[str, Any]
) -> None:
    producer = Producer({"bootstrap.servers": counting.bootstrap_servers})
    producer.produce(counting.topic, b"\xff", b"key", partition=0)
    assert producer.flush(30) == 0

    with (
        pytest.raises(DeserializationError, match="offset 0: the value"),
        KafkaStreams(counts_of(counting.topic), config) as streams,
    ):
        wait_for(lambda: streams.state is ClientState.ERROR, what="ERROR")


def test_a_foreign_member_of_the_group_keeps_an_application_from_starting(
    counting: Counting, config: dict[str, Any]
) -> None:
    streams = KafkaStreams(counts_of(counting.topic), config)

    with counting.joined(), pytest.raises(GroupInUseError, match="a-java-application"):
        streams.start()


@pytest.mark.parametrize(
    ("build", "changes", "error", "message"),
    [
        (counts_of("lines"), {"application.id": ""}, ConfigError, "application.id"),
        (counts_of("lines"), {"commit.intervall.ms": 1}, ConfigError, "commit.interval.ms"),
        (counts_of("lines"), {"default.key.serde": "strnig"}, ConfigError, "'string'"),
        ("no_such_module:build", {}, ImportPathError, "no_such_module"),
        (lambda: 7, {}, ImportPathError, "int"),
    ],
    ids=["no application id", "a misspelt option", "no serde", "no such module", "no topology"],
)
def test_a_users_mistake_is_told_by_the_constructor(
    config: dict[str, Any], build: Any, changes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        KafkaStreams(build, {**config, **changes})


def test_closing_what_was_never_started_is_nothing(config: dict[str, Any]) -> None:
    streams = KafkaStreams(counts_of("lines"), config)

    assert streams.close()
    assert streams.state is ClientState.NOT_RUNNING
