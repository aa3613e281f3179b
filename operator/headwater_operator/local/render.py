"""Draws a snapshot for a terminal: values in, rich renderables out; fits the height it is given."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headwater.model.cluster import Role
from headwater_operator.overview.events import EventKind
from headwater_operator.overview.texts import MARKS, Tone, duration, number, tone_of
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from headwater_operator.overview.events import Event
    from headwater_operator.overview.snapshot import (
        CopyRow,
        DriverRow,
        Snapshot,
        TaskRow,
        WorkerRow,
    )

_GOOD: Final = "green"
_BUSY: Final = "yellow"
_BAD: Final = "red"
_QUIET: Final = "grey50"
_STRONG: Final = "bold"
STYLES: Final = {Tone.GOOD: _GOOD, Tone.BUSY: _BUSY, Tone.BAD: _BAD, Tone.QUIET: _QUIET}
"""Colours of a terminal."""
_SPARKS: Final = "▁▂▃▄▅▆▇█"
_BAR_WIDTH: Final = 16
_WORKERS_WIDTH: Final = 79
_TASKS_WIDTH: Final = 66
_FIRST_WIDTH: Final = 7
_STATE_WIDTH: Final = 12
_NUMBER_WIDTH: Final = 10
_LEAST_EVENTS: Final = 3
_MOST_EVENTS: Final = 8
_WARNING_LINES: Final = 4
_RATES_SHOWN: Final = 40


def render(snapshot: Snapshot, *, height: int, width: int, footer: str = "") -> RenderableType:
    """Draw everything in at most ``height`` lines, if that is 16 or more."""
    workers = min(len(snapshot.workers), max(2, height // 3))
    warning = [*_warning(snapshot, width), *_driver(snapshot)]
    # Two lines on top, a header for each table, one line of totals, a blank line before each.
    left = height - len(warning) - 8 - workers - (2 if footer else 0)
    wanted = max(_LEAST_EVENTS, left - 1 - len(snapshot.tasks))
    events = min(_MOST_EVENTS, wanted, len(snapshot.events), max(0, left - 2))
    rows = left - (events + 1 if events else 0)
    parts: list[RenderableType] = [
        _header(snapshot),
        _second_line(snapshot),
        *warning,
        Text(""),
        _workers(snapshot, workers, width),
        Text(""),
        _tasks(snapshot, max(1, rows), width),
        Text(""),
        _totals(snapshot, width),
    ]
    if not snapshot.workers:
        # Nothing has begun: no tables, no totals.
        del parts[-6:]
    if events:
        parts += [Text(""), *(_event(event, snapshot.app) for event in snapshot.events[-events:])]
    if footer:
        parts += [Text(""), Text(footer, style=_QUIET, no_wrap=True, overflow="ellipsis")]
    return Group(*parts)


def sparkline(values: Sequence[float]) -> str:
    """Values as a line of small bars; the greatest fills its place."""
    top = max(values, default=0.0)
    if top <= 0:
        return _SPARKS[0] * len(values)
    return "".join(_SPARKS[min(7, int(value / top * 7.999))] for value in values)


def bar(done: int, total: int, width: int = _BAR_WIDTH) -> Text:
    """A percentage with its progress bar."""
    share = 1.0 if total <= 0 else min(1.0, done / total)
    full = int(share * width)
    return Text.assemble(
        (f"{share:4.0%} ", _STRONG), ("━" * full, _GOOD), ("━" * (width - full), "grey30")
    )


def _state(state: str) -> Text:
    tone = tone_of(state)
    return Text(f"{MARKS[tone]} {state}", style=STYLES[tone])


def _header(snapshot: Snapshot) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{snapshot.app} ", style="bold cyan")
    line.append_text(_state(snapshot.state))
    if snapshot.paused:
        line.append(f" {snapshot.paused}", style=_BUSY)
    parts = [
        _size(snapshot),
        f"{snapshot.running_tasks}/{len(snapshot.tasks)} tasks" if snapshot.tasks else "",
        *_of_copies(snapshot),
        f"epoch {snapshot.epoch}" if snapshot.workers else "",
        duration(snapshot.uptime_s),
    ]
    line.append("   ")
    line.append(" · ".join(filter(None, parts)))
    return line


def _size(snapshot: Snapshot) -> str:
    if snapshot.driver is not None and not snapshot.workers:
        return f"{counted(snapshot.driver.tasks, 'task')} on {snapshot.engine}"
    return f"{snapshot.live_workers}/{snapshot.replicas} workers"


def _driver(snapshot: Snapshot) -> list[RenderableType]:
    """Tell of Spark's driver in one line below a blank one."""
    row = snapshot.driver
    if row is None:
        return []
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("Spark ", style=_STRONG)
    line.append_text(_state(row.state))
    line.append(f"   {driver_line(row)}", style=_BAD if row.problem else "")
    return [Text(""), line]


