"""A backfill of a StreamApp that names no broker is one on the private Kafka of `headwater up`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from headwater.cli import spark, streamapps
from headwater.cli.main import build_parser, main
from headwater.cli.streamapps import private_kafka
from headwater.errors import BackfillError, MissingTopicError
from headwater.local.broker import KafkaBroker, read_state
from tests.support.thread_rig import Topics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FILE = """
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {name: counts}
spec:
  topology: {configMapRef: {name: code, key: app.py}}
  replicas: 1
  kafka: {tls: {}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data:
  app.py: |
    def build(builder):
        builder.stream("lines").group_by_key().count(store="counts")
"""


@pytest.mark.sampled
def test_it_is_used_if_it_runs_and_started_if_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(FILE)
    home = tmp_path / "home"
    command = ["backfill", "-f", str(file), "--home", str(home), "--dry-run"]
    with KafkaBroker(home / "kafka") as broker:
        topics = Topics(broker.bootstrap_servers)
        topics.create("lines")
        topics.send("lines", [("k", "v")] * 3)

        assert main(command) == 0

        said = capsys.readouterr()
        assert "lines-0: offsets 0 to 3" in said.out
        assert "starting" not in said.err
        assert broker.is_running()

    assert main(command) == 0

    said = capsys.readouterr()
    assert "lines-0: offsets 0 to 3" in said.out
    assert f"starting the private Kafka of {home}" in said.err
    assert read_state(home / "kafka") is None


def test_in_a_fresh_directory_the_listed_topics_are_made_as_by_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = "kafka: {topics: [{name: lines, partitions: 3, config: {retention.bytes: 5000}}]}"
    file = tmp_path / "streamapp.yaml"
    file.write_text(FILE.replace("kafka: {tls: {}}", listed))
    home = tmp_path / "home"
    told = ["-f", str(file), "--home", str(home)]
    # One broker for all that follows.
    with private_kafka(home) as address:
        topics = Topics(address)

        assert main(["backfill", *told, "--dry-run"]) == MissingTopicError.exit_code
        assert "creates the topics that spec.kafka.topics lists" in capsys.readouterr().err
        assert "lines" not in topics.admin.list_topics(timeout=30).topics

        arguments = build_parser().parse_args(["spark", *told, "--state-dir", str(tmp_path / "s")])
        with ExitStack() as stack:
            spark._settings(arguments, streamapps.read(file, None, None), stack)
        assert len(topics.admin.list_topics("lines", timeout=30).topics["lines"].partitions) == 3

        topics.send("lines", [("k", "v")] * 3)
        assert main(["backfill", *told, "--dry-run"]) == 0
        earlier = main(["backfill", *told, "--dry-run", "--to", "1971-01-01T00:00:00Z"])
        assert earlier == BackfillError.exit_code
        assert "no record of counts lies within --from beginning --to 1971" in (
            capsys.readouterr().err
        )
