"""Where the time of a StreamThread goes."""

from __future__ import annotations

import time


class Ratios:
    """Where the time of the loop goes, in seconds since the last look."""

    __slots__ = ("_since", "commit", "poll", "process", "punctuate")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
        self.poll = self.process = self.punctuate = self.commit = 0.0
        self._since = time.perf_counter()

    def take(self) -> dict[str, float]:
        """Return each share of the time since the last look (Kafka's ``*-ratio`` metrics)."""
        elapsed = max(time.perf_counter() - self._since, 1e-9)
        names = ("poll", "process", "punctuate", "commit")
        shares = {name: round(getattr(self, name) / elapsed, 4) for name in names}
        self.reset()
        return shares
