"""The view of running applications: live on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headwater_operator.local.collect import Collector
from headwater_operator.local.lines import Narrator
from headwater_operator.local.render import render
from headwater_operator.overview.events import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from headwater_operator.local.layout import ClusterDir
    from headwater_operator.overview.snapshot import Snapshot

_LIVE_PAUSE_S: Final = 0.5
_PLAIN_PAUSE_S: Final = 1.0


class View:
    """Shows applications until it is left; a context manager.

    Args:
        cluster: where they run.
        apps: their names.
        plain: lines even on a terminal.
        since_ms: events before this wall-clock time are not shown.
    """

    def __init__(
        self, cluster: ClusterDir, apps: Sequence[str], *, plain: bool = False, since_ms: int = 0
    ) -> None:
        self._collectors = [Collector(cluster, app, since_ms=since_ms) for app in apps]
        self._console = Console()
        is_live = self._console.is_terminal and not plain
        self._live = (
            Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
            if is_live
            else None
        )
        self._narrators = [Narrator() for _ in apps]
        self.footer = ""
        """What to press, in the last line."""
        self.page = ""
        """Where a browser shows the same; it stands before the footer."""
        self.pause_s = _LIVE_PAUSE_S if is_live else _PLAIN_PAUSE_S
        """How long to wait between two refreshes."""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
        for collector in self._collectors:
            collector.close()

    def refresh(self) -> list[Snapshot]:
        """Look at everything, show it, and return what was seen.

        Raises:
            OSError: whoever looked on is gone: the terminal was closed, or the pipe's reader ended.
        """
        snapshots = [collector.collect() for collector in self._collectors]
        if self._live is None:
            for narrator, snapshot in zip(self._narrators, snapshots, strict=True):
                for line in narrator.tell(snapshot):
                    sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            return snapshots
        size = self._console.size
        height = (size.height - 1) // len(snapshots)
        footer = " · ".join(filter(None, (self.page, self.footer)))
        parts = [
            render(
                snapshot,
                height=height,
                width=size.width,
                footer=footer if snapshot is snapshots[-1] else "",
            )
            for snapshot in snapshots
        ]
        self._live.update(Group(*parts), refresh=True)
        return snapshots

    def note(self, text: str) -> None:
        """Show an event of our own among the others."""
        event = Event(at_ms=int(time.time() * 1000), kind=EventKind.NOTE, text=text)
        self._collectors[0].note(event)

    def say(self, text: str) -> None:
        """Put a line above the view."""
        if self._live is None:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        else:
            self._console.print(Text(text))
