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


def test_a_wrong_option_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "tests.golden.payments:build", "--config", "x"]) == 2
    assert "--config x: expected NAME=VALUE" in capsys.readouterr().err


if __name__ == "__main__":
    for name, arguments in CASES.items():
        (DIRECTORY / name).write_text(said(arguments))