def driver_line(row: DriverRow) -> str:
    """What the driver does, for people: its last micro-batch and the rates."""
    batch = "no batch yet"
    if row.last_batch is not None:
        batch = (
            f"batch {number(row.last_batch)}: {number(row.batch_rows)} records in "
            f"{number(row.batch_ms)} ms"
        )
    parts = [
        f"driver {row.pid}" if row.pid else "",
        f"generation {row.generation}",
        row.problem or (batch if row.pid else ""),
        f"in {number(row.input_rows_per_s)}/s" if row.last_batch is not None else "",
        f"processed at {number(row.processed_rows_per_s)}/s" if row.last_batch is not None else "",
    ]
    return " · ".join(filter(None, parts))


def _of_copies(snapshot: Snapshot) -> list[str]:
    standbys = [copy for copy in snapshot.copies if copy.role is Role.STANDBY]
    warmups = len(snapshot.copies) - len(standbys)
    ready = sum(copy.is_caught_up for copy in standbys)
    return [
        *([f"{ready}/{len(standbys)} standbys"] if standbys else []),
        *([f"{warmups} warming up"] if warmups else []),
    ]


def _second_line(snapshot: Snapshot) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    kind = "private Kafka" if snapshot.is_private_kafka else "Kafka"
    where = f"{kind} {snapshot.kafka or 'starting ...'}"
    line.append(" · ".join(filter(None, (snapshot.guarantee, where))), style=_QUIET)
    if snapshot.reason and not snapshot.failure:
        line.append("   ")
        line.append(snapshot.reason, style=_QUIET if snapshot.state == "RUNNING" else _BUSY)
    return line


def _warning(snapshot: Snapshot, width: int) -> list[Text]:
    """Say in full why the application does not run, on as many lines as that takes."""
    lines = textwrap.wrap(snapshot.failure, width - 1, max_lines=_WARNING_LINES, placeholder=" ...")
    return [Text(line, style=_BAD, no_wrap=True) for line in lines]


def _table(*columns: tuple[str, str, int]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_QUIET)
    for name, justify, least in columns:
        table.add_column(name, justify=justify, min_width=least, no_wrap=True)  # type: ignore[arg-type]  # "left" or "right"
    return table


def _workers(snapshot: Snapshot, rows: int, width: int) -> Table:
    table = _table(
        ("WORKER", "left", _FIRST_WIDTH),
        ("STATE", "left", _STATE_WIDTH),
        ("PID", "right", 7),
        ("LEASE", "right", 6),
        ("TASKS", "right", 5),
        ("COPIES", "right", 6),
        ("RECORDS/S", "right", _NUMBER_WIDTH),
        ("OPEN TX", "right", 7),
        ("", "left", 0),
    )
    workers: Sequence[WorkerRow] = snapshot.workers
    if len(workers) > rows:
        workers = sorted(workers, key=lambda row: row.state == "running")[:rows]
    for row in workers:
        note = Text(row.problem, style=_BAD)
        # Cut here, or rich would take the room from the other columns.
        note.truncate(max(0, width - _WORKERS_WIDTH), overflow="ellipsis")
        table.add_row(
            row.name.removeprefix(f"{snapshot.app}-"),
            _state(row.state),
            str(row.pid or "-"),
            _lease(row.lease_age_s),
            str(row.tasks),
            str(row.copies or "-"),
            number(row.records_per_s),
            str(row.open_transactions or "-"),
            note,
        )
    return table


def _lease(age_s: float | None) -> Text:
    if age_s is None:
        return Text("-", style=_QUIET)
    # Workers renew every few seconds; after three missed renewals something is wrong.
    style = "" if age_s < 15 else _BUSY if age_s < 30 else _BAD
    return Text(f"{age_s:.0f} s", style=style)


