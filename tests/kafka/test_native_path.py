"""Records that go through C are those that go through Python, which is the oracle."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clients import Clients
from tests.support.raw_headers import send_with_headers
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for
from tests.support.worker import Counting, child_of

from headwater import KafkaStreams
from headwater.errors import RecordTooLargeError
from headwater.kafka.consumer import FROM_START
from headwater.kafka.errors import OutputRefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.ids import TopicPartition
    from headwater.kafka.consumer import PartitionConsumer
    from headwater.ports import RawRecord

pytestmark = pytest.mark.kafka

IN_PYTHON, IN_C = "false", "true"
CONTENTS = (None, b"", b"\x00", b"bytes", "t\u00e9xt".encode(), bytes(range(256)) * 500)
HEADERS: tuple[Any, ...] = (
    None,
    [],
    [("name", b"value")],
    [("twice", b"1"), ("twice", None), ("", b""), ("caf\u00e9", bytes(1_000))],
)
TIMESTAMPS = (1, 1_700_000_000_000)


def clients_of(servers: str, name: str, path: str, **settings: Any) -> Clients:
    found = Clients(servers, name, headwater_native=path, **settings)
    assert (found.native is not None) == (path == IN_C)
    return found


def read_all(
    consumer: PartitionConsumer, clients: Clients, ends: dict[TopicPartition, int]
) -> dict[TopicPartition, list[RawRecord]]:
    """Read both partitions to their ends."""
    found: dict[TopicPartition, list[RawRecord]] = {clients.first: [], clients.second: []}
    consumer.assign(dict.fromkeys(found, FROM_START))

    def is_read() -> bool:
        for partition, records in consumer.poll(0.1):
            found[partition] += records
        return all((consumer.position(p) or 0) >= end for p, end in ends.items())

    wait_for(is_read, what="all records", every_s=0)
    consumer.close()
    return found


def test_keys_values_headers_and_timestamps_are_the_same_whoever_writes_and_reads(
    bootstrap_servers: str, unique_name: str
) -> None:
    read: dict[tuple[str, str], Any] = {}
    for writing in (IN_PYTHON, IN_C):
        name = f"{unique_name}-{writing}"
        writers = clients_of(bootstrap_servers, name, writing)
        writers.create()
        producer = writers.producer()
        send = producer.sender(name)
        for key, value, headers, timestamp in product(CONTENTS, CONTENTS, HEADERS, TIMESTAMPS):
            # Where a key of null or none at all goes is a draw.
            send(key, value, timestamp, headers, None if key else 1)
        producer.flush(60)
        ends = writers.admin.end_offsets([writers.first, writers.second])
        for reading in (IN_PYTHON, IN_C):
            readers = clients_of(bootstrap_servers, name, reading)
            found = read_all(readers.consumer(), readers, ends)
            read[writing, reading] = {p.partition: records for p, records in found.items()}
        producer.discard()

    expected = read[IN_PYTHON, IN_PYTHON]
    assert all(found == expected for found in read.values())
    sent = len(CONTENTS) ** 2 * len(HEADERS) * len(TIMESTAMPS)
    assert sum(map(len, expected.values())) == sent
    kinds = {tuple(map(type, record)) for record in expected[1]}
    assert (int, int, type(None), type(None), type(None)) in kinds


@pytest.mark.parametrize("kind", [{}, {"headers": True}, {"versions": True}], ids=str)
def test_a_changelog_has_the_same_rows_on_both_paths(
    bootstrap_servers: str, unique_name: str, kind: dict[str, bool]
) -> None:
    writers = clients_of(bootstrap_servers, unique_name, IN_PYTHON)
    writers.create()
    producer = writers.producer()
    send = producer.sender(unique_name)
    contents = list(product(CONTENTS, CONTENTS, HEADERS, TIMESTAMPS))
    random.Random(7).shuffle(contents)
    for key, value, headers, timestamp in contents:
        send(key, value, timestamp, headers, 0)
    producer.flush(60)
    send_with_headers(
        bootstrap_servers, unique_name, 0, [(b"latin", b"1", [(b"caf\xe9", b"v"), (b"fine", None)])]
    )
    ends = writers.admin.end_offsets([writers.first])
    rows = {}
    for path in (IN_PYTHON, IN_C):
        clients = clients_of(bootstrap_servers, unique_name, path)
        rows[path] = newest_of(clients.consumer("restore"), clients.first, ends, kind)
    producer.discard()

    assert rows[IN_C] == rows[IN_PYTHON]
    assert {key for key, _, _ in rows[IN_C]} == {key for key in CONTENTS if key is not None} | {
        b"latin"
    }


def newest_of(
    consumer: PartitionConsumer,
    partition: TopicPartition,
    ends: dict[TopicPartition, int],
    kind: dict[str, bool],
) -> list[Any]:
    """Read a changelog to its end; return what a store is given."""
    consumer.assign({partition: FROM_START})
    newest: list[Any] = []

    def is_read() -> bool:
        for _, run in consumer.poll_runs(0.1):
            if not newest:
                newest.append(run.newest(**kind))
            newest[0].add(run)
        return (consumer.position(partition) or 0) >= ends[partition]

    wait_for(is_read, what="all records", every_s=0)
    consumer.close()
    return sorted(newest[0].rows())


def test_a_value_of_100_megabytes_comes_whole(bootstrap_servers: str, unique_name: str) -> None:
    room = {
        "producer.max.request.size": 104_000_000,
        "producer.queue.buffering.max.kbytes": 200_000,
        "consumer.receive.message.max.bytes": 120_000_000,
    }
    clients = clients_of(bootstrap_servers, unique_name, IN_C, **room)
    clients.create(max_message_bytes="104000000")
    value = bytes(range(250)) * 400_000
    producer = clients.producer()
    producer.sender(clients.topic)(b"large", value, 1, None, 0)
    producer.flush(60)
    ends = {clients.first: 1}

    found = read_all(clients.consumer(), clients, ends)

    assert found[clients.first] == [(0, 1, b"large", value, None)]


@pytest.mark.parametrize("key", [None, b"", b"key"])
def test_a_delivery_that_failed_is_asked_about_with_the_same_key_and_value(
    bootstrap_servers: str, unique_name: str, key: bytes | None
) -> None:
    asked: dict[str, list[Any]] = {}
    for path in (IN_PYTHON, IN_C):
        clients = clients_of(bootstrap_servers, f"{unique_name}-{path}", path)
        clients.create(max_message_bytes="1000")
        told = asked[path] = []
        producer = clients.producer()

        def refused(error: Exception, *record: Any, told: list[Any] = told) -> None:
            told.append((type(error), *record))

        send = producer.sender(clients.topic, refused)
        send(key, b"v" * 5_000, 7, [("h", b"1")], 1)
        with pytest.raises(OutputRefusedError, match=f"{clients.topic}-1"):
            producer.flush(60)
        producer.abort_transaction(60)
        producer.settle_refused()

    assert asked[IN_C] == asked[IN_PYTHON]
    assert asked[IN_C] == [(RecordTooLargeError, key, b"v" * 5_000, -1, None, 1)]


def test_what_is_sent_while_a_commit_waits_leaves_behind_what_was_sent_before(
    bootstrap_servers: str, unique_name: str
) -> None:
    clients = clients_of(
        bootstrap_servers, unique_name, IN_C, processing_guarantee="exactly_once_v2"
    )
    clients.create()
    producer = clients.transactional()
    send = producer.sender(clients.topic)
    send(b"1", b"", 1, None, 0)
    producer.hold()
    send(b"2", None, 2, [("h", None)], 0)
    send(b"3", b"v", 3, None, 0)
    assert (producer.held, producer.sent) == (2, 3)
    producer.commit_transaction(60)
    producer.release()
    send(b"4", b"", 4, None, 0)
    assert (producer.held, producer.sent) == (0, 4)
    producer.commit_transaction(60)
    consumer = clients.consumer()
    ends = clients.admin.end_offsets([clients.first])

    found = read_all(consumer, clients, ends)

    # Behind the first and the last of a transaction is its marker.
    assert found[clients.first] == [
        (0, 1, b"1", b"", None),
        (2, 2, b"2", None, [("h", None)]),
        (3, 3, b"3", b"v", None),
        (4, 4, b"4", b"", None),
    ]


@pytest.mark.parametrize(("room", "linger_ms"), [(100, 1), (10, 0)], ids=["room", "hardly any"])
@pytest.mark.parametrize("path", [IN_PYTHON, IN_C])
def test_a_full_queue_makes_the_sender_wait_and_loses_nothing(
    bootstrap_servers: str, unique_name: str, path: str, room: int, linger_ms: int
) -> None:
    """With hardly any room the queue is often empty again before anybody has looked."""
    clients = clients_of(
        bootstrap_servers,
        unique_name,
        path,
        **{"producer.queue.buffering.max.messages": room, "producer.linger.ms": linger_ms},
    )
    clients.create()
    producer = clients.producer()
    send = producer.sender(clients.topic)
    for number in range(20_000):
        send(b"%d" % number, None, 1 + number, None, 0)
    producer.flush(60)

    found = read_all(clients.consumer(), clients, {clients.first: 20_000})

    assert [record[2] for record in found[clients.first]] == [b"%d" % n for n in range(20_000)]
    assert producer.sent == 20_000


def test_a_partition_that_is_set_back_again_and_again_gives_every_record_each_time(
    bootstrap_servers: str, unique_name: str
) -> None:
    clients = clients_of(bootstrap_servers, unique_name, IN_C)
    clients.create()
    producer = clients.producer()
    send = producer.sender(clients.topic)
    for number in range(3_000):
        send(None, b"%d" % number, 1 + number, None, number % 2)
    producer.flush(60)
    consumer = clients.consumer()
    consumer.assign({clients.first: 0, clients.second: 0})
    for start in (0, 700, 1_499, 3, 0, 0, 1_000, 1):
        consumer.seek(clients.first, start)
        if start % 2:
            consumer.unassign([clients.second])
            consumer.assign({clients.second: start})
        found: list[int] = []

        def is_read(found: list[int] = found) -> bool:
            for partition, records in consumer.poll(0.1):
                if partition == clients.first:
                    found += [record[0] for record in records]
            return consumer.next_offset(clients.first) == 1_500

        wait_for(is_read, what="the end", every_s=0)
        assert found == list(range(start, 1_500))
    consumer.close()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("cache", ["0", "10000"])
def test_a_thread_with_a_fault_in_native_code_is_replaced_and_every_record_counted(
    bootstrap_servers: str,
    unique_name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    guarantee: str,
    cache: str,
) -> None:
    counting = Counting(bootstrap_servers, unique_name, changelog=False)
    config = {
        "application.id": counting.application_id,
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
        "statestore.cache.max.bytes": cache,
        "state.dir": str(tmp_path / "state"),
        "headwater.native": "true",
    }
    counting.send(20_000, keys=500)

    def is_counted() -> bool:
        found = counting.counted()
        if guarantee == "exactly_once_v2":
            return found == counting.sent
        return all(found[key] >= count for key, count in counting.sent.items())

    with KafkaStreams(counts_of(counting.topic), config):
        wait_for(counting.all_counted, what="all counts")
        thread = child_of(os.getpid(), "StreamThread-0")
        assert thread is not None
        thread.send_signal(signal.SIGSEGV)
        counting.send(20_000, keys=500)
        wait_for(is_counted, what="all counts")

    assert "a fault in native code (SIGSEGV)" in caplog.text
    assert "headwater.native=false" in caplog.text


WITHOUT = """\
import logging
logging.basicConfig(format="%(message)s")
from headwater.errors import ConfigError
from headwater.kafka.native_module import native
assert native("auto") is None
assert native("auto") is None
assert native("false") is None
try:
    native("true")
