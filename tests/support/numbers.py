"""Workers that can be asked for their numbers, played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model import metrics
from headwater.model.cluster import LAG_UNKNOWN
from headwater.model.metrics import Snapshot
from headwater_operator.observe.driver import DriverAnswer
from headwater_operator.observe.numbers import WorkerAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.ids import TaskId


def answer_about(lags: Mapping[TaskId, int], incarnation: str) -> WorkerAnswer:
    """What a worker answers that follows these tasks and nothing else."""
    known = {task: lag for task, lag in lags.items() if lag != LAG_UNKNOWN}
    parts = (
        Snapshot.of({metrics.STANDBY_RECORDS_LAG: lag}, str(task)) for task, lag in known.items()
    )
    return WorkerAnswer(
        incarnation=incarnation, numbers=Snapshot.merged(parts), copies=frozenset(lags)
    )


@dataclass
class FakeNumbers:
    """Workers that answer as they are told to.

    Attributes:
        answers: by worker; one that is not here does not answer.
        asked: who was asked, in this order.
        drivers: answers of Spark's drivers, by endpoint.
        refused: why nobody may be asked.
    """

    answers: dict[str, WorkerAnswer] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    drivers: dict[str, DriverAnswer] = field(default_factory=dict)
    refused: str = ""

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        """Ask workers."""
        self.asked.append(dict(endpoints))
        return {name: self.answers[name] for name in endpoints if name in self.answers}

    def close(self) -> None:
        """Ask nobody any more."""

    def ask_driver(self, endpoint: str) -> DriverAnswer:
        """Ask a driver of Spark."""
        return self.drivers.get(endpoint, DriverAnswer())
