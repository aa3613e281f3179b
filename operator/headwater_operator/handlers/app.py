"""What an operator process remembers between the rounds of one StreamApp."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.appstatus import AppStatus, ConditionType
from headwater.model.streamapp import Engine
from headwater_operator.decide import Memory
from headwater_operator.decide.autoscaling.owner import wanted_workers
from headwater_operator.decide.streamactions.objects import BACKFILLING
from headwater_operator.observe.driver_told import DriverTold
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from headwater_operator.act.upkeep import Upkeep
    from headwater_operator.decide import Decision
    from headwater_operator.handlers.problems import Told
    from headwater_operator.views import AppView


@dataclass(slots=True)
class App:
    """What one operator process remembers of one StreamApp; all of it can be lost.

    Attributes:
        upkeep: what was applied.
        memory: of the decision.
        view: what was read last.
        status: what was written or found last.
        is_dirty: something may have changed since.
        outranked_in: the generation of ours that is greater than every one that was there before.
        refused: what the API server refused in the last round.
        held_up: why actions of the last round could not be carried out.
        stuck: by worker, why its last start could not be carried out; starts are tried seldom.
        asked: what asking about containers that wait has told.
        failures: rounds in a row that ended with an error.
        waiting_since: by worker, since when its container has been waiting.
        asked_ms: when containers that wait were asked about.
        unsettled: why the assignment was not what it is to be at the last decision.
        waits_for: what the assignment waited for at the last decision, besides tasks that move.
        warnings: what was not as the StreamApp says at the last decision.
        held_back: which moves waited for a window at the last decision.
        importing: which workers imported their topology at the last decision.
        unsettled_since: since when not all tasks run; ``None`` while they do.
        going: since when pods have been stopping while the StreamApp is deleted, by uid.
        tidied: revisions that were kept when old ones were deleted last.
        driver: what Spark's driver has told of itself.
        rests_until_ms: until then nothing is decided unless something changes (``rest``).
        has_actions: there may be StreamActions to see to: they are read with every round.
    """

    upkeep: Upkeep
    memory: Memory = field(default_factory=Memory)
    view: AppView | None = None
    status: AppStatus = field(default_factory=AppStatus)
    is_dirty: bool = True
    outranked_in: int = 0
    refused: tuple[Problem, ...] = ()
    held_up: tuple[Problem, ...] = ()
    stuck: dict[str, Problem] = field(default_factory=dict)
    asked: tuple[Told, ...] = ()
    failures: int = 0
    waiting_since: dict[str, int] = field(default_factory=dict)
    asked_ms: int = 0
    read_ms: int = 0
    unsettled: str = ""
    waits_for: str = ""
    importing: str = ""
    held_back: str = ""
    warnings: tuple[str, ...] = ()
    unsettled_since: int | None = None
    going: dict[str, int] = field(default_factory=dict)
    tidied: set[str] = field(default_factory=set)
    driver: DriverTold = field(default_factory=DriverTold)
    rests_until_ms: int = 0
    has_actions: bool = True

    @property
    def obstacles(self) -> tuple[Problem, ...]:
        """What keeps actions from being carried out, each once; then what differs."""
        return tuple(dict.fromkeys((*self.held_up, *self.stuck.values(), *self.remarks)))

    @property
    def remarks(self) -> tuple[Problem, ...]:
        """What is not as the StreamApp says, although it runs."""
        topics = (Problem(reason="TopicDiffers", message=said) for said in self.warnings)
        return (*topics, *self.upkeep.ungrown)

    def heed(self, decision: Decision) -> None:
        """Remember what a decision says about how things stand."""
        self.unsettled = decision.unsettled
        self.waits_for = decision.waits_for
        self.importing = decision.importing
        self.held_back = decision.held_back
        self.warnings = decision.warnings

    def forget_stuck(self, view: AppView) -> None:
        """Forget those that have a pod by now, or are not wanted any more."""
        wanted = {each.worker.name for each in view.workers if not each.worker.spec.drain}
        self.stuck = {
            worker: problem
            for worker, problem in self.stuck.items()
            if worker in wanted and worker not in view.pods
        }

    @property
    def workers_not_ready(self) -> int:
        """How many workers there are to be that do not process all their tasks.

        A worker without a pod counts; none does while a backfill has stopped them.
        """
        app = self.view.app if self.view is not None else None
        if app is None or (ConditionType.READY, BACKFILLING) in {
            (each.type, each.reason) for each in self.status.conditions
        }:
            return 0
        # With Spark they are executors, and the master says how many there are to be.
        is_spark = app.spec.engine is Engine.SPARK
        wanted = self.status.replicas if is_spark else wanted_workers(app, self.status)
        return max(0, wanted - self.status.ready_replicas)
