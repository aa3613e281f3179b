"""Makes the pictures of the docs: ``python -m tests.golden.pictures`` writes ``docs/pictures``.

A real local cluster runs an example on a private Kafka and is fed for some minutes; meanwhile both
workers are killed and have lost their disks, and the application is scaled from two workers to
three. A Prometheus scrapes it. The page is shown as it is; Grafana's dashboards are drawn from
their JSON. The pictures are looked at by people; no test compares them. A name picks a run:
``python -m tests.golden.pictures local``.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from headwater_operator.dashboards import (
    APPLICATION,
    DASHBOARDS,
    FLEET,
    OPERATOR,
    SPARK,
    STATE,
    WORKER,
)
from headwater_operator.local.observe import read_process, read_report, read_worker
from tests.golden.alerts import ALERTS
from tests.golden.boards import (
    DRAWN,
    answered,
    board_of,
    digest_of,
    drawing,
    drawn,
    scraped_for,
    take_board,
    take_terminal,
)
from tests.support import prometheus
from tests.support.browser import chromium, opened
from tests.support.local_cluster import LocalCluster
from tests.support.shown import configuration, write_targets
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from playwright.sync_api import Browser, Page

    from headwater_operator.dashboards.panels import Dashboard
    from tests.golden.boards import Drawing

APP: Final = "click-stream"
NAMESPACE: Final = "shop"
"""As Prometheus adds it to what it reads."""
PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES: Final = 180_000
_USERS: Final = 4_000
_FED_S: Final = 100
_DOCUMENT: Final[dict[str, Any]] = {
    "apiVersion": "headwater.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": APP},
    "spec": {
        "topology": {"module": "examples.click_stream.app:build"},
        "replicas": 2,
        "threadsPerWorker": 2,
        "processingGuarantee": "exactly_once_v2",
        "assignment": {"standbyReplicas": 1},
        "autoscaling": {"minReplicas": 1, "maxReplicas": 6, "targetCatchUp": "2m"},
        "config": {
            "metrics.recording.level": "DEBUG",
            "statistics.interval.ms": 500,
            "deserialization.exception.handler": "log-and-continue",
            "errors.dead.letter.queue.topic.name": "dead-letters",
        },
        "kafka": {
            "topics": [
                {"name": name, "partitions": 8}
                for name in ("page-views", "user-profiles", "searches", "user-activities")
            ]
            + [{"name": "dead-letters", "partitions": 1}]
        },
    },
}


class Feed(threading.Thread):
    """Feeds views and searches of some thousand users, whose profiles change now and then."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self._random = random.Random(1)
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20})

    def run(self) -> None:
        """Feed until told to end."""
        for number in range(_USERS):
            self._send("user-profiles", f"user-{number}", {"name": f"user {number}"})
        while not self.ended.wait(0.05):
            for _ in range(40):
                user = f"user-{self._random.randrange(_USERS)}"
                self._send("page-views", user, {"page": f"/products/{hash(user) % 100}"})
                if self._random.random() < 0.001:
                    self._producer.produce("page-views", key=user, value=b"\xff")
                if self._random.random() < 0.4:
                    self._send("searches", user, {"terms": "carving skis"})
                if self._random.random() < 0.1:
                    self._send("user-profiles", user, {"name": user})
        self._producer.flush(10)

    def _send(self, topic: str, key: str, value: dict[str, object]) -> None:
        self._producer.produce(topic, key=key, value=json.dumps(value))
        self._producer.poll(0)


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes:
        name: of its file.
        scheme: dark or light.
        width: of the window.
        height: of the window.
        section: that is brought into view; empty for the top.
        button: that is pressed there.
        scale: pixels for each.
    """

    name: str
    scheme: str = "dark"
    width: int = 1280
    height: int = 800
    section: str = ""
    button: str = ""
    scale: float = 1.0


SHOWN: Final = (
    *dict.fromkeys((alert.dashboard, alert.panel) for alert in ALERTS),
    (OPERATOR, "Workers by load"),
    (WORKER, "What a thread does"),
    (STATE, "Size of the files"),
)
"""Panels with a picture of their own, for the pages that speak of them."""
ALL: Final = (
    Picture("page-dark"),
    Picture("page-light", scheme="light"),
    Picture("page-tasks", section="workers", height=760),
    Picture("page-charts", section="charts", height=716),
    Picture("page-charts-state", section="charts", button="State", height=716),
    Picture("page-charts-workers", section="charts", button="Workers", height=716),
    Picture("page-journey", section="way", height=760),
    Picture("page-journey-record", section="journey", height=420),
    Picture("page-decisions", section="decisions", width=1120, height=420),
    Picture("page-autoscaling", height=242),
    Picture("page-phone", width=390, height=844),
)


def take(browser: Browser, url: str, picture: Picture) -> None:
    """Open the page as a picture wants it, and write it down."""
    options = {
        "color_scheme": picture.scheme,
        "viewport": {"width": picture.width, "height": picture.height},
        "device_scale_factor": picture.scale,
        "reduced_motion": "reduce",
    }
    with opened(browser, url, **options) as tab:
        tab.wait_for_selector("#drawing > *")
        if picture.section:
            _show(tab, picture)
        tab.wait_for_timeout(4_000)
        if picture.section not in {"", "way"}:  # what stands above may have grown
            _scroll(tab, picture.section)
            tab.wait_for_timeout(500)
        path = PICTURES / f"{picture.name}.png"
        tab.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    assert size <= MOST_BYTES, f"{path.name} is too large for the repository"


def _show(tab: Page, picture: Picture) -> None:
    if picture.section in {"way", "journey"}:
        tab.select_option(".journey-form select", "page-views")
        tab.fill(".journey-form [aria-label=Key]", "user-7")
        tab.fill(".journey-form [aria-label=Value]", '{"page": "/products/42"}')
        tab.keyboard.press("Enter")
        tab.locator(".journey-answer table").wait_for()
        return
    if picture.section == "workers":
        tab.locator("article.worker .tile").first.click()
    _scroll(tab, picture.section)
    if picture.button:
        place = tab.locator(f"#{picture.section}")
        place.get_by_role("button", name=picture.button, exact=True).click()


def _scroll(tab: Page, section: str) -> None:
    tab.evaluate(f"document.getElementById('{section}').scrollIntoView()")


def main() -> None:
    """Make all pictures, or those of the runs that are named."""
    PICTURES.mkdir(exist_ok=True)
    runs = {"local": local_run, "operator": operator_pictures, "spark": spark_pictures}
    runs["plan"] = plan_picture
    with drawing() as shown, chromium() as browser:
        for name in sys.argv[1:] or runs:
            runs[name](browser, shown)


def operator_pictures(browser: Browser, shown: Drawing) -> None:
    """Run operators on an API server; show their page, their dashboard, and a StreamAction."""
    from tests.golden import operator_run

    def page(url: str) -> None:
        address = f"{url}?app={operator_run.NAMESPACE}/orders"
        take(browser, address, Picture("page-operator", section="workers", height=760))

    told = operator_run.run(page)
    draw_board(browser, shown, OPERATOR.uid, told.board)
    for name, (command, output) in zip(("get", "describe"), told.commands.items(), strict=True):
        take_terminal(browser, shown, command, output, PICTURES / f"action-{name}.webp")


def spark_pictures(browser: Browser, shown: Drawing) -> None:
    """Run an application on Spark; show its dashboard."""
    from tests.golden import spark_run

    def page(url: str) -> None:
        take(browser, url, Picture("page-spark"))

    draw_board(browser, shown, SPARK.uid, spark_run.run(page))


def plan_picture(browser: Browser, shown: Drawing) -> None:
    """Show what an application is estimated to need."""
    found = ["plan", "-f", "examples/word_count/streamapp.yaml", "--rate", "50,000"]
    command = [*found, "--keys", "5,000,000"]
    output = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", *command],
        capture_output=True,
        text=True,
        check=True,
        cwd=PICTURES.parents[1],
    ).stdout
    take_terminal(browser, shown, f"headwater {' '.join(command)}", output, PICTURES / "plan.webp")


def local_run(browser: Browser, shown: Drawing) -> None:
    """Run the example with a kill and a scale; show the page and the dashboards of workers."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(Path(folder), APP) as cluster,
        prometheus.running(
            Path(folder) / "prometheus", configuration(Path(folder) / "targets.json")
        ) as server,
    ):
        write_targets(Path(folder) / "targets.json", [])
        frozen = Path(folder) / "frozen"
        frozen.write_text("nobody yet")
        cluster.up(_DOCUMENT, "--web", "0", HEADWATER_FAILPOINTS=f"restore.applied=stop!{frozen}")
        wait_for(lambda: _runs(cluster, 2), what="two workers")
        feed = Feed(cluster.supervisor.kafka.bootstrap_servers)
        feed.start()
        began = time.time()
        scraping = Scraping(cluster, Path(folder) / "targets.json")
        scraping.start()
        feed.ended.wait(_FED_S / 2)
        _lose_the_disks(cluster, frozen)
        feed.ended.wait(_FED_S / 4)
        cluster.command("scale", APP, "--replicas", "3")
        wait_for(lambda: _runs(cluster, 3), what="three workers", timeout_s=240)
        feed.ended.wait(_FED_S / 2)
        url = re.search(r"page: (http://\S+)", cluster.output)
        assert url is not None, cluster.output
        for picture in ALL:
            take(browser, url[1], picture)
        with _page_that_acts(cluster, Path(folder)) as acting:
            take(browser, acting, Picture("page-scale", section="actions", button="Scale"))
        boards = {
            board.uid: answered(
                board_of(board.uid), server, (began, time.time()), {"namespace": NAMESPACE}
            )
            for board in (FLEET, APPLICATION, WORKER, STATE)
        }
        feed.ended.set()
        feed.join()
        del feed
        scraping.ended.set()
        cluster.interrupt()
        wait_for(lambda: not cluster.is_up(), what="the end of the cluster")
    for uid, data in boards.items():
        draw_board(browser, shown, uid, data)