except ConfigError as error:
    print(error)
"""


OTHER_LIBRARY = """\
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from math import __file__ as other
loader = ExtensionFileLoader("headwater_native._clients", {file!r})
clients = module_from_spec(spec_from_loader(loader.name, loader))
loader.exec_module(clients)
INTERFACE = {interface}
def find(_path):
    return clients.find(other)
"""


def without(folder: Path, text: str) -> tuple[str, str]:
    """Return what is said where the extension is this text: the log, and the error."""
    package = folder / "headwater_native"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stderr, found.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise OSError('cannot map the file')", "cannot be imported: cannot map the file"),
        ("import absent_of_ours", "cannot be imported: No module named 'absent_of_ours'"),
        ("INTERFACE = 0", "of another version (interface 0, not "),
        (
            OTHER_LIBRARY,
            "lacks rd_kafka_version",
        ),
    ],
    ids=["no import", "a dependency", "another version", "another library"],
)
def test_an_extension_that_cannot_be_used_leaves_the_path_in_python_and_says_why(
    tmp_path: Path, text: str, why: str
) -> None:
    from headwater_native import INTERFACE, _clients

    text = text.replace("{file!r}", repr(_clients.__file__))
    said, refused = without(tmp_path, text.replace("{interface}", str(INTERFACE)))

    assert said.count("headwater.native=false") == 1, said
    assert why in said
    assert why in refused
    assert "headwater.native is true" in refused
