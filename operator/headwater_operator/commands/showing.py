"""What ``status``, ``tasks``, ``lag`` and ``why`` show of an overview: values in, blocks out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headwater.model.appstatus import ConditionStatus
from headwater.model.cluster import Role
from headwater_operator.commands.output import Cell, Column, Table, state
from headwater_operator.overview.events import EventKind
from headwater_operator.overview.texts import Tone, duration, number, size
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater_operator.commands.output import Block
    from headwater_operator.overview.reasons import Explanation
    from headwater_operator.overview.snapshot import CopyRow, Snapshot, TaskRow, WorkerRow

_EVENTS_SHOWN: Final = 5
_DASH: Final = Cell("-", Tone.QUIET)
_ROLES: Final = {Role.STANDBY: "standby", Role.WARMUP: "warm-up", Role.ACTIVE: "active"}


def fleet(snapshots: Sequence[Snapshot]) -> list[Block]:
    """Return one row for each application."""
    is_cluster = any(one.namespace for one in snapshots)
    columns = (
        *([Column(name="NAMESPACE")] if is_cluster else []),
        Column(name="NAME"),
        Column(name="STATE"),
        Column(name="READY"),
        Column(name="WORKERS"),
        Column(name="TASKS"),
        Column(name="EPOCH", is_wide=True),
        Column(name="KAFKA", is_wide=True),
        Column(name="REASON", is_folded=True),
    )
    return [Table(columns=columns, rows=tuple(_app_row(one, is_cluster) for one in snapshots))]


def _app_row(one: Snapshot, is_cluster: bool) -> tuple[Cell, ...]:  # noqa: FBT001  # not public
    total = len(one.tasks) or one.counts.total
    running = one.running_tasks if one.tasks else one.counts.running
    return (
        *([Cell(one.namespace)] if is_cluster else []),
        Cell(one.app),
        state(one.state),
        Cell("yes", Tone.GOOD) if one.is_ready else Cell("no", Tone.BUSY),
        Cell(f"{one.ready_replicas}/{one.replicas}"),
        Cell(f"{running}/{total}"),
        Cell(one.epoch),
        Cell(one.kafka or "-"),
        Cell(one.failure, Tone.BAD) if one.failure else Cell(one.reason),
    )


def status(one: Snapshot) -> list[Block]:
    """Return one application in full."""
    blocks: list[Block] = [Cell(_title(one)), *_lines_of(one)]
    blocks += [_driver(one), _workers(one.workers), _conditions(one), _events(one)]
    if one.inexact:
        blocks.append(Cell(f"note: {one.inexact}", Tone.BUSY))
    return blocks


def _title(one: Snapshot) -> str:
    where = f" in {one.namespace}" if one.namespace else ""
    parts = [
        f"{one.live_workers}/{one.replicas} workers",
        f"{one.running_tasks}/{len(one.tasks)} tasks running",
        f"lag {number(one.lag)}",
        f"{number(one.records_per_s)} records/s",
        f"epoch {one.epoch}",
    ]
    return f"{one.app}{where}: {' · '.join(parts)}"


def _lines_of(one: Snapshot) -> list[Block]:
    said = state(one.state)
    paused = f", {one.paused}" if one.paused else ""
    lines: list[Block] = [Cell(f"{said.text}{paused}: {one.reason or '-'}", said.tone)]
    if one.failure:
        lines.append(Cell(one.failure, Tone.BAD))
    if one.operation is not None:
        target = f" of {one.operation.target}" if one.operation.target else ""
        phase = f", {one.operation.phase}" if one.operation.phase else ""
        lines.append(Cell(f"{one.operation.type}{target}{phase}", Tone.BUSY))
    settings = [one.guarantee, f"Kafka {one.kafka or 'of the operator'}", f"engine {one.engine}"]
    settings += [f"Headwater {one.version}"] if one.version else []
    return [*lines, Cell(" · ".join(filter(None, settings)), Tone.QUIET)]


def _driver(one: Snapshot) -> Table:
    names = ("DRIVER", "GENERATION", "BATCH", "IN/S", "PROCESSED/S", "TASKS")
    columns = tuple(Column(name=name, is_number=name != "DRIVER") for name in names)
    row = one.driver
    if row is None:
        return Table(columns=columns, rows=())
    batch = _DASH if row.last_batch is None else Cell(number(row.last_batch))
    rates = (Cell(number(row.input_rows_per_s)), Cell(number(row.processed_rows_per_s)))
    cells = (state(row.state), Cell(str(row.generation)), batch, *rates, Cell(str(row.tasks)))
    return Table(columns=columns, rows=(cells,))


def _workers(rows: Sequence[WorkerRow]) -> Table:
    columns = (
        Column(name="WORKER"),
        Column(name="STATE"),
        Column(name="TASKS", is_number=True),
        Column(name="COPIES", is_number=True),
        Column(name="RECORDS/S", is_number=True),
        Column(name="LEASE", is_number=True),
        Column(name="NODE", is_wide=True),
        Column(name="REVISION", is_wide=True),
        Column(name="PID", is_number=True, is_wide=True),
        Column(name="OPEN TX", is_number=True, is_wide=True),
        Column(name="PROBLEM", is_folded=True),
    )
    return Table(
        columns=columns,
        rows=tuple(
            (
                Cell(row.name),
                state(row.state),
                Cell(str(row.tasks)),
                Cell(str(row.copies)) if row.copies else _DASH,
                Cell(number(row.records_per_s)),
                _DASH if row.lease_age_s is None else Cell(f"{row.lease_age_s:.0f} s"),
                Cell(row.node) if row.node else _DASH,
                Cell(row.revision) if row.revision else _DASH,
                Cell(str(row.pid)) if row.pid else _DASH,
                Cell(str(row.open_transactions)),
                Cell(row.problem, Tone.BAD),
            )
            for row in rows
        ),
    )


def _conditions(one: Snapshot) -> Table:
    """Return the conditions that are not as they are when all is well."""
    rows = tuple(
        (
            Cell(each.type),
            Cell(each.status, Tone.BUSY),
            Cell(each.reason),
            Cell(each.message),
        )
        for each in one.conditions
        if each.status is not each.type.when_well and each.status is not ConditionStatus.UNKNOWN
    )
    names = ("CONDITION", "STATUS", "WHY", "MESSAGE")
    columns = tuple(Column(name=name, is_folded=name == "MESSAGE") for name in names)
    return Table(columns=columns, rows=rows)


def _events(one: Snapshot) -> Table:
    rows = tuple(
        (
            Cell(ago(event.at_ms), Tone.QUIET),
            Cell(event.worker or "-"),
            Cell(event.text, Tone.BAD if event.kind is EventKind.FAILURE else None),
        )
        for event in one.events[-_EVENTS_SHOWN:]
    )
    names = ("AGO", "WORKER", "EVENT")
    columns = tuple(Column(name=name, is_folded=name == "EVENT") for name in names)
    return Table(columns=columns, rows=rows)


def ago(at_ms: int) -> str:
    """Return how long ago a time was."""
    return duration(max(0.0, time.time() - at_ms / 1000))


def tasks(one: Snapshot) -> list[Block]:
    """Return one row for each task."""
    columns = (
        Column(name="TASK"),
        Column(name="STATE"),
        Column(name="WORKER"),
        Column(name="THREAD", is_number=True),
        Column(name="LAG", is_number=True),
        Column(name="RECORDS/S", is_number=True),
        Column(name="STATE SIZE", is_number=True),
        Column(name="PROCESSED", is_number=True, is_wide=True),
        Column(name="COMMITTED", is_wide=True, is_folded=True),
        Column(name="COPIES", is_folded=True),
        Column(name="WHY", is_wide=True, is_folded=True),
    )
    rows = tuple(_task_row(row) for row in one.tasks)
    table = Table(columns=columns, rows=rows)
    blocks: list[Block] = [table] if rows else [Cell(f"{one.app} has no tasks yet: {_why(one)}")]
    if one.unassigned:
        lost = counted(one.unassigned, "task is", "tasks are")
        blocks.append(Cell(f"{lost} held by nobody: {_why(one)}", Tone.BAD))
    if one.inexact:
        blocks.append(Cell(f"note: {one.inexact}", Tone.BUSY))
    return blocks


def _why(one: Snapshot) -> str:
    return one.failure or one.reason or one.state


def _task_row(row: TaskRow) -> tuple[Cell, ...]:
    committed = " ".join(f"{name}@{offset}" for name, offset in sorted(row.committed.items()))
    return (
        Cell(str(row.task)),
        state(row.state),
        Cell(row.worker or "-"),
        _DASH if row.slot is None else Cell(str(row.slot)),
        _lag(row.lag),
        Cell(number(row.records_per_s)) if row.state == "RUNNING" else _DASH,
        _DASH if row.state_bytes is None else Cell(size(row.state_bytes)),
        Cell(number(row.processed)),
        Cell(committed or "-"),
        Cell(_progress(row)),
        Cell(row.why or "-"),
    )


def _lag(lag: int | None) -> Cell:
    return _DASH if lag is None else Cell(number(lag))


def _progress(row: TaskRow) -> str:
    left = [] if row.remaining is None else [f"restoring, {number(row.remaining)} left"]
    return ", ".join([*left, *(_copy(copy) for copy in row.copies)]) or "-"


def _copy(copy: CopyRow) -> str:
    where = f"{_ROLES[copy.role]} on {copy.worker}"
    if copy.is_caught_up:
        return f"{where} caught up"
    if copy.behind is None:
        return f"{where} behind"
    return f"{where} {'up to ' if copy.is_rounded else ''}{number(copy.behind)} behind"


def lag(one: Snapshot) -> list[Block]:
    """Return lag and speed of each sub-topology, and the tasks that are behind."""
    columns = (
        Column(name="SUB-TOPOLOGY"),
        Column(name="TASKS", is_number=True),
        Column(name="LAG", is_number=True),
        Column(name="WORST TASK"),
        Column(name="RECORDS/S", is_number=True),
        Column(name="SOURCE TOPICS", is_folded=True),
    )
    sources = {}
    if one.topology is not None:
        for group in one.topology.subtopologies:
            repartitions = tuple(topic.name for topic in group.repartition_sources)
            sources[group.id] = ", ".join((*group.source_topics, *repartitions))
    groups: dict[int, list[TaskRow]] = {}
    for row in one.tasks:
        groups.setdefault(row.task.subtopology, []).append(row)
    rows = []
    for group_id, members in sorted(groups.items()):
        worst = max(members, key=lambda row: (row.lag or 0, row.task))
        known = [row.lag for row in members if row.lag is not None]
        rows.append(
            (
                Cell(str(group_id)),
                Cell(str(len(members))),
                Cell(number(sum(known))) if known else _DASH,
                Cell(f"{worst.task} ({number(worst.lag)})") if worst.lag else _DASH,
                Cell(number(sum(row.records_per_s for row in members))),
                Cell(sources.get(group_id, "-")),
            )
        )
    blocks: list[Block] = [Table(columns=columns, rows=tuple(rows))]
    unread = f", {number(one.unread)} of them in partitions without a task" if one.unread else ""
    blocks.append(Cell(f"{one.app}: lag {number(one.lag)}{unread}"))
    if one.inexact:
        blocks.append(Cell(f"note: {one.inexact}", Tone.BUSY))
    return blocks


def why(told: Explanation) -> list[Block]:
    """Return what is to be said of one task."""
    row = told.row
    where = f"on {row.worker}" if row.worker else "on no worker"
    thread = "" if row.slot is None else f", StreamThread {row.slot}"
    since = "" if told.since_ms is None else f", for {ago(told.since_ms)}"
    said = state(row.state)
    facts = [
        f"lag {number(row.lag)}" if row.lag is not None else "",
        f"{number(row.records_per_s)} records/s" if row.state == "RUNNING" else "",
        f"state {size(row.state_bytes)}" if row.state_bytes is not None else "",
        "no state" if told.is_stateful is False else "",
    ]
    shown = " · ".join(filter(None, facts))
    blocks: list[Block] = [
        Cell(f"{row.task}: {said.text} {where}{thread}{since}", said.tone),
        *([Cell(f"  {shown}")] if shown else []),
        Cell(f"  placed there because: {told.why}"),
    ]
    if told.waits_for:
        blocks.append(Cell(f"  waits for: {told.waits_for}", Tone.BUSY))
    blocks += [Cell(f"  {_copy(copy)}: {copy.why or 'not recorded'}") for copy in row.copies]
    blocks += [
        Cell(f"  state on the disk of {worker}, up to about offset {number(offset)}")
        for worker, offset in sorted(row.stored.items())
        if worker != row.worker
    ]
    return [*blocks, Cell(f"  {told.moves}")]


def nothing_here(place: str) -> Cell:
    """Return what is said where there are no applications."""
    return Cell(f"no applications in {place}")