def draw_board(browser: Browser, shown: Drawing, uid: str, data: Mapping[str, Any]) -> None:
    """Draw a dashboard, and the panel of each alert that leads to it."""
    board = next(each for each in DASHBOARDS if each.uid == uid)
    panels = {
        board.panel_id(title): PICTURES / panel_picture(board, title)
        for shown_board, title in SHOWN
        if shown_board is board
    }
    take_board(browser, shown, data, PICTURES / board_picture(board), panels)
    digests = dict(sorted({**drawn(), uid: digest_of(uid)}.items()))
    DRAWN.write_text(f"{json.dumps(digests, indent=2)}\n")


def board_picture(board: Dashboard) -> str:
    """Return the name of the picture of a dashboard."""
    return f"{board.uid.replace('headwater', 'board')}.webp"


def panel_picture(board: Dashboard, title: str) -> str:
    """Return the name of the picture of a panel."""
    name = re.sub(r"[^a-z]+", "-", title.lower()).strip("-")
    return f"{board.uid.replace('headwater', 'panel')}-{name}.webp"


class Scraping(threading.Thread):
    """Tells Prometheus of the workers that there are."""

    def __init__(self, cluster: LocalCluster, targets: Path) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self._app = cluster.cluster.app(APP)
        self._targets = targets

    def run(self) -> None:
        """Look each second."""
        while not self.ended.wait(1):
            workers = map(read_worker, self._app.workers())
            found = [it.status.endpoint for it in workers if it is not None and it.status.endpoint]
            write_targets(self._targets, found, namespace=NAMESPACE)


