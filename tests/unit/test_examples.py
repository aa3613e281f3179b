"""Every example is complete, and its own tests pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/test_app.py"))


def test_the_examples_are_found() -> None:
    folders = {path.parent for path in ROOT.glob("examples/*/streamapp.yaml")}

    assert set(EXAMPLES) == folders
    assert len(EXAMPLES) == 9


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_can_be_started_and_says_what_it_is(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    file = example / "streamapp.yaml"

    main(["describe", "-f", str(file)])

    assert "Sub-topology: 0" in capsys.readouterr().out
    relative = file.relative_to(ROOT).as_posix()
    assert f"headwater up -f {relative}" in file.read_text()
    readme = (example / "README.md").read_text()
    assert f"headwater up -f {relative}" in readme
    assert len(readme.splitlines()) < 30


def test_the_tests_of_the_examples_pass() -> None:
    paths = [str(example / "test_app.py") for example in EXAMPLES]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "headwater_pytest", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
