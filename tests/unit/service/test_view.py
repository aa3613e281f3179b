"""Counters of children become rates and totals."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from headwater.ids import TaskId
from headwater.measuring.sensors import ThreadSensors
from headwater.measuring.windows import Windows
from headwater.metrics_settings import MetricsSettings, RecordingLevel
from headwater.model import metrics
from headwater.model.cluster import Role, WorkerSpec
from headwater.model.metrics import Snapshot
from headwater.model.metrics.kafka import GLOBAL_TASK
from headwater.native.messages import (
    Following,
    GlobalProgress,
    Restored,
    RestoreProgress,
    Stats,
    UpdaterStats,
)
from headwater.service.decide.global_thread import GlobalThread
from headwater.service.decide.observations import (
    GlobalThreadEnded,
    GlobalThreadSaid,
    ThreadEnded,
    ThreadSaid,
    UpdaterEnded,
    UpdaterSaid,
)
from headwater.service.decide.values import Copy, CopyPhase, Slot, SlotPhase, Table, Task, TaskPhase
from headwater.service.http import document
from headwater.service.metrics import WorkerCollector
from headwater.service.view import Numbers
from headwater.state.directory import Room

if TYPE_CHECKING:
    from headwater.service.view import WorkerView

T0 = TaskId(0, 0)
THREAD = "w-0-StreamThread-0"


class NoProcesses:
    """Stands for the children where no process id is asked for."""

    global_thread = SimpleNamespace(pid=17)

    def pid_of_thread(self, slot: int) -> int | None:
        return None

    def pid_of_updater(self, number: int) -> int | None:
        return None


@pytest.fixture
def table() -> Table:
    made = Table(
        worker="w-0",
        incarnation="abc",
        exactly_once=True,
        hung_ms=300_000,
        cores=1,
    )
    made.slots[0] = Slot(number=0, phase=SlotPhase.RUNNING, alive=True, process=1)
    made.tasks[T0] = Task(id=T0, slot=0, goal=0, stateful=True, phase=TaskPhase.RUNNING)
    return made


def stats(processed: int) -> ThreadSaid:
    numbers = Snapshot.merged(
        [
            Snapshot.of(
                {metrics.THREAD_PROCESS: processed, metrics.TRANSACTION_OPEN: True}, THREAD
            ),
            Snapshot.of({metrics.TASK_PROCESS: processed, metrics.RECORDS_LAG: 0}, str(T0)),
        ]
    )
    return ThreadSaid(slot=0, message=Stats(numbers=numbers, committed={T0: {"lines-0": 7}}))


def seen(numbers: Numbers, table: Table) -> WorkerView:
    return numbers.view(table, NoProcesses(), "orders", 0)  # type: ignore[arg-type]


def test_rates_follow_from_two_reports(table: Table) -> None:
    numbers = Numbers()
    numbers.take(stats(100), 1_000)
    numbers.take(stats(600), 3_000)

    view = seen(numbers, table)

    assert view.numbers.value(metrics.THREAD_PROCESS_RATE, THREAD) == 250.0
    assert view.numbers.value(metrics.TASK_PROCESS_RATE, str(T0)) == 250.0


def test_a_thread_that_began_anew_has_no_negative_rate(table: Table) -> None:
    numbers = Numbers()
    numbers.take(stats(100), 1_000)
    numbers.take(stats(5), 2_000)

    assert seen(numbers, table).numbers.value(metrics.THREAD_PROCESS_RATE, THREAD) == 0.0


def test_a_rate_is_rounded_for_people(table: Table) -> None:
    numbers = Numbers()
    numbers.take(stats(0), 0)
    numbers.take(stats(100), 3_000)

    assert seen(numbers, table).numbers.value(metrics.THREAD_PROCESS_RATE, THREAD) == 33.3


def test_a_task_has_the_numbers_of_the_thread_that_runs_it(table: Table) -> None:
    numbers = Numbers()
    numbers.take(stats(100), 1_000)

    told = seen(numbers, table)
    assert told.numbers.count(metrics.TASK_PROCESS, str(T0)) == 100
    assert told.tasks[0].committed == {"lines-0": 7}

    table.slots[1] = Slot(number=1, phase=SlotPhase.RUNNING, alive=True, process=1)
    table.tasks[T0].slot = 1

    elsewhere = seen(numbers, table)
    assert elsewhere.numbers.count(metrics.TASK_PROCESS, str(T0)) is None
    assert elsewhere.tasks[0].committed == {}
    assert elsewhere.numbers.count(metrics.THREAD_PROCESS, THREAD) == 100


def test_a_thread_without_a_process_has_no_open_transaction(table: Table) -> None:
    numbers = Numbers()
    assert seen(numbers, table).numbers.rows(metrics.TRANSACTION_OPEN) == {}

    numbers.take(stats(100), 1_000)

    assert seen(numbers, table).numbers.rows(metrics.TRANSACTION_OPEN) == {(THREAD,): False}


def test_restored_records_are_counted_once_however_they_are_reported(table: Table) -> None:
    numbers = Numbers()
    for restored in (40, 70):
        progress = RestoreProgress(task=T0, restored=restored, remaining=30)
        numbers.take(UpdaterSaid(updater=0, message=progress), 0)
    numbers.take(UpdaterSaid(updater=0, message=Restored(task=T0, records=100)), 0)
    numbers.take(UpdaterSaid(updater=0, message=Restored(task=T0, records=5)), 0)

    assert seen(numbers, table).numbers.count(metrics.RESTORE_RECORDS) == 105


def test_a_restore_that_was_cut_short_counts_as_well(table: Table) -> None:
    numbers = Numbers()
    for restored in (70, 10):
        progress = RestoreProgress(task=T0, restored=restored, remaining=30)
        numbers.take(UpdaterSaid(updater=0, message=progress), 0)
    numbers.take(UpdaterSaid(updater=0, message=Restored(task=T0, records=30)), 0)

    assert seen(numbers, table).numbers.count(metrics.RESTORE_RECORDS) == 100


def test_a_copy_shows_its_exact_lag_and_what_was_applied_over_all_state_updaters(
    table: Table,
) -> None:
    t1 = TaskId(0, 1)
    table.spec = WorkerSpec(app="orders", acceptable_lag=10)
    table.copies[t1] = Copy(
        id=t1,
        role=Role.STANDBY,
        phase=CopyPhase.FOLLOWING,
        updater=0,
        lag=7,
        told_lag=1_000,
        told_caught_up=True,
    )
    numbers = Numbers()
    numbers.take(UpdaterSaid(updater=0, message=Following(lags={t1: 9}, applied=5)), 0)
    numbers.take(UpdaterEnded(updater=0, exit_code=-9), 0)
    numbers.take(UpdaterSaid(updater=0, message=Following(lags={t1: 7}, applied=3)), 0)

    view = seen(numbers, table)

    assert view.numbers.count(metrics.STANDBY_UPDATE_RECORDS) == 8
    assert view.numbers.count(metrics.RESTORE_RECORDS) == 0
    active, copy = view.tasks
    assert (active.role, copy.role) == (Role.ACTIVE, Role.STANDBY)
    assert view.numbers.count(metrics.STANDBY_RECORDS_LAG, str(t1)) == 7
    assert (copy.caught_up, copy.updater) == (True, 0)
    served = {
        sample.name: (sample.labels, sample.value)
        for metric in WorkerCollector(lambda: view).collect()
        for sample in metric.samples
    }
    labels, lag = served["stream_task_standby_records_lag"]
    assert (labels["thread_id"], labels["task_id"], lag) == ("w-0-StateUpdater-0", "0_1", 7)
    assert served["stream_state_updater_standby_update_records_total"][1] == 8
    assert served["stream_state_updater_standby_caught_up_tasks"][1] == 1
    assert served["stream_state_updater_active_restoring_tasks"][1] == 0


def test_a_global_thread_is_shown_until_and_after_its_stores_are_filled(table: Table) -> None:
    numbers = Numbers()
    assert seen(numbers, table).numbers.value(metrics.GLOBAL_REMAINING) is None
    thread = table.global_thread = GlobalThread(process=2, records=4, remaining=6)

    view = seen(numbers, table)

    assert view.numbers.value(metrics.GLOBAL_REMAINING) == 6
    assert document(view)["globalThread"] == {
        "pid": 17,
        "filled": False,
        "records": 4,
        "remaining": 6,
        "restarts": 1,
        "problem": "",
    }
    thread.filled = True
    view = seen(numbers, table)
    assert view.numbers.value(metrics.GLOBAL_REMAINING) is None


def of_nodes(task: TaskId, records: int) -> Snapshot:
    return Snapshot.of({metrics.NODE_PROCESS: records}, str(task), "source")


def with_tree(tree: Snapshot | None) -> ThreadSaid:
    told = stats(1).message
    assert isinstance(told, Stats)
    return ThreadSaid(slot=0, message=replace(told, tree=tree))


def test_a_tree_is_shown_until_the_next_and_only_of_tasks_that_the_thread_has(
    table: Table,
) -> None:
    numbers = Numbers()
    other = TaskId(0, 9)
    tree = Snapshot.merged([of_nodes(T0, 5), of_nodes(other, 3)])
    numbers.take(with_tree(tree), 1_000)
    numbers.take(with_tree(None), 2_000)

    view = seen(numbers, table)
    assert view.all_numbers().rows(metrics.NODE_PROCESS) == {(str(T0), "source"): 5}

    table.tasks[T0].slot = 1
    assert not seen(numbers, table).all_numbers().rows(metrics.NODE_PROCESS)


def test_a_thread_that_has_ended_shows_no_tree(table: Table) -> None:
    numbers = Numbers()
    numbers.take(with_tree(of_nodes(T0, 5)), 1_000)
    numbers.take(ThreadEnded(slot=0, exit_code=0), 2_000)

    assert not seen(numbers, table).all_numbers().rows(metrics.NODE_PROCESS)


def test_what_a_global_thread_keeps_is_shown_until_it_ends_under_javas_names(table: Table) -> None:
    numbers = Numbers()
    tree = Snapshot.of({metrics.NUM_KEYS: 3}, GLOBAL_TASK, "in-memory-state", "places")
    progress = GlobalProgress(records=3, remaining=0, filled=True, tree=tree)
    numbers.take(GlobalThreadSaid(message=progress), 1_000)
    numbers.take(GlobalThreadSaid(message=replace(progress, tree=None)), 2_000)

    families = {f.name: f for f in WorkerCollector(lambda: seen(numbers, table)).collect()}

    (sample,) = families[metrics.NUM_KEYS.name].samples
    assert sample.value == 3
    assert sample.labels["task_id"] == "-1_-1"
    assert sample.labels["thread_id"] == "w-0-GlobalStreamThread"
    numbers.take(GlobalThreadEnded(exit_code=-9), 3_000)
    assert not seen(numbers, table).all_numbers().rows(metrics.NUM_KEYS)


def test_sensors_of_a_thread_are_shown_with_their_tags(table: Table) -> None:
    sensors = ThreadSensors(RecordingLevel.INFO, Windows(2, 30.0), samples=2, window_s=30.0)
    sensors.add_rate_total_sensor("model", "prices", "predict").record()
    numbers = Numbers()
    numbers.take(with_tree(sensors.numbers(THREAD, 0.0)), 1_000)

    families = {f.name: f for f in WorkerCollector(lambda: seen(numbers, table)).collect()}

    (sample,) = families["stream_model_predict"].samples
    assert sample.value == 1
    assert sample.labels == {
        "application_id": "orders",
        "client_id": "w-0",
        "thread_id": THREAD,
        "model_id": "prices",
    }


def test_a_state_updater_tells_where_its_time_goes_until_it_ends(table: Table) -> None:
    numbers = Numbers()
    name = "w-0-StateUpdater-0"
    told = Snapshot.of({metrics.UPDATER_IDLE_RATIO: 0.5, metrics.RESTORE_CALLS: 7}, name)
    numbers.take(UpdaterSaid(updater=0, message=UpdaterStats(numbers=told)), 1_000)

    assert seen(numbers, table).numbers.value(metrics.UPDATER_IDLE_RATIO, name) == 0.5
    numbers.take(UpdaterEnded(updater=0, exit_code=0), 2_000)
    assert seen(numbers, table).numbers.value(metrics.UPDATER_IDLE_RATIO, name) is None


def test_the_state_of_the_worker_follows_from_its_threads(table: Table) -> None:
    numbers = Numbers()

    assert seen(numbers, table).numbers.value(metrics.STATE, "RUNNING") == 1
    assert seen(numbers, table).numbers.value(metrics.CLIENT_STATE) == 2
    table.tasks[T0].phase = TaskPhase.STARTING
    assert seen(numbers, table).numbers.value(metrics.STATE, "REBALANCING") == 1
    table.stopping_since_ms = 1
    assert seen(numbers, table).numbers.value(metrics.STATE, "PENDING_SHUTDOWN") == 1


def test_the_disk_is_asked_for_its_room_now_and_then(table: Table) -> None:
    rooms = iter([Room(100, 40), None])
    numbers = Numbers(room=lambda: next(rooms))

    for now_ms, available in ((10_000, 40), (14_999, 40), (15_000, None)):
        view = numbers.view(table, NoProcesses(), "orders", now_ms)  # type: ignore[arg-type]
        assert view.numbers.value(metrics.STATE_DIR_AVAILABLE) == available
        assert view.numbers.value(metrics.STATE_DIR_SIZE) == (available and 100)


def test_the_revision_is_shown_as_a_label_if_there_is_one(table: Table) -> None:
    assert seen(Numbers(revision="0a1b"), table).numbers.rows(metrics.REVISION) == {("0a1b",): 1}
    assert seen(Numbers(), table).numbers.rows(metrics.REVISION) == {}


def test_the_state_of_a_task_is_a_number_too(table: Table) -> None:
    assert seen(Numbers(), table).numbers.value(metrics.TASK_STATE_NUMBER, str(T0)) == 2
    table.tasks[T0].phase = TaskPhase.RESTORING
    assert seen(Numbers(), table).numbers.value(metrics.TASK_STATE_NUMBER, str(T0)) == 1


def test_what_is_off_is_not_even_made(table: Table) -> None:
    numbers = Numbers(MetricsSettings(level=RecordingLevel.OFF))
    numbers.take(stats(100), 1_000)
    numbers.take(stats(600), 3_000)

    view = seen(numbers, table)
    assert view.numbers.rows(metrics.VERSION) == {}
    assert view.numbers.value(metrics.RECORDING_LEVEL) == -1
    assert view.numbers.value(metrics.THREAD_PROCESS_RATE, THREAD) == 250.0
