"""When a commit is due, and for how long records are processed for the next while one waits.

    begin ──► caches flushed, entries sent ──► the broker is waited for ──► stores written
      │                                        └─ processing for the next ─┘
      └────────────── commit.interval.ms ──────────────► due: processing ahead ends here

What a commit has to do grows with what was processed for it. So the interval counts from one
beginning to the next, and nothing is processed ahead once the next commit is due. Otherwise a
commit that takes long would make the next one longer still (docs/adr/0096).
"""

from __future__ import annotations

from typing import Final

AHEAD_S: Final = 0.050
"""At least so long records may be processed while a commit waits, however short the interval."""


class CommitInterval:
    """Counts the commit interval of one loop. All times are those of one clock, in seconds.

    Args:
        now: the time.
        interval_s: how long until the first commit.

    Attributes:
        due: when the next commit is to begin.
    """

    __slots__ = ("_ahead_until", "due")

    def __init__(self, now: float, interval_s: float) -> None:
        self.due = now + interval_s
        self._ahead_until = self.due

    def restart(self, now: float, interval_s: float) -> None:
        """Count from now: a commit begins, or the loop has new bounds."""
        self.due = now + interval_s

    def hasten(self, now: float) -> None:
        """Have the next commit begin as soon as it may."""
        self.due = now

    def wait(self, now: float) -> None:
        """The commit that has begun starts to wait for the broker."""
        self._ahead_until = max(self.due, now + AHEAD_S)

    def may_work_ahead(self, now: float) -> bool:
        """Whether records may still be processed while the commit waits."""
        return now < self._ahead_until
