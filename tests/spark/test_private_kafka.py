"""A backfill of a StreamApp that names no broker is one on the private Kafka of `headwater up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.cli.main import main
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
