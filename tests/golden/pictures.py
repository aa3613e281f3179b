"""Makes the pictures of the page: ``python -m tests.golden.pictures`` writes ``docs/pictures``.

A real local cluster runs an example on a private Kafka and is fed for two minutes; meanwhile it is
scaled from two workers to three, so that copies, moves and reasons are to be seen. The pictures are
looked at by people; no test compares them.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from headwater_operator.local.observe import read_report
from tests.support.browser import chromium, opened
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

APP: Final = "click-stream"
PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES: Final = 150_000
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
        "kafka": {
            "topics": [
                {"name": name, "partitions": 8}
                for name in ("page-views", "user-profiles", "searches", "user-activities")
            ]
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
        scale: pixels for each.
    """

    name: str
    scheme: str = "dark"
    width: int = 1280
    height: int = 800
    section: str = ""
    scale: float = 1.0


ALL: Final = (
    Picture("page-dark"),
    Picture("page-light", scheme="light"),
    Picture("page-tasks", section="workers", height=760),
    Picture("page-charts", section="charts", height=720),
    Picture("page-journey", section="journey", height=760),
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
        tab.wait_for_selector("#drawing svg")
        if picture.section:
            _show(tab, picture.section)
        tab.wait_for_timeout(4_000)
        path = PICTURES / f"{picture.name}.png"
        tab.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    assert size <= MOST_BYTES, f"{path.name} is too large for the repository"


def _show(tab: Page, section: str) -> None:
    if section == "journey":
        tab.select_option(".journey-form select", "page-views")
        tab.fill(".journey-form [aria-label=Key]", "user-7")
        tab.fill(".journey-form [aria-label=Value]", '{"page": "/products/42"}')
        tab.keyboard.press("Enter")
        tab.locator(".journey-answer table").wait_for()
        return
    if section == "workers":
        tab.locator("article.worker .tile").first.click()
    tab.evaluate(f"document.getElementById('{section}').scrollIntoView()")


def main() -> None:
    """Run the example, and take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(Path(folder), APP) as cluster,
        chromium() as browser,
    ):
        cluster.up(_DOCUMENT, "--web", "0")
        wait_for(lambda: _runs(cluster, 2), what="two workers")
        feed = Feed(cluster.supervisor.kafka.bootstrap_servers)
        feed.start()
        feed.ended.wait(_FED_S / 2)
        cluster.command("scale", APP, "--replicas", "3")
        wait_for(lambda: _runs(cluster, 3), what="three workers")
        feed.ended.wait(_FED_S / 2)
        url = re.search(r"page: (http://\S+)", cluster.output)
        assert url is not None, cluster.output
        for picture in ALL:
            take(browser, url[1], picture)
        feed.ended.set()
        feed.join()
        del feed
        cluster.interrupt()
        wait_for(lambda: not cluster.is_up(), what="the end of the cluster")


def _runs(cluster: LocalCluster, replicas: int) -> bool:
    status = read_report(cluster.cluster.app(APP)).status
    return status.state == "RUNNING" and status.ready_replicas == replicas


if __name__ == "__main__":
    main()
