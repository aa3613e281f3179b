"""Committed records of repartition topics are deleted: nobody else reads them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from headwater.native.opening import RunningTask
    from headwater.native.ports import Offsets, Purger

log = logging.getLogger(__name__)


class Purging:
    """Purges now and then, without waiting for the answer.

    Args:
        purger: asked to delete records.
        offsets: knows the repartition topics.
        interval_s: how often (``repartition.purge.interval.ms``).
        now: seconds, monotonic.
    """

    def __init__(self, purger: Purger, offsets: Offsets, *, interval_s: float, now: float) -> None:
        self._purger = purger
        self._offsets = offsets
        self._interval_s = interval_s
        self._due = now + interval_s
        self._asked: list[Future[object]] = []

    def purge_if_due(self, now: float, tasks: Iterable[RunningTask]) -> None:
        """Delete what the tasks have committed, if it is time."""
        if now < self._due or not all(future.done() for future in self._asked):
            return
        self._due = now + self._interval_s
        for future in self._asked:
            if future.exception() is not None:
                log.info(
                    "purge of repartition topics failed, to be repeated: %s", future.exception()
                )
        internal = self._offsets.repartition_topics
        offsets = {
            partition: offset
            for running in tasks
            for partition, offset in running.committed.items()
            if partition.topic in internal and offset > running.start[partition]
        }
        self._asked = list(self._purger.delete_records(offsets))
