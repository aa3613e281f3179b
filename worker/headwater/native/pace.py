"""Which tasks a round takes records of, and how many of each.

Java starts at 1 record of every task, adds 1 while all goes well, and halves when a punctuation, a
commit or the next poll is due. All tasks of a thread have the same number there, so one slow task
slows down the rest. A round here has a fixed cost of some microseconds, so the number moves by
factors instead, and each task has its own. It doubles while the task that used it up stays well
below its share of ``ROUND_S``, and shrinks to that share when the task takes longer. So commits,
commands and punctuations are late by one round at most, whatever the user's code costs.

A record may take longer than a share. The tasks of a thread have turns by the time that they have
processed (fair queueing): whoever is ahead by more than a share waits while others have records.
"""

from __future__ import annotations

import math
from typing import Final

ROUND_S: Final = 0.010
"""How long one round of all tasks should take."""
CREDIT_S: Final = 0.100
"""A task without records falls behind the others at most so far, in seconds of processing."""
LEAD_S: Final = 1.000
"""A task gets ahead of the others at most so far, in seconds of processing."""
_START: Final = 1
_MAX: Final = 8_192


class Pace:
    """What one task takes of the rounds (Kafka's ``numIterations``, for each task).

    Attributes:
        records: how many records it takes in a round.
        busy_s: how long its records have been processed since it was opened, in seconds.
        turn_s: the processing time that counts for its turn: who has the least comes first.
    """

    __slots__ = ("busy_s", "records", "turn_s")

    def __init__(self) -> None:
        self.records = _START
        self.busy_s = 0.0
        self.turn_s = 0.0

    def adapt(self, took_s: float, share_s: float, *, is_full: bool) -> None:
        """Learn from a round.

        Args:
            took_s: how long the task took, in seconds.
            share_s: how long it should have taken at most.
            is_full: it had as many records as it was to take, or more.
        """
        self.busy_s += took_s
        self.turn_s += took_s
        if took_s > share_s:
            self.records = max(1, int(self.records * share_s / took_s))
        elif is_full and took_s < share_s / 2:
            self.records = min(_MAX, self.records * 2)


class Round:
    """One round of the tasks of a thread, in the order of their turns.

    Args:
        share_s: how long a task should take at most, in seconds.
    """

    __slots__ = ("_first_s", "has_idle", "is_full", "ran_out", "records", "share_s", "workers")

    def __init__(self, share_s: float = ROUND_S) -> None:
        self.share_s = share_s
        self.records = 0
        """How many records were taken."""
        self.workers = 0
        """How many tasks had a record."""
        self.is_full = False
        """A task has more records than it was to take, or waits for its turn."""
        self.ran_out = False
        """A task took the last of its records."""
        self.has_idle = False
        """A task had no record. One that waits for more of a partition is no part of a round."""
        self._first_s = math.inf

    def leaves_out(self, pace: Pace) -> bool:
        """Whether a task, and all after it, is to wait for those that had records before it."""
        if pace.turn_s < self._first_s + self.share_s:
            return False
        self.is_full = True
        return True

    def add(self, pace: Pace, took_s: float, taken: int, wanted: int) -> None:
        """Count what a task did."""
        is_full = taken >= wanted
        self.records += taken
        if taken:
            self.workers += 1
            self._first_s = min(self._first_s, pace.turn_s)
        else:
            self.has_idle = True
        if is_full:
            self.is_full = True
        elif taken:
            self.ran_out = True
        pace.adapt(took_s, self.share_s, is_full=is_full)

    def next(self, paces: list[Pace]) -> Round:
        """Return the next round: nobody is far behind, or far ahead, of those that work."""
        if self.workers:
            least, most = self._first_s - CREDIT_S, self._first_s + LEAD_S
            for pace in paces:
                pace.turn_s = min(max(pace.turn_s, least), most)
        return Round(ROUND_S / max(1, self.workers))
