"""Words have colours on a terminal, and none where no person reads."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.commands.conftest import Plugin

pytestmark = pytest.mark.processes

GREEN = "\x1b[32m"
PROGRAM = Path(sys.executable).with_name("kubectl-headwater")


def on_a_terminal(*command: str, **variables: str) -> str:
    """What a program writes to a terminal that knows colours."""
    plain = {name: text for name, text in os.environ.items() if name not in UNTOLD}
    mine, its = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, *command],
        stdin=subprocess.DEVNULL,
        stdout=its,
        env={**plain, "TERM": "xterm-256color", "COLUMNS": "200", **variables},
    ) as process:
        os.close(its)
        said = b"".join(iter(lambda: read(mine), b""))
    os.close(mine)
    assert process.returncode == 0, said
    return said.decode()


UNTOLD = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""What else says whether there are colours."""


def read(terminal: int) -> bytes:
    """What a terminal shows next; nothing once all who write to it have ended."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def test_a_terminal_has_colours_unless_they_are_not_wanted(plugin: Plugin) -> None:
    words = ("tasks", "wc", "--kubeconfig", plugin.config)

    coloured = on_a_terminal(*words)
    plain = on_a_terminal(*words, NO_COLOR="1")

    assert f"{GREEN}● RUNNING" in coloured
    assert "● RUNNING" in plain
    assert GREEN not in plain


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_pipe_has_no_colours(plugin: Plugin, form: str) -> None:
    command = [PROGRAM, "tasks", "wc", "-o", form, "--kubeconfig", plugin.config]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "RUNNING" in done.stdout
    assert "\x1b" not in done.stdout
