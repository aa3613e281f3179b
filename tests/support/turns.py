"""Turns of the one task of an application, planned by a test and taken in its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import cloudpickle

from headwater.ids import TaskId, TopicPartition
from headwater.model.engine import EngineRecord
from headwater.native.application import ApplicationSettings
from headwater.spark.turns.hosting import Host
from headwater.spark.turns.messages import HostSettings, Turn, TurnDone, TurnNumber

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder
    from tests.support.thread_rig import Topics

TASK: Final = TaskId(0, 0)


class Rig:
    """One application whose turns are planned here."""

    def __init__(
        self,
        topics: Topics,
        app: str,
        directory: Path,
        build: Callable[[StreamsBuilder], None],
        **config: Any,
    ) -> None:
        self.topics, self.app = topics, app
        self.told = HostSettings(
            application=ApplicationSettings(
                config={
                    "application.id": app,
                    "bootstrap.servers": topics.bootstrap_servers,
                    "statestore.cache.max.bytes": 0,
                    "auto.offset.reset": "earliest",
                    **{name.replace("_", "."): value for name, value in config.items()},
                },
                topology=cloudpickle.dumps(build),
            ),
            record=EngineRecord(),
            state_dir=str(directory / "tasks"),
        )
        self.host = Host(self.told)

    def turn(self, number: int, *, query: int = 1, more: str = "", **ends: int) -> Turn:
        return Turn(
            number=TurnNumber(0, 0, query, number),
            task=TASK,
            slot=0,
            ends={self.partition(name): end for name, end in ends.items()},
            more=frozenset(self.partition(name) for name in more),
        )

    def partition(self, name: str) -> TopicPartition:
        return TopicPartition(f"{self.app}-{name}", 0)

    def take(self, number: int, **told: Any) -> TurnDone:
        return self.host.take(self.turn(number, **told))

    def committed(self, name: str) -> int:
        return self.topics.committed(self.app, f"{self.app}-{name}")[0]

    def out(self) -> list[str]:
        return [value.decode() for _, value in self.topics.read(f"{self.app}-out")]
