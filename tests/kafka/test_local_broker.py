"""What the private Kafka promises."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kube.pki import Authority
from tests.support.waiting import wait_for

from headwater.errors import LocalKafkaError
from headwater.local.broker import KafkaBroker, read_state
from headwater.local.jars import NO_FETCH_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

_OWNER = """
    import sys
    from pathlib import Path
    from headwater.local.broker import KafkaBroker
    broker = KafkaBroker(Path(sys.argv[1]) if len(sys.argv) > 1 else None).start()
    print(broker.pid, broker.data_dir, flush=True)
    sys.stdin.read()
"""


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it goes while it is read
        return False
    return state != "Z"


def _headwater(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
        check=False,
    )


def _start_owner(*arguments: str) -> tuple[subprocess.Popen[str], int, Path]:
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_OWNER), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid, directory = owner.stdout.readline().split()
    return owner, int(pid), Path(directory)


def _close(owner: subprocess.Popen[str]) -> None:
    owner.wait(60)
    owner.stdin.close()
    owner.stdout.close()


def _create_topic(bootstrap_servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(name, 1)])[name].result(60)


def _read_committed(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": topic,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []

    def has_read() -> bool:
        found.extend(m.value() for m in consumer.consume(count, 0.2) if m.error() is None)
        return len(found) >= count

    wait_for(has_read, what=f"{count} records")
    consumer.close()
    return found


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(
    bootstrap_servers: str, unique_name: str
) -> None:
    _create_topic(bootstrap_servers, unique_name)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": unique_name})
    producer.init_transactions(30)

    producer.begin_transaction()
    producer.produce(unique_name, value=b"aborted")
    producer.flush(30)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(unique_name, value=b"committed")
    producer.commit_transaction(30)

    assert _read_committed(bootstrap_servers, unique_name, 1) == [b"committed"]


def test_a_topic_is_not_created_by_asking_for_it(bootstrap_servers: str, unique_name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    found = admin.list_topics(unique_name, timeout=60).topics[unique_name]

    assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.sampled
def test_data_and_leaders_survive_a_kill_and_a_stop(tmp_path: Path, unique_name: str) -> None:
    """A transaction is coordinated before and after each; no partition loses its leader."""
    with KafkaBroker(tmp_path / "data") as broker:
        address = broker.bootstrap_servers
        _create_topic(address, unique_name)
        _commit(address, unique_name)
        begun = len(broker.log_file.read_text())

        broker.kill()
        assert not broker.is_running()
        broker.restart()

        assert broker.bootstrap_servers == address
        assert _read_committed(address, unique_name, 1) == [b"v"]
        _commit(address, unique_name)
        assert broker.skipped_markers() == []
        restarted = len(broker.log_file.read_text())
    with KafkaBroker(tmp_path / "data") as broker:
        assert broker.bootstrap_servers == address
        assert _read_committed(address, unique_name, 2) == [b"v", b"v"]
        _commit(address, unique_name)
        assert broker.skipped_markers() == []
    log = broker.log_file.read_text()

    # It begins once, and ceases only by ending: that is what a lost leader would have shown.
    assert _coordinating(log[:begun]) == ["Elected"]
    for run in (log[begun:restarted], log[restarted:]):
        assert [*dict.fromkeys(_coordinating(run))] == ["Resigned", "Elected"]


def _commit(bootstrap_servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"v")
    producer.commit_transaction(30)


def _coordinating(log: str) -> list[str]:
    return re.findall(r"(Elected|Resigned) as the txn coordinator", log)


def test_a_killed_owner_leaves_neither_process_nor_temporary_directory() -> None:
    owner, pid, directory = _start_owner()
    assert _is_alive(pid)

    owner.kill()

    wait_for(lambda: not _is_alive(pid), what="the broker ends with its owner")
    wait_for(lambda: not directory.exists(), what="its data is removed")
    _close(owner)


@pytest.mark.sampled
def test_a_data_directory_has_one_owner_and_is_free_as_soon_as_that_is_gone(
    tmp_path: Path,
) -> None:
    with pytest.raises(LocalKafkaError, match=r"log\.retention\.ms"):
        KafkaBroker(tmp_path, overrides={"log.retention.ms": "for ever"}).start()

    owner, pid, _ = _start_owner(str(tmp_path))
    with pytest.raises(LocalKafkaError, match=f"belongs to process {owner.pid}"):
        KafkaBroker(tmp_path).start()
    assert read_state(tmp_path)["owner_pid"] == owner.pid
    owner.kill()

    with KafkaBroker(tmp_path) as broker:
        assert broker.pid != pid
        assert not _is_alive(pid)
        _killed_guard_takes_along(broker)
    _close(owner)


def _killed_guard_takes_along(broker: KafkaBroker) -> None:
    pid = broker.pid
    guard = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    os.kill(guard, signal.SIGKILL)

    wait_for(lambda: not _is_alive(pid), what="the broker ends with its guard")


@pytest.mark.sampled
def test_the_secure_listener_takes_the_right_password_and_no_other(tmp_path: Path) -> None:
    awkward = 'back\\slash "quoted"; = #'
    with KafkaBroker(sasl_users={"alice": awkward}, advertise="localhost") as broker:
        right = broker.secure_client_config("alice") | {"log_level": "0"}
        wrong = right | {"sasl.password": "guessed"}

        assert right["bootstrap.servers"].startswith("localhost:")
        assert AdminClient(right).list_topics(timeout=60).brokers
        errors: list[KafkaError] = []
        refused = AdminClient(wrong | {"error_cb": errors.append})
        with pytest.raises(KafkaException):
            refused.list_topics(timeout=3)

        def is_refused() -> bool:
            refused.poll(0.1)
            return KafkaError._AUTHENTICATION in {error.code() for error in errors}

        wait_for(is_refused, what="the refusal")
        untrusting = {k: v for k, v in right.items() if k != "ssl.ca.location"}
        with pytest.raises(KafkaException):
            AdminClient(untrusting).list_topics(timeout=3)
        listed = AdminClient({"bootstrap.servers": broker.advertised_servers}).list_topics(
            timeout=20
        )
        assert [b.host for b in listed.brokers.values()] == ["localhost"]
        assert (broker.data_dir / "server.properties").stat().st_mode & 0o077 == 0


def test_a_taken_port_is_named(bootstrap_servers: str) -> None:
    port = int(bootstrap_servers.rpartition(":")[2])

    with pytest.raises(LocalKafkaError, match=f"port {port} is in use"):
        KafkaBroker(port=port).start()


@pytest.mark.sampled
def test_the_command_starts_describes_and_stops_a_detached_broker(tmp_path: Path) -> None:
    place = ("--data", str(tmp_path / "data"))

    assert _headwater("kafka", "status", *place).returncode == 1
    started = _headwater("kafka", "start", "--detach", "--json", *place)
    try:
        address = json.loads(started.stdout)["bootstrap_servers"]
        assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=60).brokers
        assert address in _headwater("kafka", "status", *place).stdout
        assert (tmp_path / "data").stat().st_mode & 0o077 == 0
        second = _headwater("kafka", "start", "--detach", *place)
        assert second.returncode == LocalKafkaError.exit_code
        assert second.stderr.splitlines()[-1].startswith("error: the private Kafka in ")
    finally:
        stopped = _headwater("kafka", "stop", *place)
    assert stopped.stdout == f"stopped the private Kafka in {tmp_path / 'data'}\n"
    assert _headwater("kafka", "status", *place).returncode == 1


@pytest.mark.sampled
def test_who_shares_a_broker_starts_it_anew_when_its_owner_stops(tmp_path: Path) -> None:
    """And each of the commands ends with its standard input, the broker with the last one."""
    command = [sys.executable, "-m", "headwater.cli.main", "kafka", "start", "--json"]
    command += ["--data", str(tmp_path), "--share", "--until-eof", "--retention-bytes", "1000000"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    owner, sharer = (subprocess.Popen(command, **pipes) for _ in range(2))
    try:
        first = [json.loads(each.stdout.readline()) for each in (owner, sharer)]
        assert first[0] == first[1]
        if first[0]["owner_pid"] == sharer.pid:
            owner, sharer = sharer, owner

        owner.communicate(timeout=60)

        then = json.loads(sharer.stdout.readline())
        assert then["owner_pid"] == sharer.pid
        assert then["bootstrap_servers"] == first[0]["bootstrap_servers"]
        settings = (tmp_path / "server.properties").read_text()
        assert "log.retention.bytes=1000000\n" in settings
        assert not _is_alive(first[0]["pid"])
        assert _is_alive(then["pid"])
        sharer.communicate(timeout=60)  # a broker that ends in order takes a while
        assert not _is_alive(then["pid"])
        assert (owner.returncode, sharer.returncode) == (0, 0)
        assert read_state(tmp_path) is None
    finally:
        for process in (owner, sharer):
            process.kill()
            process.wait()


def test_java_options_of_the_environment_are_the_brokers(broker: KafkaBroker) -> None:
    state = read_state(broker.data_dir)
    assert state is not None

    command = psutil.Process(state["pid"]).cmdline()

    assert os.environ["HEADWATER_KAFKA_OPTS"].split() != []
    assert set(os.environ["HEADWATER_KAFKA_OPTS"].split()) <= set(command)


def test_offline_with_an_empty_cache_the_error_says_what_where_and_how(tmp_path: Path) -> None:
    # A proxy where nobody listens is how a machine without a network looks to the fetcher.
    nowhere = {
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "NO_PROXY": "",
        NO_FETCH_VARIABLE: "",
    }

    ended = _headwater("kafka", "start", "--ephemeral", HEADWATER_CACHE=str(tmp_path), **nowhere)

    assert ended.returncode == LocalKafkaError.exit_code
    message = ended.stderr.splitlines()[-1]
    assert message.startswith("error: cannot fetch org.apache.kafka:kafka_2.13:4.3.1")
    assert "headwater kafka fetch" in message
    assert str(tmp_path) in message
    assert "Traceback" not in ended.stderr


def test_behind_a_proxy_whose_certificate_is_not_trusted_the_error_says_what_to_set(
    tmp_path: Path,
) -> None:
    with _inspecting_proxy(tmp_path / "proxy") as port:
        ended = _headwater(
            *("kafka", "start", "--ephemeral"),
            HEADWATER_CACHE=str(tmp_path / "cache"),
            HTTPS_PROXY=f"http://127.0.0.1:{port}",
            NO_PROXY="",
            **{NO_FETCH_VARIABLE: ""},
        )

    assert ended.returncode == LocalKafkaError.exit_code
    message = ended.stderr.splitlines()[-1]
    assert message.startswith("error: cannot fetch org.apache.kafka:kafka_2.13:4.3.1")
    assert "REQUESTS_CA_BUNDLE" in message


@contextmanager
def _inspecting_proxy(directory: Path) -> Iterator[int]:
    """An HTTP proxy that answers every CONNECT with a certificate of its own authority."""
    pair = Authority(directory).server("proxy", ["repo.maven.apache.org"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                context.wrap_socket(connection, server_side=True).close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def test_a_damaged_jar_in_the_cache_is_refused_not_run(tmp_path: Path) -> None:
    jar = tmp_path / "jars" / "org.eclipse.jdt" / "ecj" / "3.42.0" / "ecj-3.42.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"not the compiler")
    program = "from headwater.local import jars; jars.class_path('ecj-3.42.0')"
    nowhere = {
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "HEADWATER_CACHE": str(tmp_path),
        "NO_PROXY": "",
        NO_FETCH_VARIABLE: "",
    }

    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | nowhere,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "cannot fetch org.eclipse.jdt:ecj:3.42.0" in ended.stderr
    assert not jar.exists()
