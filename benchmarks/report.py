"""The table of results: from the runs kept in ``results.json`` to ``RESULTS.md``.

    python -m benchmarks.report

writes the page anew without running anything: after a change of ``NOTES.md``, or of what is said
here.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
RAW = HERE / "results.json"
TABLE = HERE / "RESULTS.md"

_LOAD_BEFORE = os.getloadavg()[0]
_ENDED = "ended"
_MACHINE = "machine"
_QUIET = 0.3
_ROUNDS = 3
_HEAD_ROW = (
    "| work | records | ours | other | ratio (each round) | CPU a record | others' cores "
    "| goal | floor | verdict |"
)
_RUN_HEAD = (
    "| row | system | records/s | CPU us | commits | output: records, MB | changelog: records, MB "
    "| peak RSS MB | cores got | others' cores | load | poll, process, commit | ended |"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: a figure of ours over (or under) a figure of another system."""

    title: str
    group: str
    ours: str
    other: str
    figure: str = "rate"
    goal: float | None = None
    floor: float | None = None
    unit: str = "records/s"
    less_is_better: bool = False
    digits: int = 0


ROWS = (
    Row(title="keyed count, at-least-once, 10 MB cache", group="count", ours="headwater",
        other="java", goal=2.0, floor=1.0),
    Row(title="keyed count, cache 0 (every update emitted)", group="count-0", ours="headwater",
        other="java", goal=2.0, floor=1.0),
    Row(title="keyed count, exactly-once, 100 ms", group="count-eos", ours="headwater",
        other="java", goal=2.0, floor=1.0),
    Row(title="keyed count, exactly-once, as many commits as Java makes at 100 ms",
        group="count-eos-as-often", ours="headwater", other="java", goal=2.5, floor=1.8),
    Row(title="stateless filter + map_values", group="stateless", ours="headwater",
        other="java", goal=1.5, floor=1.0),
    Row(title="stateless filter + map_values", group="stateless", ours="headwater",
        other="bare loop", goal=0.8),
    Row(title="word count through the repartition topic", group="words", ours="headwater",
        other="java", goal=1.5, floor=1.0),
    Row(title="count in tumbling windows of 10 s, 10 MB cache", group="tumbling",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="count in tumbling windows of 10 s, cache 0", group="tumbling-0",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="count in windows of 5 s by 1 s, 10 MB cache", group="hopping",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="count in windows of 5 s by 1 s, cache 0", group="hopping-0",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="count in sliding windows of 1 s, 10 MB cache", group="sliding",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="count in sliding windows of 1 s, cache 0", group="sliding-0",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="count in sessions with a gap of 1 s, 10 MB cache", group="session",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="count in sessions with a gap of 1 s, cache 0", group="session-0",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="a stream joined with itself within 5 s", group="pairs",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="two streams joined within 5 s", group="stream_join",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="a stream joined with a table of 100,000 rows, 10 MB cache", group="table_join",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="a stream joined with a table of 100,000 rows, cache 0", group="table_join-0",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="a stream joined with a versioned table of 100,000 rows", group="versioned_join",
        ours="headwater", other="java", goal=1.5, floor=0.7),
    Row(title="two tables joined by a foreign key, 10 MB cache", group="foreign_join",
        ours="headwater", other="java", goal=1.5, floor=0.7),
    Row(title="two tables joined by a foreign key, cache 0", group="foreign_join-0",
        ours="headwater", other="java", goal=1.5, floor=0.7),
    Row(title="count in windows of 10 s, suppressed until closed, 10 MB cache", group="suppress",
        ours="headwater", other="java", goal=1.5, floor=0.7),
    Row(title="count in windows of 10 s, suppressed until closed, cache 0", group="suppress-0",
        ours="headwater", other="java", goal=1.5, floor=0.7),
    Row(title="keyed count, 10 MB cache", group="count-quix", ours="headwater",
        other="quixstreams", goal=8.0, floor=5.0),
    Row(title="keyed count, cache 0", group="count-quix", ours="headwater cache 0",
        other="quixstreams"),
    Row(title="restore of a changelog, 4 tasks, 2 threads each", group="restore",
        ours="headwater", other="java", goal=1.5, floor=1.0),
    Row(title="map_values of 50 us: 2 threads over 1", group="busy", ours="headwater x2",
        other="headwater", goal=1.7, floor=1.4),
    Row(title="keyed count: 2 threads over 1", group="count-threads", ours="headwater x2",
        other="headwater"),
    Row(title="keyed count: 2 threads over 1, Java", group="count-threads", ours="java x2",
        other="java"),
    Row(title="memory, keyed count at cache 0 (peak sum of PSS)", group="memory",
        ours="headwater", other="java", figure="pss_mb", goal=0.6, floor=1.0, unit="MB",
        less_is_better=True),
    Row(title="end-to-end p99 at 5,000 records/s, stateless", group="latency-stateless",
        ours="headwater", other="java", figure="p99_ms", goal=1.0, floor=2.0, unit="ms",
        less_is_better=True, digits=1),
    Row(title="end-to-end p50 at 5,000 records/s, stateless", group="latency-stateless",
        ours="headwater", other="java", figure="p50_ms", unit="ms",
        less_is_better=True, digits=1),
    Row(title="end-to-end p99 at 5,000 records/s, count at cache 0", group="latency-count",
        ours="headwater", other="java", figure="p99_ms", goal=1.0, floor=2.0, unit="ms",
        less_is_better=True, digits=1),
    Row(title="end-to-end p50 at 5,000 records/s, count at cache 0", group="latency-count",
        ours="headwater", other="java", figure="p50_ms", unit="ms",
        less_is_better=True, digits=1),
    Row(title="end-to-end p99 at 5,000 records/s, count at cache 0, exactly-once, 100 ms",
        group="latency-count-eos", ours="headwater", other="java", figure="p99_ms", goal=1.0,
        floor=2.0, unit="ms", less_is_better=True, digits=1),
    Row(title="end-to-end p99 at 50,000 records/s, count at cache 0, exactly-once, 100 ms",
        group="latency-count-eos-50k", ours="headwater", other="java", figure="p99_ms", goal=1.0,
        floor=2.0, unit="ms", less_is_better=True, digits=1),
)  # fmt: skip


