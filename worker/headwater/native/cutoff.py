"""Has the client given up the broker for good? It never says, and a quiet topic looks the same.

After a restart of the broker a consumer of librdkafka 2.16 was seen to fetch nothing any more,
through the next restart even, while new clients were served (docs/adr/0019). So another client is
asked now and then where the partitions end: a consumer that stays in front of records which have
been there for the whole time is of no use, and only a new process has a new one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headwater.errors import KafkaUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from headwater.ids import TopicPartition
    from headwater.kafka.admin import Admin
    from headwater.kafka.consumer import PartitionConsumer

PATIENCE_S: Final = 20.0
"""For so long a consumer may stand still in front of records that it could have."""
_AWAKE_AT_MOST_S: Final = 1.0
"""What one look counts: a process that was frozen, or busy, has not been waiting for records."""


class CutOffWatch:
    """Compares what a consumer has reached with where the partitions ended some time before.

    Args:
        consumer: looked at.
        admin: asked for the ends; a client of its own.
        committed_only: whether the consumer reads committed records only, so that an open
            transaction keeps it waiting.
        patience_s: how long it may stand still.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        consumer: PartitionConsumer,
        admin: Admin,
        *,
        committed_only: bool,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._admin = admin
        self._committed_only = committed_only
        self._patience_s = patience_s
        self._clock = clock
        self._looked_at = clock()
        self._waited_s = 0.0
        self._reached: dict[TopicPartition, int | None] | None = None
        self._ends: Callable[[], Mapping[TopicPartition, int] | None] | None = None

    def check(self, reading: Callable[[], Collection[TopicPartition]]) -> None:
        """Look again if it is time; ask for the ends if it is time. Never waits.

        Args:
            reading: tells the partitions being read, without those that are paused.

        Raises:
            KafkaUnavailableError: the consumer has stood still although there was something.
        """
        now = self._clock()
        self._waited_s += min(now - self._looked_at, _AWAKE_AT_MOST_S)
        self._looked_at = now
        if self._waited_s < self._patience_s:
            return
        ends = {} if self._ends is None else self._ends()
        if ends is None:
            return  # no answer yet, and no failure
        wanted = reading()
        position = self._consumer.position
        reached = self._reached or {}
        stuck = [
            partition
            for partition in wanted
            if partition in reached
            and partition in ends
            and position(partition) == reached[partition]
            and (reached[partition] or 0) < ends[partition]
        ]
        if stuck:
            raise KafkaUnavailableError(
                f"nothing of {stuck[0]} has come for {self._patience_s:.0f} s although it goes on "
                f"to offset {ends[stuck[0]]}: the client has lost its brokers; a new process goes "
                "on from what is committed"
            )
        self._waited_s = 0.0
        self._reached = {partition: position(partition) for partition in wanted}
        self._ends = (
            self._admin.ends_later(wanted, committed_only=self._committed_only) if wanted else None
        )
