"""When others are given up: a silent broker by a worker, a silent worker by the control loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.config import StreamsConfig
from headwater.errors import ConfigError, KafkaUnavailableError
from headwater.ids import TaskId
from headwater.model.metrics import Snapshot
from headwater.native.messages import Failed, Initialized, Restored, Stats, TaskRunning
from headwater.service.decide.observations import ThreadEnded, ThreadSaid, UpdaterSaid
from headwater.service.decide.observe import observe
from headwater.service.decide.values import Slot, SlotPhase, Table, Updater
from headwater.service.settings import lease_duration_ms

if TYPE_CHECKING:
    from headwater.native.messages import FromThread

T0 = TaskId(0, 0)
SILENCE = Failed(error="KafkaUnavailableError", message="no broker at nowhere:9092 answers")
START_MS = 1_000_000


class Silent:
    """A worker of one StreamThread whose brokers do not answer; its patience is a minute."""

    def __init__(self, phase: SlotPhase) -> None:
        self.table = Table(
            worker="w",
            incarnation="i",
            exactly_once=True,
            hung_ms=300_000,
            cores=1,
            patience_ms=60_000,
        )
        self.table.slots[0] = Slot(number=0, phase=phase, alive=True, began_ms=START_MS)
        self.table.updaters[0] = Updater(number=0, alive=True)

    def said(self, after_ms: int, message: FromThread) -> None:
        observe(self.table, ThreadSaid(slot=0, message=message), START_MS + after_ms)

    def fails(self, after_ms: int) -> bool:
        """One process more has waited in vain; return whether the worker gives up."""
        self.said(after_ms, SILENCE)
        observe(self.table, ThreadEnded(slot=0, exit_code=3), START_MS + after_ms)
        self.table.slots[0].began_ms = START_MS + after_ms
        self.table.slots[0].phase = SlotPhase.STARTING
        return self.table.error is not None


def stats(problem: str) -> Stats:
    return Stats(numbers=Snapshot(), committed={T0: {}}, problem=problem)


def test_a_broker_that_never_answers_is_given_up_after_the_time_out_from_the_first_start() -> None:
    worker = Silent(SlotPhase.STARTING)

    given_up = [worker.fails(after_ms) for after_ms in (20_000, 41_000, 61_000)]

    assert given_up == [False, False, True]
    assert worker.table.error is not None
    assert worker.table.error.message == SILENCE.message
    assert worker.table.exit_code == KafkaUnavailableError.exit_code


def test_a_broker_lost_in_mid_run_is_given_up_when_the_thread_has_waited_for_it() -> None:
    worker = Silent(SlotPhase.RUNNING)
    worker.said(500_000, stats(problem=""))
    worker.said(502_000, stats(problem="no broker has answered for 2 s"))

    assert worker.fails(560_000)


@pytest.mark.parametrize(
    "answer",
    [Initialized(), TaskRunning(task=T0), stats(problem="")],
    ids=["an id", "a task", "a report"],
)
def test_any_answer_starts_the_count_again(answer: FromThread) -> None:
    worker = Silent(SlotPhase.STARTING)
    worker.fails(40_000)

    worker.said(50_000, answer)

    assert not worker.fails(80_000)
    assert worker.fails(140_000)


def test_a_state_updater_that_cannot_restore_for_want_of_a_broker_counts_as_well() -> None:
    worker = Silent(SlotPhase.RUNNING)

    for after_ms in (0, 30_000, 60_000):
        assert worker.table.error is None
        observe(worker.table, UpdaterSaid(updater=0, message=SILENCE), START_MS + after_ms)
    assert worker.table.error is not None

    restored = Silent(SlotPhase.RUNNING)
    observe(restored.table, UpdaterSaid(updater=0, message=SILENCE), START_MS)
    observe(restored.table, UpdaterSaid(updater=0, message=Restored(task=T0, records=1)), START_MS)
    observe(restored.table, UpdaterSaid(updater=0, message=SILENCE), START_MS + 60_000)
    assert restored.table.error is None


@pytest.mark.parametrize("given", ["soon", 2_999, "-1", ""])
def test_a_session_timeout_too_short_for_a_late_renewal_is_refused(given: object) -> None:
    config = StreamsConfig.parse({"application.id": "a", "consumer.session.timeout.ms": given})

    with pytest.raises(ConfigError, match=r"session\.timeout\.ms: .* at least 3000"):
        lease_duration_ms(config)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 30_000), ({"session.timeout.ms": 45_000}, 45_000)],
    ids=["by default", "as in Kafka"],
)
def test_a_worker_is_taken_for_dead_after_the_session_timeout(
    options: dict[str, object], expected: int
) -> None:
    assert lease_duration_ms(StreamsConfig.parse({"application.id": "a", **options})) == expected