def _tasks(snapshot: Snapshot, rows: int, width: int) -> RenderableType:
    table = _table(
        ("TASK", "left", _FIRST_WIDTH),
        ("STATE", "left", _STATE_WIDTH),
        ("HELD BY", "left", 15),
        ("LAG", "right", _NUMBER_WIDTH),
        ("RECORDS/S", "right", _NUMBER_WIDTH),
        ("", "left", 0),
    )
    tasks = snapshot.tasks
    hidden = 0
    if len(tasks) > rows:
        # What is not running is what one looks for; then what is behind.
        ranked = sorted(tasks, key=lambda row: (row.state == "RUNNING", -(row.lag or 0), row.task))
        hidden = len(tasks) - rows + 1
        tasks = tuple(sorted(ranked[: rows - 1], key=lambda row: row.task))
    for row in tasks:
        note = _progress(row)
        for copy in row.copies:
            note.append("  " if note else "")
            note.append_text(_copy(copy, snapshot.app))
        note.truncate(max(0, width - _TASKS_WIDTH), overflow="ellipsis")
        table.add_row(
            str(row.task),
            _state(row.state),
            _holder(row, snapshot.app),
            "-" if row.lag is None else number(row.lag),
            number(row.records_per_s) if row.state == "RUNNING" else "-",
            note,
        )
    if hidden:
        table.add_row("...", Text(f"and {hidden} more", style=_QUIET), "", "", "", "")
    return table


def _holder(row: TaskRow, app: str) -> Text:
    """Name the worker without the application's name, and the StreamThread: ``w-0 thread 1``."""
    if not row.worker:
        return Text("-", style=_QUIET)
    line = Text(row.worker.removeprefix(f"{app}-"))
    if row.slot is not None:
        line.append(f" thread {row.slot}", style=_QUIET)
    return line


def _copy(copy: CopyRow, app: str) -> Text:
    """Name a copy, and how far it is behind unless it has caught up: ``warm-up w-1 1,203 left``."""
    what = "standby" if copy.role is Role.STANDBY else "warm-up"
    line = Text(f"{what} {copy.worker.removeprefix(f'{app}-')}")
    if copy.is_caught_up:
        line.stylize(_GOOD)
        line.append(f" {MARKS[Tone.GOOD]}", style=_GOOD)
        return line
    line.stylize(_BUSY)
    left = "" if copy.behind is None else f" {number(copy.behind)} left"
    line.append(f" {MARKS[Tone.BUSY]}{left}", style=_BUSY)
    return line


def _progress(row: TaskRow) -> Text:
    if row.remaining is None:
        return Text("")
    line = bar(row.restored, row.restored + row.remaining)
    line.append(f"  {number(row.remaining)} left", style=_QUIET)
    return line


def _totals(snapshot: Snapshot, width: int) -> Text:
    rates = snapshot.rates[-min(_RATES_SHOWN, max(8, width - 60)) :]
    left = snapshot.filling
    filling = "" if left is None else f"   filling global stores, {number(left)} left"
    return Text.assemble(
        ("total ", _STRONG),
        ("lag ", _QUIET),
        (number(snapshot.lag), _STRONG),
        ("   records/s ", _QUIET),
        (number(snapshot.records_per_s), _STRONG),
        "  ",
        (sparkline(rates), "cyan"),
        (filling, _BUSY),
        no_wrap=True,
    )


_EVENT_STYLES: Final = {
    EventKind.FAILURE: _BAD,
    EventKind.STOPPED: _BUSY,
    EventKind.STARTED: _GOOD,
    EventKind.STATE: "cyan",
    EventKind.LEADER: "magenta",
    EventKind.NOTE: "bold magenta",
}


def _event(event: Event, app: str) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(clock(event.at_ms), style=_QUIET)
    line.append("  ")
    if event.worker:
        line.append(f"{event.worker.removeprefix(f'{app}-')} ", style=_STRONG)
    line.append(event.text, style=_EVENT_STYLES.get(event.kind, ""))
    return line


def clock(at_ms: int) -> str:
    """A time of today: ``14:03:07``."""
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000))
