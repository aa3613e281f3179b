"""The names by which the parts know each other: tasks, partitions, workers, slots.

Imports nothing of ours.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TASK_ID = re.compile(r"^(\d+)_(\d+)$")


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TaskId(NamedTuple):
    """A sub-topology and a partition.

    Written ``0_3`` as Kafka Streams does (also the directory's name).
    """

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read ``"0_3"``.

        Raises:
            ValueError: the text is not two numbers joined by an underscore.
        """
        match = _TASK_ID.match(text)
        if match is None:
            raise ValueError(f"not a task id: {text!r} (expected <sub-topology>_<partition>)")
        return cls(int(match.group(1)), int(match.group(2)))


class SlotId(NamedTuple):
    """The place of one StreamThread on one worker.

    The n-th process of a slot is its n-th incarnation.
    """

    worker: str
    slot: int

    def __str__(self) -> str:
        return f"{self.worker}-{self.slot}"

    @property
    def thread_id(self) -> str:
        """The label ``thread_id`` of its metrics: ``<worker>-StreamThread-<slot>``."""
        return f"{self.worker}-StreamThread-{self.slot}"

    def transactional_id(self, application_id: str) -> str:
        """The transactional id that fences this slot: ``<application id>-<worker>-<slot>``."""
        return f"{application_id}-{self.worker}-{self.slot}"


def global_thread_id(worker: str) -> str:
    """Return the label ``thread_id`` of a worker's GlobalStreamThread."""
    return f"{worker}-GlobalStreamThread"
