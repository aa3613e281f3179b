"""The page with 1,000 tasks in a real browser: first paint, then what an update a second costs.

    python -m benchmarks.web [--tasks 1000] [--seconds 30]

Tasks are played: all of them process, so rates, lags and offsets of all change every second, some
restore, and one moves every five seconds. The yardstick is a page of one plain table, which asks
for the same document once a second and writes all of its rows anew. Both run in headless Chromium
on this machine, which draws without a graphics card. Writes ``benchmarks/WEB.md``.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil
from playwright.sync_api import sync_playwright
from tests.debian import CHROMIUM, find
from tests.support.made_up import DESCRIPTION

from benchmarks.report import measured, verdict
from headwater.ids import TaskId
from headwater.model import metrics
from headwater.model.cluster import Role
from headwater.model.topics import TopologyReport
from headwater_operator.dashboards.history import Sample, label_set
from headwater_operator.overview.events import Event, EventKind
from headwater_operator.overview.snapshot import CopyRow, Snapshot, TaskRow, WorkerRow
from headwater_operator.web.routes import Page
from headwater_operator.web.serving import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

TABLE: Final = Path(__file__).parent / "WEB.md"
WORKERS: Final = 20
RUNS: Final = 5
PAINT_GOAL_S, PAINT_FLOOR_S = 0.5, 1.5
SHARE_GOAL: Final = 0.05
# Both marks are set after a frame was painted: the first screen with values, then all below it.
_DRAWN: Final = """() => {
  const found = (name) => performance.getEntriesByName(name)[0]?.startTime;
  const first = found("headwater-painted"), complete = found("headwater-complete");
  return first && complete ? [first, complete] : null;
}"""
_PLAIN: Final = """<!doctype html><meta charset="utf-8"><title>plain</title><body><script>
async function draw() {
  const { document: found } = await (await fetch("/document")).json();
  const rows = Object.entries(found.tasks).map(([id, task]) => `<tr><td>${id}<td>${task.state}` +
    `<td>${task.worker}<td>${task.rate}<td>${task.lag}<td>${task.bytes}<td>${task.why}</tr>`);
  document.body.innerHTML = `<table>${rows.join("")}</table>`;
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("headwater-painted");
    performance.mark("headwater-complete");
  }));
}
draw(); setInterval(draw, 1000);
</script>"""


class Played:
    """An application of so many tasks on 20 workers, another at each look.

    Args:
        tasks: how many.
    """

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._turn = 0
        self._random = random.Random(1)

    def apps(self) -> Sequence[str]:
        """Return the one."""
        return ["played"]

    def open(self, app: str) -> Played:
        """Return what looks at it: itself."""
        del app
        return self

    def act(self, app: str, action: str, body: Mapping[str, Any]) -> str:
        """Refuse: nothing is asked for."""
        raise AssertionError((app, action, body))

    @property
    def may_act(self) -> bool:
        """It does nothing."""
        return False

    @property
    def refused(self) -> str:
        """Nothing is refused."""
        return ""

    @property
    def has_journeys(self) -> bool:
        """It has no code."""
        return False

    def journey(self, app: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse: nothing is asked for."""
        raise AssertionError((app, record))

    def close(self) -> None:
        """Nothing is open."""

    def look(self) -> Snapshot:
        """Return the next moment."""
        self._turn += 1
        moves = self._turn // 5
        rows = []
        for number in range(self._tasks):
            place = (number + (number == moves)) % WORKERS
            rows.append(self._row(number, place))
        workers = tuple(
            WorkerRow(
                name=f"played-w-{n}",
                state="running",
                pid=1000 + n,
                is_alive=True,
                tasks=self._tasks // WORKERS,
                copies=self._tasks // WORKERS,
                records_per_s=self._random.uniform(900, 1100) * self._tasks / WORKERS,
            )
            for n in range(WORKERS)
        )
        event = Event(at_ms=moves, kind=EventKind.TASKS, text="moved", granted=(TaskId(0, moves),))
        return Snapshot(
            app="played",
            state="RUNNING",
            reason="all tasks run",
            replicas=WORKERS,
            workers=workers,
            tasks=tuple(rows),
            events=(event,),
            topology=TopologyReport(hash="1", description=DESCRIPTION),
        )

    def _row(self, number: int, place: int) -> TaskRow:
        is_restoring = number % 50 == 7
        copy = CopyRow(
            worker=f"played-w-{(place + 1) % WORKERS}",
            role=Role.STANDBY,
            behind=self._random.randrange(100),
            is_caught_up=True,
        )
        return TaskRow(
            task=TaskId(number % 2, number // 2),
            state="RESTORING" if is_restoring else "RUNNING",
            worker=f"played-w-{place}",
            slot=0,
            lag=self._random.randrange(1000),
            records_per_s=self._random.uniform(900, 1100),
            restored=self._turn * 1000,
            remaining=max(0, 600_000 - self._turn * 1000) if is_restoring else None,
            copies=(copy,),
            why="its state is here",
            state_bytes=10_000_000 + self._turn * 1000,
        )

    def scrape(self) -> Mapping[str, Sequence[Sample]]:
        """Return four numbers of each task."""
        found: dict[str, list[Sample]] = {f"played-w-{n}": [] for n in range(WORKERS)}
        for number in range(self._tasks):
            worker = f"played-w-{number % WORKERS}"
            labels = {"task_id": f"{number % 2}_{number // 2}", "client_id": worker}
            told = found[worker]
            for metric, more, value in (
                (metrics.RECORDS_LAG, {}, self._random.randrange(1000)),
                (metrics.TASK_PROCESS, {}, self._turn * 1000),
                (metrics.RECORDS_CONSUMED, {"topic": "in"}, self._turn * 1000),
                (metrics.ROCKSDB_PROPERTIES["total-sst-files-size"], {"state_id": "counts"}, 1e7),
            ):
                told.append(Sample(metric.sample_name, label_set({**labels, **more}), value))
        return found


@dataclass(frozen=True)
class Measured:
    """What a page took.

    Attributes:
        first_s: from the beginning of the navigation until the first screen was painted with
            values, each run, sorted.
        all_s: until all was drawn, below the first screen, too.
        busy_s: processor time of the page's main thread until then: nearly the same on a machine
            that is busy.
        page_share: of a core, by the page's process: scripts, style, layout, paint.
        browser_share: of a core, by all processes of the browser.
        sent_kb: by the server, each second.
    """

    first_s: list[float]
    all_s: list[float]
    busy_s: list[float]
    page_share: float
    browser_share: float
    sent_kb: float


class Opened(NamedTuple):
    """How long it took once to open a page: see ``Measured``."""

    first_s: float
    all_s: float
    busy_s: float


def opened(browser: Browser, url: str) -> Opened:
    """Open a page in a window without a cache."""
    tab = browser.new_page(viewport={"width": 1440, "height": 900})
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    first_s, all_s = first_paint_s(tab, url)
    counters = session.send("Performance.getMetrics")["metrics"]
    busy_s = {each["name"]: each["value"] for each in counters}["TaskDuration"]
    tab.close()
    return Opened(first_s, all_s, float(busy_s))


def measure(browser: Browser, url: str, seconds: float, runs: Sequence[Opened]) -> Measured:
    """Watch a page, which was opened some times before, for a while."""
    # One that nobody looks at any more takes nothing.
    tab = browser.new_page(viewport={"width": 1440, "height": 900})
    session = tab.context.new_cdp_session(tab)
    session.send("Network.enable")
    received: list[int] = []
    session.on("Network.dataReceived", lambda news: received.append(news["dataLength"]))
    first_paint_s(tab, url)
    tab.wait_for_timeout(3000)
    received.clear()
    before, all_before, began = browser_s("renderer"), browser_s(), time.monotonic()
    tab.wait_for_timeout(seconds * 1000)
    took = time.monotonic() - began
    found = Measured(
        first_s=sorted(run.first_s for run in runs),
        all_s=sorted(run.all_s for run in runs),
        busy_s=sorted(run.busy_s for run in runs),
        page_share=(browser_s("renderer") - before) / took,
        browser_share=(browser_s() - all_before) / took,
        sent_kb=sum(received) / took / 1000,
    )
    tab.close()
    return found


def first_paint_s(tab: Tab, url: str) -> tuple[float, float]:
    """Return when the first screen was painted and when all was drawn, from the navigation on."""
    tab.goto(url)
    deadline = time.monotonic() + 120
    while (drawn := tab.evaluate(_DRAWN)) is None:
        assert time.monotonic() < deadline, "nothing was drawn"
        tab.wait_for_timeout(20)
    first, complete = drawn
    return float(first) / 1000, float(complete) / 1000


def browser_s(kind: str = "") -> float:
    """Return the seconds of processor time of the browser that this process has started.

    Args:
        kind: of its processes, such as ``renderer``; all if empty.
    """
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            if "chrom" in command and (not kind or f"--type={kind}" in command):
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def plain(document: Any) -> ThreadingHTTPServer:
    """Serve the yardstick."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_page = self.path == "/"
            body = _PLAIN if is_page else document()
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if is_page else "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Measure, and write the page of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    page = Page(Played(arguments.tasks))
    watcher = page.watch("played")
    with (
        Server(page, "127.0.0.1", 0) as server,
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=find(CHROMIUM), args=["--no-sandbox"]
        ) as browser,
    ):
        yardstick = plain(watcher.edition.whole)
        plain_url = f"http://127.0.0.1:{yardstick.server_port}/"
        # In turns: what else the machine does meets both.
        runs = [(opened(browser, server.url), opened(browser, plain_url)) for _ in range(RUNS)]
        own = measure(browser, server.url, arguments.seconds, [mine for mine, _ in runs])
        server_before, began = sum(psutil.Process().cpu_times()[:2]), time.monotonic()
        time.sleep(5)
        server_share = (sum(psutil.Process().cpu_times()[:2]) - server_before) / (
            time.monotonic() - began
        )
        other = measure(browser, plain_url, arguments.seconds, [theirs for _, theirs in runs])
        yardstick.shutdown()
    TABLE.write_text(report(arguments, own, other, server_share))
    print(TABLE.read_text())


def report(arguments: argparse.Namespace, own: Measured, other: Measured, server: float) -> str:
    """Return the page of results."""
    first = own.first_s[RUNS // 2]
    rows = [
        ("first paint, median of 5", *(f"{m.first_s[RUNS // 2]:.2f} s" for m in (own, other))),
        ("first paint, slowest of 5", *(f"{m.first_s[-1]:.2f} s" for m in (own, other))),
        ("all drawn, median of 5", *(f"{m.all_s[RUNS // 2]:.2f} s" for m in (own, other))),
        (
            "processor time of the page's main thread until then",
            *(f"{m.busy_s[RUNS // 2]:.2f} s" for m in (own, other)),
        ),
        ("the page's process, of a core", *(f"{m.page_share:.1%}" for m in (own, other))),
        ("all of the browser, of a core", *(f"{m.browser_share:.1%}" for m in (own, other))),
        ("sent each second", *(f"{m.sent_kb:.0f} kB" for m in (own, other))),
    ]
    lines = [
        "# The page",
        "",
        f"`python -m benchmarks.web`: {arguments.tasks:,} tasks, of which all change every second,",
        "in headless Chromium, which draws without a graphics card. The yardstick is a page with",
        "one plain table of the same tasks, written anew every second. First paint is when the",
        "first screen has its values: topology, numbers, decisions. Tiles and table come after it.",
        measured(),
        "",
        "| | the page | a plain table |",
        "| --- | --- | --- |",
        *(f"| {what} | {mine} | {others} |" for what, mine, others in rows),
        "",
        f"The server takes {server:.1%} of a core to look at the application, compare and write,",
        "however many look on.",
        "",
        f"- first paint {first:.2f} s: {verdict(first, PAINT_GOAL_S, PAINT_FLOOR_S)}",
        (
            f"- the page's process {own.page_share:.1%} of a core: "
            f"{verdict(own.page_share, SHARE_GOAL, None)} (goal {SHARE_GOAL:.0%})"
        ),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
