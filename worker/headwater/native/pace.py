"""How many records of every task a round takes.

Java starts at 1, adds 1 while all goes well, and halves when a punctuation, a commit or the next
poll is due. A round here has a fixed cost of some microseconds, so the number moves by factors
instead: it doubles while a round that used it up stays well below ``ROUND_S`` and halves when one
takes longer. So commits, commands and punctuations are late by one round at most, whatever the
user's code costs.
"""

from __future__ import annotations

from typing import Final

ROUND_S: Final = 0.010
"""How long one round of all tasks should take."""
_START: Final = 128
_MAX: Final = 8_192


class Pace:
    """The number of records of every task in the next round (Kafka's ``numIterations``).

    Attributes:
        records: the number.
    """

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = _START

    def adapt(self, took_s: float, *, is_full: bool) -> None:
        """Learn from a round.

        Args:
            took_s: how long it took, in seconds.
            is_full: a task had as many records as it was to take, or more.
        """
        if took_s > ROUND_S:
            self.records = max(1, self.records // 2)
        elif is_full and took_s < ROUND_S / 2:
            self.records = min(_MAX, self.records * 2)
