"""``headwater diff`` of applications that do not run: windows of keys, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.creating import create_known

from headwater import DiffError, Serdes, Windowed
from headwater.cli.main import main
from headwater.config import StreamsConfig
from headwater.ids import TopicPartition
from headwater.kafka.access import Access
from headwater.model.streamapp import parse
from headwater.model.windows import Window
from headwater_operator.local import control
from headwater_operator.local.layout import ClusterDir

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

TOPOLOGY = """
from headwater import Serdes
def build(builder):
    text = Serdes.string
    stream = builder.stream("{name}-in", key_serde=text, value_serde=text)
    windows = Serdes.time_windowed(text, 1000)
    stream.to("{name}-{app}", key_serde={key}, value_serde=Serdes.long)
"""
WINDOWS = Serdes.time_windowed(Serdes.string, 1000)


class Two:
    """Two versions that read one record, and have written what the test says."""

    def __init__(self, home: Path, servers: str, name: str) -> None:
        self.home, self.servers, self.name = home, servers, name
        names = [f"{name}-in", f"{name}-old", f"{name}-new"]
        admin = AdminClient({"bootstrap.servers": servers})
        create_known(admin, *(NewTopic(topic, 1, 1) for topic in names))
        self.write("in", {b"k": 1})

    def apply(self, app: str, *, key: str = "windows", read: int = 1) -> None:
        group = f"{self.name}-{app}"
        spec = {
            "applicationId": group,
            "topology": {"inline": TOPOLOGY.format(name=self.name, app=app, key=key)},
            "kafka": {"bootstrapServers": self.servers},
        }
        resource = {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": app},
            "spec": spec,
        }
        control.apply(ClusterDir(self.home), parse(resource), import_path=[])
        config = StreamsConfig.parse({"application.id": group, "bootstrap.servers": self.servers})
        admin = Access.of(config, client_id=group).admin
        admin.alter_offsets(group, {TopicPartition(f"{self.name}-in", 0): read})

    def write(self, app: str, records: dict[bytes, int]) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for key, value in records.items():
            producer.produce(f"{self.name}-{app}", value.to_bytes(8, "big"), key)
        assert producer.flush(30) == 0

    def diff(self, *options: str) -> int:
        return main(["diff", "old", "new", "--home", str(self.home), *options])


@pytest.fixture
def two(tmp_path: Path, bootstrap_servers: str, unique_name: str) -> Two:
    return Two(tmp_path / "home", bootstrap_servers, unique_name)


def window(key: str, start_ms: int) -> bytes:
    found: bytes = WINDOWS.serializer("t")(Windowed(key, Window(start_ms, start_ms + 1000)))
    return found


def test_windows_of_a_key_are_keys_of_their_own(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    two.apply("old")
    two.apply("new")
    two.write("old", {window("ann", 0): 1, window("ann", 1000): 2})
    two.write("new", {window("ann", 1000): 2, window("ann", 0): 1})

    assert two.diff() == 0

    two.write("new", {window("ann", 2000): 3})
    capsys.readouterr()
    assert two.diff("-o", "json") == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["extra"]) == (2, 1)
    assert found["examples"][0]["key"] == ["ann", [2000, 3000]]


@pytest.mark.parametrize(
    ("new", "records", "said"),
    [
        pytest.param({"read": 0}, {b"k": 1}, "new still has 1 record to read", id="behind"),
        pytest.param({"key": "text"}, {b"k": 1}, "StringSerde", id="another serde"),
        pytest.param({}, {}, "-new is empty", id="an empty topic"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(
    two: Two,
    capsys: pytest.CaptureFixture[str],
    new: dict[str, object],
    records: dict[bytes, int],
    said: str,
) -> None:
    two.apply("old")
    two.apply("new", **new)  # type: ignore[arg-type]  # of the table above
    two.write("old", {window("ann", 0): 1})
    two.write("new", records)

    assert two.diff() == DiffError.exit_code

    assert said in capsys.readouterr().err