def keep(group: str, runs: Sequence[Mapping[str, Any]], raw: Path = RAW) -> None:
    """Put the runs of a group in place of those known before."""
    found = known(raw)
    found[group] = {
        _ENDED: time.strftime("%Y-%m-%d %H:%M"),
        _MACHINE: machine(),
        "runs": list(runs),
    }
    raw.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def known(raw: Path) -> dict[str, Any]:
    """Return the kept runs by group."""
    return dict(json.loads(raw.read_text())) if raw.exists() else {}


def write(raw: Path = RAW, table: Path = TABLE) -> str:
    """Write ``RESULTS.md`` from all runs that are known and return its text."""
    found = known(raw)
    sections = [_HEAD.format(machines=machines(found)), _comparison(found), _detail(found)]
    notes = HERE / "NOTES.md"
    if notes.exists():
        sections.append(notes.read_text().rstrip() + "\n")
    table.write_text("\n".join(sections))
    return table.read_text()


_HEAD = """# Speed and memory, side by side

Written by `make bench` (`python -m benchmarks.run`; one group of rows: `--rows count words`).
One private broker, inputs loaded before, the systems of a row in turn, medians. Rates run from the
first record processed until everything is committed and closed, so no system pays for its start.
Every run is checked by an independent consumer: the last counts add up to the records, at cache 0
every update is in the output.

{machines}

How to read it: "cores got" is how many cores a system had on average, "others' cores" how many
programs outside the benchmark took meanwhile (broker and audit not counted). One StreamThread here
is one process that can use little more than one core; Java's helpers (compiler, collector,
producer) use the second as well when it is free. So on a busy machine the ratio of rates moves
towards the ratio of CPU times, which favours the system that needs less: only rounds with few
others' cores tell the ratio of a quiet machine. A verdict is provisional if there were fewer than
three rounds or others took more than 0.3 cores.
"""


def machines(found: Mapping[str, Any]) -> str:
    """Say which groups of rows ran on which machine."""
    groups: dict[str, list[str]] = {}
    for group, entry in sorted(found.items()):
        groups.setdefault(entry.get(_MACHINE, "Not noted; see the notes below"), []).append(group)
    return "Machines:\n\n" + "\n".join(
        f"* {name}: {', '.join(known)}." for name, known in sorted(groups.items())
    )


def spread(ratios: Sequence[float]) -> str:
    """Write the ratios of rounds as their median, with the least and the largest."""
    return f"**{statistics.median(ratios):.2f}x** ({min(ratios):.2f} to {max(ratios):.2f})"


