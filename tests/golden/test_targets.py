"""What `headwater explain` says, kept word for word. ``python -m tests.golden.test_targets``."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from headwater.cli.main import main

DIRECTORY = Path(__file__).parent / "targets"
CASES = {
    "word_count.txt": ["examples.word_count.app:build"],
    "word_count.mmd": ["examples.word_count.app:build", "--format", "mermaid"],
    "payments.txt": ["tests.golden.payments:build"],
    "payments-all.txt": ["tests.golden.payments:build", "--outputs", "all"],
    "circle.txt": ["tests.golden.circle:build"],
    "circle.mmd": ["tests.golden.circle:build", "--format", "mermaid"],
}


def said(arguments: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["explain", *arguments]) == 0
    return out.getvalue()


@pytest.mark.parametrize("name", CASES)
def test_explain_says_what_is_recorded(name: str) -> None:
    assert said(CASES[name]) == (DIRECTORY / name).read_text()


STREAMAPP = """
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {name: counts}
spec:
  topology: {configMapRef: {name: code, key: app.py}}
  replicas: 1
  kafka: {bootstrapServers: "nowhere:9093", tls: {}}
  config: {default.key.serde: string, default.value.serde: string}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data:
  app.py: |
    def build(builder):
        builder.stream("lines").group_by_key().count(store="counts")
"""
FUNCTION = "examples.word_count.app:build"


def test_a_streamapp_says_which_topology_with_which_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(STREAMAPP)

    text = said(["-f", str(file)])

    assert "Sub-topology 0: T2, DataFrames" in text
    assert "[lines]" in text
    assert said(["-f", str(file), FUNCTION]) == (DIRECTORY / "word_count.txt").read_text()
    assert main(["describe", "-f", str(file)]) == 0
    assert main(["describe", "-f", str(file), "--format", "json"]) == 0
    described = capsys.readouterr().out
    assert "(topics: [lines])" in described
    assert '"counts-counts-changelog"' in described


@pytest.mark.parametrize("command", ["explain", "describe"])
def test_who_names_no_topology_hears_how(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    assert "give MODULE:FUNCTION, or -f FILE" in capsys.readouterr().err


def test_a_wrong_option_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "tests.golden.payments:build", "--config", "x"]) == 2
    assert "--config x: expected NAME=VALUE" in capsys.readouterr().err


if __name__ == "__main__":
    for name, arguments in CASES.items():
        (DIRECTORY / name).write_text(said(arguments))
