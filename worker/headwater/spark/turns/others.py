"""Somebody else in the consumer group while Spark runs the application: looked for now and then.

Spark's tasks are no members of the group, so whoever is one processes the same records.
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


class Others:
    """Looks at the group every 30 seconds.

    Args:
        look: raises if somebody is there.
        now_s: a clock that never goes back.
    """

    def __init__(
        self, look: Callable[[], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._now_s = now_s
        self._next_s = now_s() + LOOK_S

    def check(self) -> None:
        """Look, if it is time. That no broker answers ends nothing: the next look may be answered.

        Raises:
            GroupInUseError: the group has members.
        """
        if self._now_s() < self._next_s:
            return
        try:
            self._look()
        except KafkaUnavailableError as error:
            log.info("nobody knows whether others are in the group: %s", error)
        self._next_s = self._now_s() + LOOK_S