def measured() -> str:
    """Say on which machine, when, and beside what load of a minute a page was measured."""
    return (
        f"{machine()}. Measured {datetime.now(UTC):%Y-%m-%d %H:%M}, load before and after: "
        f"{_LOAD_BEFORE:.1f}, {os.getloadavg()[0]:.1f}"
    )


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {pages:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def _comparison(found: Mapping[str, Any]) -> str:
    lines = [
        _HEAD_ROW,
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [line for row in ROWS if (line := _line(row, found))]
    return "\n".join(lines) + "\n"


def _line(row: Row, found: Mapping[str, Any]) -> str:
    runs = found.get(row.group, {}).get("runs", [])
    ours = [run for run in runs if run["system"] == row.ours]
    other = [run for run in runs if run["system"] == row.other]
    if not ours or not other:
        return ""
    our, their = ([float(run[row.figure]) for run in side] for side in (ours, other))
    ratio = statistics.median(our) / statistics.median(their)
    rounds = [mine / its for mine, its in zip(our, their, strict=False)]
    spread = f"{min(rounds):.2f} to {max(rounds):.2f}" if len(rounds) > 1 else "one round"
    figures = [f"{statistics.median(side):,.{row.digits}f} {row.unit}" for side in (our, their)]
    if row.figure == "rate":
        sides = zip(figures, (ours, other), strict=True)
        figures = [figure + _commits(side) for figure, side in sides]
    limits = ["" if limit is None else f"{limit:g}x" for limit in (row.goal, row.floor)]
    records = f"{ours[0]['records']:,}"
    said = verdict(ratio, row.goal, row.floor, less_is_better=row.less_is_better)
    return (
        f"| {row.title} | {records} | {figures[0]} | {row.other}: {figures[1]} "
        f"| **{ratio:.2f}x** ({spread}) | {_cpu(ours, other)} | {others_of([*ours, *other])} "
        f"| {limits[0]} | {limits[1]} | {said}{caveat(runs)} |"
    )


def _cpu(ours: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> str:
    sides = [[run["cpu_us"] for run in side if "cpu_us" in run] for side in (ours, other)]
    if not all(sides):
        return ""
    mine, its = (statistics.median(side) for side in sides)
    return f"{mine:.1f} to {its:.1f} us"


def _commits(side: Sequence[Mapping[str, Any]]) -> str:
    """Say how often a side has committed, if the consumer of its outputs could count that."""
    found = [run["commits"] / run["seconds"] for run in side if run.get("commits")]
    return f", {statistics.median(found):.1f} commits/s" if found else ""


def others_of(runs: Sequence[Mapping[str, Any]]) -> str:
    """Say how many cores others took, the median of the runs that know it."""
    known = [run["others"] for run in runs if "others" in run]
    return f"{statistics.median(known):.1f}" if known else ""


def verdict(
    value: float, goal: float | None, floor: float | None, *, less_is_better: bool = True
) -> str:
    """Say what a number comes to beside its goal and its floor; either may be missing."""

    def holds(limit: float | None) -> bool:
        return limit is not None and (value <= limit if less_is_better else value >= limit)

    if goal is None and floor is None:
        return "reported"
    if holds(goal):
        return "goal met"
    return "floor met" if holds(floor) else "missed"


def _detail(found: Mapping[str, Any]) -> str:
    lines = [
        "## Every run",
        "",
        "CPU: microseconds a record, user and system, of all processes of the system. Output and",
        "changelog as the independent consumer read them; commits are the transactions that it",
        "found in the output. The changelog of a store here holds only the last update of a key",
        "between two flushes, which Java's holds when it caches.",
        "",
        _RUN_HEAD,
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        _run_line(group, run, entry[_ENDED])
        for group, entry in found.items()
        for run in entry["runs"]
        if "rate" in run
    ]
    lines += ["", *_others(found)]
    return "\n".join(lines) + "\n"


def _run_line(group: str, run: Mapping[str, Any], ended: str) -> str:
    megabytes = [run.get(name, 0) / 1e6 for name in ("output_bytes", "logged_bytes")]
    return (
        f"| {group} | {run['system']} | {run['rate']:,.0f} | {run['cpu_us']:.2f} "
        f"| {run.get('commits') or ''} "
        f"| {run.get('outputs', 0):,}, {megabytes[0]:.1f} "
        f"| {run.get('logged', 0):,}, {megabytes[1]:.1f} "
        f"| {run.get('peak_rss_mb', 0):,.0f} | {run['rate'] * run['cpu_us'] / 1e6:.2f} "
        f"| {run.get('others', '')} | {run['load']:.1f} "
        f"| {_shares(run.get('ratios') or {})} | {ended} |"
    )


def _shares(ratios: Mapping[str, float]) -> str:
    """Where the loop's time went, in per cent."""
    names = ("poll", "process", "commit")
    return ", ".join(f"{ratios[name]:.0%}" for name in names if name in ratios)


def caveat(runs: Sequence[Mapping[str, Any]]) -> str:
    """A verdict holds for three rounds on a machine that others leave alone."""
    others = statistics.median([run.get("others", _QUIET) for run in runs])
    rounds = min(Counter(run["system"] for run in runs).values())
    return "" if rounds >= _ROUNDS and others < _QUIET else " (provisional)"


def _others(found: Mapping[str, Any]) -> list[str]:
    """Runs that have no rate, each with all it says."""
    lines = []
    for group, entry in found.items():
        for run in entry["runs"]:
            if "rate" not in run:
                said = ", ".join(f"{name} {value}" for name, value in run.items())
                lines.append(f"* {group} ({entry[_ENDED]}): {said}")
    return lines


if __name__ == "__main__":
    write()
