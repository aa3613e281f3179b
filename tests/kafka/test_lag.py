"""``headwater lag``, ``groups`` and ``reset --dry-run``: what they say of a real broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.creating import create_known

from headwater.cli.main import main
from headwater.config import StreamsConfig
from headwater.errors import ResetError
from headwater.ids import TopicPartition
from headwater.kafka.access import Access
from headwater.model.streamapp import parse
from headwater_operator.local import control
from headwater_operator.local.layout import ClusterDir

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

OLD_MS = 1_700_000_000_000
TOPOLOGY = """
from headwater import Serdes
def build(builder):
    text = Serdes.string()
    builder.stream("{topic}", key_serde=text, value_serde=text).group_by_key().count()
"""


@pytest.fixture
def home(tmp_path: Path, bootstrap_servers: str, unique_name: str) -> Path:
    """An application that has read a part of its input, and does not run."""
    topic = f"{unique_name}-in"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    create_known(admin, NewTopic(topic, 2, 1))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(10):
        at_ms = OLD_MS + number
        producer.produce(topic, b"v", b"k", partition=0, timestamp=at_ms)
    assert producer.flush(30) == 0
    config = StreamsConfig.parse(
        {"application.id": unique_name, "bootstrap.servers": bootstrap_servers}
    )
    admin_of = Access.of(config, client_id=unique_name).admin
    admin_of.alter_offsets(unique_name, {TopicPartition(topic, 0): (4, "AgAAAYvP4ngB")})
    app = parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "counts"},
            "spec": {
                "applicationId": unique_name,
                "topology": {"inline": TOPOLOGY.format(topic=topic)},
                "kafka": {"bootstrapServers": bootstrap_servers},
            },
        }
    )
    root = tmp_path / "home"
    control.apply(ClusterDir(root), app, import_path=[])
    return root


def test_lag_shows_each_partition_with_its_task_and_the_age_of_what_waits(
    home: Path, unique_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lag", "counts", "--home", str(home)]) == 0
    text = capsys.readouterr().out
    assert main(["lag", "--home", str(home), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)

    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["group", unique_name]
    assert lines[2][:6] == ["0_0", f"{unique_name}-in", "0", "4", "10", "6"]
    assert lines[2][-2:] == ["d", "ago"]
    assert lines[3] == ["0_1", f"{unique_name}-in", "1", "-", "0", "0"]
    assert lines[4] == ["TOTAL", "6"]
    assert found["lag"] == 6
    assert [one["oldestUnreadMs"] for one in found["partitions"]] == [OLD_MS + 4, None]
    assert main(["lag", "--home", str(home), "-o", "yaml", "--max", "6"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == [found]
    assert main(["lag", "--home", str(home), "--max", "5"]) == 1


def test_a_group_that_is_not_ours_is_shown_by_its_committed_offsets(
    home: Path,
    tmp_path: Path,
    bootstrap_servers: str,
    unique_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elsewhere = [f"--home={tmp_path / 'none'}", "--bootstrap", bootstrap_servers]

    assert main(["lag", unique_name, *elsewhere]) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:6] for line in lines[2:-1]] == [["-", f"{unique_name}-in", "0", "4", "10", "6"]]
    assert main(["groups", *elsewhere, "-o", "json"]) == 0
    listed = {one["group"]: one for one in json.loads(capsys.readouterr().out)}
    assert listed[unique_name]["state"] == "Empty"
    assert listed[unique_name]["engine"] is None


def test_groups_shows_state_and_engine_of_the_applications(
    home: Path, unique_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", "--home", str(home)]) == 0

    (_, row) = capsys.readouterr().out.splitlines()
    assert row.split() == [unique_name, "counts", "Native", "Empty", "-"]


def test_a_dry_run_prints_the_plan_and_changes_nothing(
    home: Path, unique_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = f"{unique_name}-in"
    options = ["counts", "--home", str(home), "--dry-run"]

    assert main(["reset", *options, "--to-offset", "7"]) == 0

    assert [line.split()[:4] for line in capfd.readouterr().out.splitlines()[1:]] == [
        [topic, "0", "4", "7"],
        [topic, "1", "-", "0"],
    ]
    assert main(["reset", *options, "--shift-by", "-1"]) == ResetError.exit_code
    assert f"nothing is committed for {topic}-1" in capfd.readouterr().err
    assert main(["lag", "counts", "--home", str(home), "-o", "json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)
    assert [one["committed"] for one in found["partitions"]] == [4, None]
