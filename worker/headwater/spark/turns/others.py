"""Somebody else who runs the application while Spark does: looked for now and then.

Spark's tasks are no members of the group, so whoever is one processes the same records. Whoever has
taken the application over stands in the engine record.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from headwater.errors import KafkaUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

LOOK_S: float = 30.0
ANSWER_S: float = 5.0
"""How long a look waits for a broker: the driver does nothing else meanwhile."""
RECORD_LOOK_S: float = 3.0
"""How often the engine record is looked at: a question or two to the broker unless it is new."""


class Others:
    """Looks at the group every 30 seconds, or at something else at other times.

    Args:
        look: raises if somebody is there.
        now_s: a clock that never goes back.
        every_s: how often, in seconds.
    """

    def __init__(
        self,
        look: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
        *,
        every_s: float = LOOK_S,
    ) -> None:
        self._look = look
        self._now_s = now_s
        self._every_s = every_s
        self._next_s = now_s() + every_s

    def check(self) -> None:
        """Look, if it is time. That no broker answers ends nothing: the next look may be answered.

        Raises:
            GroupInUseError: the group has members.
            HeadwaterError: what the look has found.
        """
        if self._now_s() < self._next_s:
            return
        try:
            self._look()
        except KafkaUnavailableError as error:
            log.info("nobody knows whether others run the application: %s", error)
        self._next_s = self._now_s() + self._every_s
