"""``headwater spark`` without Spark: the driver's tasks run in its own process, one by one.

``python -m tests.support.driver spark …`` starts in a second. Take-over, turns, tasks, status and
signals are those of the real driver; what Spark does between planner and tasks is a loop.
"""

from __future__ import annotations

import pickle
import sys
import time
from typing import TYPE_CHECKING

from headwater.cli.main import main
from headwater.spark.turns import driver
from headwater.spark.turns.hosting import Host
from headwater.spark.turns.messages import HostSettings, TurnNumber
from headwater.spark.turns.planner import Planner, PlannerSettings
from headwater.spark.turns.status import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.engine import EngineRecord
    from headwater.model.partitions import PartitionPlan

_PAUSE_S = 0.1


class WithoutSpark(driver.Continuous):
    """A driver whose tasks are at hand."""

    def _run(
        self, plan: PartitionPlan, record: EngineRecord, on_session: Callable[[], None]
    ) -> None:
        on_session()
        settings = self._settings
        planner = Planner(
            PlannerSettings(
                config=settings.application.config,
                inputs=plan.inputs,
                routes=dict.fromkeys(plan.tasks, 0),
                slots=1,
                limit=settings.limit,
                idle_s=0.5,
                before=TurnNumber(record.generation, record.attempt, 1, 0),
            )
        )
        host = Host(
            HostSettings(
                application=settings.application,
                record=record,
                state_dir=str((settings.state_dir / "tasks").absolute()),
            )
        )
        self._status.move(State.RUNNING)
        number = 0
        while not self._stopping.wait(_PAUSE_S):
            number += 1
            began = time.monotonic()
            turns = [pickle.loads(data) for _, _, data in planner.next(number)]
            self._status.begun()
            if done := [host.take(turn) for turn in turns]:
                self._status.took(number, done, time.time(), time.monotonic() - began)
        self._status.move(State.STOPPING)


if __name__ == "__main__":
    driver.Continuous = WithoutSpark  # type: ignore[misc]  # the command looks it up when it runs
    sys.exit(main())
