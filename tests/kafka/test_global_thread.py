"""The GlobalStreamThread on a real broker: killed, with its worker, and joins that equal Java's."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka import TopicPartition
from tests.java.tool import Oracle
from tests.support.embedded import EmbeddedProgram
from tests.support.global_topologies import request
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.waiting import wait_for

from headwater import Consumed, KafkaStreams, Processor, Record, Serdes, StoreKind, StoreSpec
from headwater.state.backends.rocks_shared import SharedRocks
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater import StreamsBuilder

pytestmark = pytest.mark.kafka

Rows = list[tuple[str, str | None]]
PLACES: Rows = [(f"place-{n % 400}", f"name {n}" if n % 7 else None) for n in range(600)]
MOVED: Rows = [(f"place-{n}", f"moved {n}" if n % 3 else None) for n in range(0, 500, 5)]
NAMED_LATER: Rows = [(f"place-{n}", f"later {n}") for n in range(450, 550)]
PARTITIONS = 4
_FILLED = re.compile(r"global stores places: filled in .* s, (\d+) records")


class Story:
    """What has been sent so far, and what Java makes of it."""

    def __init__(self, topics: Topics, name: str) -> None:
        self.topics, self.name = topics, name
        self.inputs: list[dict[str, Any]] = []

    def places(self, rows: Rows) -> None:
        topic = f"{self.name}-places"
        self.topics.send(topic, rows)  # type: ignore[arg-type]  # a value may be None
        self._note(topic, rows)

    def people(self, batch: str, count: int = 800) -> None:
        """Send people to all places there ever were, and to some that never were."""
        rows: Rows = [(f"{batch}-{n}", f"place-{n % 560}") for n in range(count)]
        self.topics.send(f"{self.name}-in", rows)  # type: ignore[arg-type]
        self._note(f"{self.name}-in", rows)

    def _note(self, topic: str, rows: Rows) -> None:
        self.inputs += [
            {"topic": topic, "key": _hex(key), "value": _hex(value), "timestamp": 1}
            for key, value in rows
        ]

    def of_java(self, oracle: Oracle) -> dict[str, str]:
        answer = oracle.ask(request(self.name) | {"inputs": self.inputs})
        assert "error" not in answer, answer["error"]
        return {_text(one["key"]): _text(one["value"]) for one in answer["outputs"]}

    def ours(self) -> dict[str, str]:
        found = self.topics.read(f"{self.name}-out")
        asked = [(key, value) for key, value in found if not key.startswith("probe")]
        assert len(dict(asked)) == len(asked), "a record was processed twice"
        return {key: value.decode() for key, value in asked}

    def wait_until_seen(self, place: str, name: str) -> None:
        """Wait until both StreamThreads, whose tasks have all partitions, see a row."""

        def is_seen() -> bool:
            for partition in range(PARTITIONS):
                self.topics.send(f"{self.name}-in", [(f"probe-{partition}", place)], partition)
            found = dict(self.topics.read(f"{self.name}-out"))
            probes = [found.get(f"probe-{n}", b"").decode() for n in range(PARTITIONS)]
            return all(value.endswith(f"{name}") for value in probes)

        wait_for(is_seen, what=f"{place} in every StreamThread")


def _hex(text: str | None) -> str | None:
    return None if text is None else text.encode().hex()


def _text(data: str | None) -> str:
    return "" if data is None else bytes.fromhex(data).decode()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    running = Oracle()
    yield running
    running.close()


@pytest.fixture
def story(bootstrap_servers: str, unique_name: str) -> Story:
    topics = Topics(bootstrap_servers)
    topics.create(f"{unique_name}-in", PARTITIONS)
    topics.create(f"{unique_name}-places", 3, cleanup_policy="compact")
    topics.create(f"{unique_name}-out", PARTITIONS)
    return Story(topics, unique_name)


def _global_process(program: EmbeddedProgram) -> psutil.Process:
    def found() -> psutil.Process | None:
        for child in psutil.Process(program.pid).children():
            if any("GlobalStreamThread" in part for part in child.cmdline()):
                return child
        return None

    return wait_for(found, what="a GlobalStreamThread")


@pytest.mark.java
@pytest.mark.sampled
def test_joins_equal_javas_before_and_after_kills_of_the_global_thread_and_of_the_worker(
    story: Story, oracle: Oracle, tmp_path: Path
) -> None:
    story.places(PLACES)
    story.people("first")
    named = SimpleNamespace(
        application_id=story.name,
        topic=story.name,
        bootstrap_servers=story.topics.bootstrap_servers,
    )
    program = EmbeddedProgram(
        named,  # type: ignore[arg-type]  # what it reads of a Counting
        tmp_path,
        topology="tests.support.global_topologies:people_and_places",
        **{
            "num.stream.threads": 2,
            "default.key.serde": "string",
            "default.value.serde": "string",
            "logging.level": "INFO",
        },
    )
    with program.start().runs():
        wait_for(lambda: len(story.ours()) == 800, what="the first people")
        assert story.ours() == story.of_java(oracle)

        killed = _global_process(program)
        killed.kill()
        story.people("meanwhile")  # StreamThreads go on with what they see
        wait_for(lambda: len(story.ours()) == 1_600, what="the people meanwhile")
        story.places(MOVED)
        story.wait_until_seen("place-485", "moved 485")
        story.people("second")
        wait_for(lambda: len(story.ours()) == 2_400, what="the second people")
        told = [int(count) for count in _FILLED.findall(program.said)]
        assert told[0] == len(PLACES)
        assert len(told) == 2
        assert told[1] <= len(MOVED), "only the tail was read again"
        program.close()

    story.places(NAMED_LATER)
    with program.start().runs():
        story.people("third")
        wait_for(lambda: len(story.ours()) == 3_200, what="the third people")
        assert [int(count) for count in _FILLED.findall(program.said)] == [len(NAMED_LATER)]
    assert story.ours() == story.of_java(oracle)


def _table(topic: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        strings: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        builder.global_table(topic, store="places", **strings)

    return build


def _kept(topic: str, *, fails_at: str = "") -> Callable[[StreamsBuilder], None]:
    """A store that a processor of the user's keeps: upper case, and how many it has seen."""

    class Keep(Processor[str, str, Any, Any]):
        def init(self, context: Any) -> None:
            self.store, self.seen = context.get_state_store("places"), 0

        def process(self, record: Record[str, str]) -> None:
            if record.value == fails_at:
                raise ValueError("no such place")
            self.seen += 1
            self.store.put(record.key, f"{self.seen} {record.value.upper()}")

    def build(builder: StreamsBuilder) -> None:
        strings: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        spec = StoreSpec(name="places", kind=StoreKind.KEY_VALUE, persistent=False, **strings)
        builder.add_global_store(spec, topic, Consumed(**strings), Keep)

    return build


