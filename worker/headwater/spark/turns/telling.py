"""What ``headwater spark`` shows while it runs: a line in place on a terminal, else at times."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LINE_EVERY_S: Final = 10.0
_LOOK_S: Final = 1.0
_COLUMNS: Final = 80


def line_of(name: str, document: Mapping[str, Any], lag: int | None) -> str:
    """Return what is shown of the driver. Pure.

    Args:
        name: of the StreamApp.
        document: as ``/status`` tells it.
        lag: records that are to be read still; ``None``, nobody knows, leaves it out.
    """
    error = document["error"]
    parts = [f"{name} {_state(document)}"]
    if document["batches"]:
        parts += [
            f"{document['batches']:,} micro-batches",
            f"{document['inputRowsPerSecond']:,.0f} records/s",
        ]
    # Before the first micro-batch it means nothing: nobody may be there to read what is left.
    if lag is not None and document["batches"]:
        parts.append(f"lag {lag:,}")
    if error:
        parts.append(str(error).splitlines()[0])
    return " | ".join(parts)


def _state(document: Mapping[str, Any]) -> str:
    """Return the state for people, who take RUNNING for: records are processed."""
    if document["batches"] or document["state"] not in {"STARTING", "RUNNING"}:
        return str(document["state"])
    return ": ".join(filter(None, ("STARTING", str(document.get("doing") or ""))))


class LiveLine:
    """Shows the driver in a thread of its own, until it is closed.

    Args:
        name: of the StreamApp.
        document: tells what ``/status`` would.
        lag: counts records that are to be read still, from offsets by partition; it may fail.
        to: what is written to; standard error if not given.
    """

    def __init__(
        self,
        name: str,
        document: Callable[[], Mapping[str, Any]],
        lag: Callable[[], int | None],
        to: TextIO | None = None,
    ) -> None:
        self._name = name
        self._document = document
        self._lag = lag
        self._to = to or sys.stderr
        self._is_terminal = self._to.isatty()
        self._ended = threading.Event()
        self._shown = ""
        self._shown_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="live line", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Show it for the last time."""
        self._ended.set()
        self._thread.join(_LINE_EVERY_S)
        with suppress(OSError, ValueError):
            self._show(line_of(self._name, self._document(), None))
            if self._is_terminal:
                self._to.write("\n")
            self._to.flush()

    def _run(self) -> None:
        # Whoever has closed the terminal does not want to see it any more.
        with suppress(OSError, ValueError):
            while not self._ended.wait(_LOOK_S):
                document = self._document()
                if self._is_terminal or self._is_due(document):
                    self._show(line_of(self._name, document, self._known_lag()))

    def _is_due(self, document: Mapping[str, Any]) -> bool:
        state = f"{self._name} {_state(document)}"
        is_news = not self._shown.startswith(state)
        return is_news or time.monotonic() - self._shown_at >= _LINE_EVERY_S

    def _known_lag(self) -> int | None:
        try:
            return self._lag()
        except HeadwaterError:
            return None

    def _show(self, line: str) -> None:
        if self._is_terminal:
            columns = os.get_terminal_size(self._to.fileno()).columns or _COLUMNS
            self._to.write(f"\r{line[: columns - 1]}\033[K")
        elif line != self._shown:
            self._to.write(f"{line}\n")
        self._to.flush()
        self._shown, self._shown_at = line, time.monotonic()
