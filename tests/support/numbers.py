"""Workers that can be asked for their numbers, played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater_operator.observe.driver import DriverAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater_operator.observe.numbers import WorkerNumbers


@dataclass
class FakeNumbers:
    """Workers that answer as they are told to.

    Attributes:
        answers: by worker; one that is not here does not answer.
        asked: who was asked, in this order.
        drivers: answers of Spark's drivers, by endpoint.
    """

    answers: dict[str, WorkerNumbers] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    drivers: dict[str, DriverAnswer] = field(default_factory=dict)

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerNumbers]:
        """Ask workers."""
        self.asked.append(dict(endpoints))
        return {name: self.answers[name] for name in endpoints if name in self.answers}

    def ask_driver(self, endpoint: str) -> DriverAnswer:
        """Ask a driver of Spark."""
        return self.drivers.get(endpoint, DriverAnswer())
