"""What ``promote``, ``diff`` and ``lag`` refuse before they ask Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.cli.main import main
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
