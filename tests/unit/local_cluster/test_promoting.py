"""What ``promote``, ``diff`` and ``lag`` refuse before they ask Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from headwater.cli import localapps
from headwater.cli.main import main
from headwater.errors import SpecError
from headwater.model.streamapp import parse
from headwater_operator.decide.observed import Intent
from headwater_operator.local import control
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.observe import read_record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "home"
    for name in ("counts", "counts-2"):
        app = {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": name},
            "spec": {"topology": {"module": "examples.word_count.app:build"}},
        }
        control.apply(ClusterDir(root), parse(app), import_path=[])
    return root


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("promote counts --over counts", 2, "counts is named twice"),
        ("promote counts-3 --over counts", 2, "there is no application 'counts-3'"),
        ("promote counts-2 --over count", 2, "there is no application 'count'"),
        ("promote counts-2 --over counts", 3, "nothing runs in"),
        ("diff counts counts", 2, "counts is named twice"),
        ("diff counts counts-3", 2, "there is no application 'counts-3'"),
        ("diff counts counts-2 -f missing.yaml", 2, "cannot read missing.yaml"),
        ("reset counts --namespace shop --dry-run", 2, "--dry-run asks Kafka"),
        ("lag counts-3", 2, "there is no application 'counts-3'"),
        ("reset counts --to-datetime yesterday --yes", 2, "'yesterday' says nothing"),
        ("reset counts --by-duration 1h --yes", 2, "'1h' is no duration"),
        ("reset counts --shift-by few --yes", 2, "the shift is no whole number"),
    ],
)
def test_a_command_that_cannot_be_carried_out_changes_nothing_and_says_why(
    home: Path, capsys: pytest.CaptureFixture[str], command: str, code: int, said: str
) -> None:
    found = main([*command.split(), "--home", str(home)])

    assert said in capsys.readouterr().err
    assert found == code
    record = read_record(ClusterDir(home).app("counts"))
    assert record is not None
    assert record.intent is Intent.RUN


def test_a_file_with_a_reset_plan_is_read(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("lines,0\n")
    options = ["reset", "counts", "--home", str(home), "--yes", "--from-file"]

    assert main([*options, str(file)]) == 2
    assert "line 1 of the reset plan is 'lines,0'" in capsys.readouterr().err
    assert main([*options, str(tmp_path / "none.csv")]) == 3
    assert "none.csv" in capsys.readouterr().err


def test_applications_of_a_cluster_are_taken_from_what_kubectl_prints(tmp_path: Path) -> None:
    app = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "totals", "namespace": "shop", "uid": "u", "generation": 3},
        "spec": {"topology": {"configMapRef": {"name": "source"}}},
        "status": {"state": "RUNNING"},
    }
    source = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}}
    source["data"] = {"topology.py": "def build(builder): ..."}
    file = tmp_path / "printed.yaml"
    printed = {"apiVersion": "v1", "kind": "List", "items": [app, source]}
    file.write_text(yaml.safe_dump(printed))

    found = localapps.of_files([file], ["totals"], [], "kafka:9092")

    assert found["totals"].app.spec.topology.inline == "def build(builder): ..."
    with pytest.raises(SpecError, match=r"no StreamApp 'totals-2' in .*there are: totals"):
        localapps.of_files([file], ["totals", "totals-2"], [], "kafka:9092")
    with pytest.raises(SpecError, match="names no broker: name one with --bootstrap"):
        localapps.of_files([file], ["totals"], [], None)
