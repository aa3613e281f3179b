"""How a download shows itself: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Progress(Protocol):
    """Counts fetched things."""

    def received(self, byte_count: int) -> None:
        """Note that bytes arrived."""

    def finished(self, _name: str, /) -> None:
        """Note that one thing is complete."""


@contextmanager
def show_progress(title: str, *, total: int) -> Iterator[Progress]:
    """Show the fetching of ``total`` things on standard error, as fits what standard error is."""
    if sys.stderr.isatty():
        with _bar(title, total) as progress:
            yield progress
    else:
        yield _Lines(title, total)


class _Lines:
    """One line at the start, one per quarter."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._bytes = 0
        self._count = 0
        self._say("0")

    def received(self, byte_count: int) -> None:
        self._bytes += byte_count

    def finished(self, name: str) -> None:
        quarter_before = self._count * 4 // self._total
        self._count += 1
        if self._count * 4 // self._total > quarter_before:
            self._say(f"{self._count} ({name})")

    def _say(self, count: str) -> None:
        sys.stderr.write(
            f"{self._title}: {count} of {self._total}, {self._bytes / 1e6:.1f} MB fetched\n"
        )
        sys.stderr.flush()


class _Bar:
    """Adapter onto a rich progress bar."""

    def __init__(self, title: str, total: int) -> None:
        # Of the extra `local`, and needed only when something is fetched.
        from rich import console, progress  # noqa: PLC0415

        self.rich = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[megabytes]:.1f} MB"),
            progress.TimeElapsedColumn(),
            console=console.Console(stderr=True),
        )
        self._task = self.rich.add_task(title, total=total, megabytes=0.0)
        self._bytes = 0

    def received(self, byte_count: int) -> None:
        self._bytes += byte_count
        self.rich.update(self._task, megabytes=self._bytes / 1e6)

    def finished(self, _name: str) -> None:
        self.rich.advance(self._task)


@contextmanager
def _bar(title: str, total: int) -> Iterator[Progress]:
    bar = _Bar(title, total)
    with bar.rich:
        yield bar
