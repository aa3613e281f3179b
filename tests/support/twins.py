"""An application in the oracle's language that we and Java run by turns on a real broker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from headwater import KafkaStreams
from tests.java.tool import JavaTool
from tests.oracle.translate import Drawing
from tests.support.creating import create_known
from tests.support.reading import by_partition
from tests.support.thread_rig import Topics
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headwater import StreamsBuilder

SLOW_S = 240
SESSION_MS = 6_000
"""After so long a Java application that has ended is a member of its group no more."""
ROOT = Path(__file__).parents[2]
ORACLE = ROOT / "tests" / "java" / "oracle"


class Output(NamedTuple):
    """A record that came out, with bytes in hexadecimal digits."""

    topic: str
    key: str | None
    value: str | None
    timestamp: int


def in_sequence(outputs: Iterable[Output]) -> list[Output]:
    """Outputs in an order that depends on them alone."""
    return sorted(outputs, key=lambda output: [str(part) for part in output])


def in_order(inputs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Inputs that lie ready, as a task takes them: the topic whose next is oldest goes first."""
    waiting: dict[str, list[Mapping[str, Any]]] = {}
    for one in inputs:
        waiting.setdefault(one["topic"], []).append(one)
    taken = []
    while any(waiting.values()):
        heads = [queue for queue in waiting.values() if queue]
        taken.append(min(heads, key=lambda queue: queue[0]["timestamp"]).pop(0))
    return taken


def outputs_of(answer: Mapping[str, Any]) -> list[Output]:
    """What the oracle says comes out, sorted."""
    assert "error" not in answer, answer["error"]
    return in_sequence(
        Output(one["topic"], one["key"], one["value"], one["timestamp"])
        for one in answer["outputs"]
    )


def building(request: Mapping[str, Any]) -> Callable[[StreamsBuilder], None]:
    """Return what draws a request's topology."""

    def build(builder: StreamsBuilder) -> None:
        Drawing(request, builder=builder).draw()

    return build


class Twins:
    """The application of a request, run by one engine after the other, each on an empty disk.

    Args:
        bootstrap_servers: the broker.
        request: its topology; ``app_id`` is the application id.
        directory: for what the engines keep on disk.
        partitions: of every topic that is read.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        request: Mapping[str, Any],
        directory: Path,
        *,
        partitions: int = 1,
    ) -> None:
        self.servers, self.request, self.partitions = bootstrap_servers, request, partitions
        self.app: str = request["app_id"]
        self.topics = Topics(bootstrap_servers)
        self.sent: dict[tuple[str, int], int] = {}
        self._directory = directory
        self._runs = 0
        self._file = directory / "request.json"
        self._file.write_text(json.dumps(request))
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        steps = request["steps"]
        self._read = {it for step in steps for it in step.get("topics", [step.get("topic")])}
        self.out = {step["topic"] for step in steps if step["op"] == "to"}
        self._read -= {None, *self.out}
        create_known(
            self.topics.admin,
            *(NewTopic(name, partitions) for name in self._read),
            *(NewTopic(name, 1) for name in self.out),
        )

    def send(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        """Write records; ``partition`` is 0 unless one says otherwise."""
        for one in inputs:
            place = one["topic"], one.get("partition", 0)
            key, value = (
                None if one[it] is None else bytes.fromhex(one[it]) for it in ("key", "value")
            )
            headers: Any = [(name, bytes.fromhex(text)) for name, text in one.get("headers", [])]
            self._producer.produce(
                place[0], value, key, place[1], timestamp=one["timestamp"], headers=headers
            )
            self.sent[place] = self.sent.get(place, 0) + 1
        assert self._producer.flush(60) == 0

    def outputs(self, *, isolation: str = "read_committed") -> list[Output]:
        """All that has come out, sorted."""
        return in_sequence(
            Output(topic, _hex(message.key()), _hex(message.value()), message.timestamp()[1])
            for topic in self.out
            for message in by_partition(self.servers, topic, isolation=isolation)
        )

    def committed(self) -> dict[tuple[str, int], int]:
        """Up to where every partition has been processed; those without a commit are left out."""
        consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": self.app, "log_level": 0}
        )
        wanted = [TopicPartition(it, n) for it in self._read for n in range(self.partitions)]
        try:
            found = consumer.committed(wanted, 60)
        except KafkaException:
            return {}  # a broker that has just started may not know yet
        finally:
            consumer.close()
        return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def has_read_all(self) -> bool:
        """Whether all that was sent has been processed and committed."""
        committed = self.committed()
        return all(committed.get(place) == count for place, count in self.sent.items())

    def changelogs(self) -> list[str]:
        """The changelogs that there are."""
        names = self.topics.admin.list_topics(timeout=60).topics
        return sorted(it for it in names if it.startswith(self.app) and it.endswith("-changelog"))

    @contextlib.contextmanager
    def runs(self, engine: str, *, killed: bool = False, **config: Any) -> Iterator[None]:
        """Run the application on an empty disk; afterwards nobody is in its group.

        Args:
            engine: ``ours`` or ``java``.
            killed: end it with SIGKILL instead of in order, if the block ends well.
            config: settings in snake case.
        """
        start = {"ours": self._ours, "java": self._java}[engine]
        application = start(self._settings(config))
        try:
            yield
            assert application.poll() is None, "the application has ended"
            if not killed:
                said, _ = application.communicate("stop\n", timeout=SLOW_S)
                assert "ERROR" not in said, said
                assert application.returncode == 0, said
        finally:
            if application.poll() is None:
                os.killpg(application.pid, signal.SIGKILL)
                print(application.communicate()[0])
        self.wait_alone()

    def _ours(self, settings: Mapping[str, Any]) -> subprocess.Popen[str]:
        own = {
            "default.key.serde": self.request["key"],
            "default.value.serde": self.request["value"],
            "auto.offset.reset": "earliest",
            **settings,
        }
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(self._file), json.dumps(own)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _java(self, settings: Mapping[str, Any]) -> subprocess.Popen[str]:
        given = {**settings, "session.timeout.ms": SESSION_MS}
        arguments = [f"{name}={it}" for name, it in given.items()]
        file = str(self._file)
        return JavaTool(ORACLE).start("Application", file, *arguments, start_new_session=True)

    def wait_alone(self) -> None:
        """Wait until the group has no members."""

        def is_empty() -> bool:
            future = self.topics.admin.describe_consumer_groups([self.app])[self.app]
            return not future.result(60).members

        wait_for(is_empty, what="the end of all membership", timeout_s=SLOW_S)

    def _settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        self._runs += 1
        return {
            "application.id": self.app,
            "bootstrap.servers": self.servers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "state.dir": str(self._directory / f"state-{self._runs}"),
            **self.request["config"],
            **{name.replace("_", "."): value for name, value in config.items()},
        }


def main(file: str, config: str) -> None:
    """Run the application here until there is a line, or the end, of standard input."""
    with KafkaStreams(building(json.loads(Path(file).read_text())), json.loads(config)) as streams:
        ended = threading.Thread(target=sys.stdin.readline, daemon=True)
        ended.start()
        while ended.is_alive() and not streams.wait(100):
            pass


def _hex(data: bytes | str | None) -> str | None:
    return data.hex() if isinstance(data, bytes) else None


if __name__ == "__main__":
    main(*sys.argv[1:])