def _rows(rig: ThreadRig) -> dict[str, str]:
    """End the process without a word, and read what it has left."""
    assert rig.global_thread is not None
    rig.global_thread.kill()
    directory = StateDirectory(rig.state_dir, rig.application_id)
    backend = SharedRocks(directory.global_store("places").database)
    found = {key.decode(): row.decode(errors="replace") for key, row in backend.range(None, None)}
    backend.close()
    return found


def _delete_before(topics: Topics, topic: str, offset: int) -> None:
    partition = TopicPartition(topic, 0, offset)
    topics.admin.delete_records([partition])[partition].result(30)


@pytest.fixture
def places(bootstrap_servers: str, unique_name: str) -> tuple[Topics, str]:
    topics, name = Topics(bootstrap_servers), f"{unique_name}-places"
    topics.create(name, 1, cleanup_policy="compact,delete")
    topics.send(name, [("a", "one"), ("b", "two"), ("c", "three")])
    return topics, name


def test_a_store_is_filled_anew_if_its_topic_is_another_one_or_has_lost_what_was_not_read(
    places: tuple[Topics, str], unique_name: str, tmp_path: Path
) -> None:
    topics, name = places
    with ThreadRig(topics, unique_name, _table(name), tmp_path) as rig:
        assert rig.start_global_thread().records == 3
        assert sorted(_rows(rig)) == ["a", "b", "c"]

        topics.send(name, [("d", "four"), ("e", "five")])
        _delete_before(topics, name, 4)
        assert rig.start_global_thread(1).records == 1
        assert sorted(_rows(rig)) == ["e"]

        topics.delete(name)
        topics.create(name, 2, cleanup_policy="compact")
        topics.send(name, [("f", "six")])
        assert rig.start_global_thread(2).records == 1
        assert sorted(_rows(rig)) == ["f"]


