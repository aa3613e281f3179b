"""A download is seen: as a bar on a terminal, as a few lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

from headwater.local.progress import show_progress

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    import pytest

PROGRAM = """
from headwater.local.progress import show_progress
with show_progress("fetching kafka", total=8) as progress:
    for number in range(8):
        progress.received(1_000_000)
        progress.finished(f"{number}.jar")
"""


def test_without_a_terminal_each_quarter_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("fetching kafka", total=8) as progress:
        for number in range(8):
            progress.received(1_000_000)
            progress.finished(f"{number}.jar")

    assert capsys.readouterr().err.splitlines() == [
        "fetching kafka: 0 of 8, 0.0 MB fetched",
        "fetching kafka: 2 (1.jar) of 8, 2.0 MB fetched",
        "fetching kafka: 4 (3.jar) of 8, 4.0 MB fetched",
        "fetching kafka: 6 (5.jar) of 8, 6.0 MB fetched",
        "fetching kafka: 8 (7.jar) of 8, 8.0 MB fetched",
    ]


def pieces(screen: io.FileIO) -> Iterator[bytes]:
    """Everything that is written; at once there are 4 KB at most, and a slow bar writes more."""
    with contextlib.suppress(OSError):  # EIO: nobody has the terminal any more
        while piece := screen.read(4096):
            yield piece


def test_on_a_terminal_there_is_a_bar() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with (
        os.fdopen(ours, "rb", buffering=0) as screen,
        subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, env=environment) as p,
    ):
        os.close(theirs)
        shown = b"".join(pieces(screen)).decode()
        assert p.wait(60) == 0

    assert "fetching kafka" in shown
    assert "8/8" in shown
    assert "8.0 MB" in shown