@contextmanager
def _page_that_acts(cluster: LocalCluster, folder: Path) -> Iterator[str]:
    """Serve the page with a token, which makes it one that may scale and pause."""
    (folder / "token").write_text("a-token-for-a-picture")
    (folder / "token").chmod(0o600)
    command = [sys.executable, "-u", "-m", "headwater.cli.main", "web", "--web", "0"]
    where = ["--web-token-file", str(folder / "token"), "--home", str(cluster.cluster.root)]
    with (folder / "page").open("wb") as output:
        process = subprocess.Popen([*command, *where], stdout=output, stderr=output)
    try:
        said = wait_for(
            lambda: re.search(r"http://\S+", (folder / "page").read_text()), what="a second page"
        )
        yield said[0]
    finally:
        process.terminate()
        process.wait(30)


def _lose_the_disks(cluster: LocalCluster, frozen: Path) -> None:
    """Kill both workers, which have lost their disks, and let a restore take some scrapes.

    Args:
        cluster: where they run.
        frozen: gone, it lets the next restore stand still, and then says in which process.
    """
    app = cluster.cluster.app(APP)
    for worker in app.workers():
        process = read_process(worker)[1]
        assert process is not None
        state = app.state(worker.name)
        while state.exists():  # threads go on writing until they notice
            shutil.rmtree(state, ignore_errors=True)
        os.kill(process.pid, signal.SIGKILL)
    frozen.unlink()
    pid = wait_for(lambda: frozen.exists() and frozen.read_text(), what="a restore", timeout_s=240)
    with suppress(ProcessLookupError):  # it may have been replaced meanwhile
        for _ in range(10):
            scraped_for(1)
            os.kill(int(pid), signal.SIGCONT)
            scraped_for(0.02)
            os.kill(int(pid), signal.SIGSTOP)
        os.kill(int(pid), signal.SIGCONT)


def _runs(cluster: LocalCluster, replicas: int) -> bool:
    status = read_report(cluster.cluster.app(APP)).status
    return status.state == "RUNNING" and status.ready_replicas == replicas


if __name__ == "__main__":
    main()