def test_a_topic_that_is_deleted_while_it_is_followed_is_named_with_the_way_out(
    places: tuple[Topics, str], unique_name: str, tmp_path: Path
) -> None:
    topics, name = places
    with ThreadRig(topics, unique_name, _table(name), tmp_path) as rig:
        rig.start_global_thread()
        topics.delete(name)

        failed = rig.global_failure()

    assert failed.error == "MissingTopicError"
    assert f"topic {name} was deleted" in failed.message
    assert "the store is filled anew" in failed.message


def test_a_store_in_memory_begins_anew_with_its_worker_and_goes_on_with_its_process(
    places: tuple[Topics, str], unique_name: str, tmp_path: Path
) -> None:
    topics, name = places
    with ThreadRig(topics, unique_name, _kept(name), tmp_path) as rig:
        rig.start_global_thread()
        assert _rows(rig) == {"a": "1 ONE", "b": "2 TWO", "c": "3 THREE"}
        topics.send(name, [("a", "four")])
        assert rig.start_global_thread(1).records == 1
        assert _rows(rig)["a"] == "1 FOUR"
        assert rig.start_global_thread(0).records == 4
        assert _rows(rig)["a"] == "4 FOUR"


def test_a_function_that_does_not_return_is_named_and_the_global_thread_replaced(
    places: tuple[Topics, str],
    unique_name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics, name = places
    for end in ("in", "out"):
        topics.create(f"{unique_name}-{end}")
    config = {
        "application.id": unique_name,
        "bootstrap.servers": topics.bootstrap_servers,
        "state.dir": str(tmp_path / "state"),
        "consumer.max.poll.interval.ms": 8_000,
        "consumer.session.timeout.ms": 8_000,  # the client wants it to be no longer
    }
    build = _joined(f"{unique_name}-in", name, seen=tmp_path / "seen")
    with caplog.at_level(logging.WARNING), KafkaStreams(build, config) as streams:

        def found() -> dict[str, bytes]:
            return dict(topics.read(f"{unique_name}-out"))

        topics.send(f"{unique_name}-in", [("first", "a")])
        wait_for(lambda: found() == {"first": b"one"}, what="the first")
        topics.send(name, [("d", "slow")])
        wait_for(lambda: streams._carrier.status.hangs, what="the hang to be noticed")
        (hang,) = streams._carrier.status.hangs
        topics.send(f"{unique_name}-in", [("meanwhile", "b")])
        wait_for(lambda: found().get("meanwhile") == b"two", what="what others go on with")
        wait_for(lambda: not streams._carrier.status.hangs, what="the hang to be over")

        def is_seen() -> bool:
            topics.send(f"{unique_name}-in", [("last", "d")])
            return found().get("last") == b"slow"

        wait_for(is_seen, what="the row that was slow")
    said = f"node KTABLE-SOURCE-0000000001, topic {name} partition 0 offset 3"
    assert hang.place.endswith(said)
    assert f"{said} does not return" in caplog.text
    assert "threading.Event().wait(3_600)" in caplog.text


def _joined(source: str, table: str, seen: Path) -> Callable[[StreamsBuilder], None]:
    """Look values up in a store that a processor keeps, which hangs once."""
    path = str(seen)

    class Slow(Processor[str, str, Any, Any]):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("places")

        def process(self, record: Record[str, str]) -> None:
            if record.value == "slow" and not Path(path).exists():
                Path(path).touch()
                threading.Event().wait(3_600)
            self.store.put(record.key, record.value)

    class LookUp(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store("places")

        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(self.store.get(record.value)))

    def build(builder: StreamsBuilder) -> None:
        strings: Any = {"key_serde": Serdes.string, "value_serde": Serdes.string}
        spec = StoreSpec(name="places", kind=StoreKind.KEY_VALUE, **strings)
        builder.add_global_store(spec, table, Consumed(**strings), Slow)
        out = source.removesuffix("-in") + "-out"
        builder.stream(source, **strings).process(LookUp).to(out, **strings)

    return build


def test_a_processor_that_raises_is_named_with_the_record(
    places: tuple[Topics, str], unique_name: str, tmp_path: Path
) -> None:
    topics, name = places
    with ThreadRig(topics, unique_name, _kept(name, fails_at="three"), tmp_path) as rig:
        failed = rig.global_failure()

    assert failed.error == "ProcessingError"
    assert f"topic {name}, partition 0, offset 2, key 'c'" in failed.message
    assert "node KSTREAM-PROCESSOR-" in failed.message or "node KTABLE-" in failed.message
    assert "ValueError: no such place" in failed.message
