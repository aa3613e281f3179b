"""Pictures of Grafana's dashboards, without Grafana: its JSON, asked of a real Prometheus.

A page draws the JSON that the chart ships, with the page's own colours and plotting library.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.web.routes import STATIC
from tests.golden.chart import CHART

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from playwright.sync_api import Browser, Page

    from tests.support.prometheus import Answered, Prometheus

HERE: Final = Path(__file__).parent
DRAWN: Final = HERE / "drawn.json"
"""Of which JSON the pictures are: the digest of each dashboard, by uid."""
WINDOW: Final = "15s"
"""In place of Grafana's ``$__rate_interval``: runs of pictures are scraped each second."""
QUALITY: Final = 78
_TYPES: Final = {".css": "text/css", ".html": "text/html", ".js": "text/javascript"}


def board_of(uid: str) -> dict[str, Any]:
    """Return Grafana's JSON of a dashboard as the chart ships it."""
    found: dict[str, Any] = json.loads((CHART / "files" / "dashboards" / f"{uid}.json").read_text())
    return found


def digest_of(uid: str) -> str:
    """Return what tells the JSON of a dashboard from any other."""
    return hashlib.sha256(json.dumps(board_of(uid), sort_keys=True).encode()).hexdigest()


def drawn() -> dict[str, str]:
    """Return the digests of the dashboards as their pictures show them, by uid."""
    found: dict[str, str] = json.loads(DRAWN.read_text()) if DRAWN.exists() else {}
    return found


def answered(
    board: Mapping[str, Any],
    server: Prometheus,
    between: tuple[float, float],
    chosen: Mapping[str, str],
) -> dict[str, Any]:
    """Return a dashboard with what Prometheus answers to all that it asks.

    Args:
        board: Grafana's JSON.
        server: that has scraped a run.
        between: when the run began and ended, in seconds.
        chosen: by variable, a pattern of what is chosen; all for one that is missing.
    """
    names = sorted((each["name"] for each in board["templating"]["list"]), key=len, reverse=True)

    def filled(expr: str) -> str:
        for name in names:
            expr = expr.replace(f"${name}", chosen.get(name, ".*"))
        return expr.replace("$__rate_interval", WINDOW)

    start, end = between
    step = max(1, round((end - start) / 240))
    panels = [each for row in board["panels"] for each in (row, *row.get("panels", ()))]
    return {
        "board": board,
        "range": {"start": math.ceil(start), "end": math.floor(end), "step": step},
        "answers": {
            panel["id"]: [
                [
                    _series(each)
                    for each in (
                        server.instant(filled(target["expr"]), end)
                        if target.get("instant")
                        else server.range(
                            filled(target["expr"]), math.ceil(start), math.floor(end), step
                        )
                    )
                ]
                for target in panel["targets"]
            ]
            for panel in panels
            if panel["type"] != "row"
        },
        "marks": [
            {
                "name": mark["name"],
                "points": _beginnings(
                    server.range(filled(mark["expr"]), math.ceil(start), math.floor(end), step),
                    4 * step,
                ),
            }
            for mark in board["annotations"].get("list", ())
        ],
    }


def _series(found: Answered) -> dict[str, Any]:
    points = [
        (at, value if math.isfinite(value) else None)
        for at, value in found.points
        if not math.isnan(value)
    ]
    return {"labels": found.labels, "points": points}


def _beginnings(series: list[Answered], apart_s: float) -> list[float]:
    """Return when marks begin: those that last are one."""
    times = sorted({at for each in series for at, _ in each.points})
    return [at for place, at in enumerate(times) if not place or at - times[place - 1] > apart_s]


def scraped_for(seconds: float) -> None:
    """Let Prometheus scrape for a while: lines have a length."""
    threading.Event().wait(seconds)


class Drawing:
    """Serves what is drawn next."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.data = "{}"
        self.text = ""


@contextmanager
def drawing() -> Iterator[Drawing]:
    """Serve the page that draws."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/answers.json":
                kind, body = "application/json", shown.data.encode()
            elif self.path == "/terminal":
                kind, body = "text/html; charset=utf-8", shown.text.encode()
            else:
                name = self.path.removeprefix("/static/")
                path = STATIC / name if name != self.path else HERE / self.path[1:]
                if not path.is_file():
                    self.send_error(404)
                    return
                kind, body = _TYPES.get(path.suffix, "font/woff2"), path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shown = Drawing(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield shown
    server.shutdown()
    thread.join()


def take_board(
    browser: Browser,
    shown: Drawing,
    data: Mapping[str, Any],
    path: Path,
    panels: Mapping[int, Path],
) -> None:
    """Draw a dashboard, and write pictures of the whole and of some of its panels.

    Args:
        browser: Chromium.
        shown: serves the page.
        data: of ``answered``.
        path: of the whole picture.
        panels: by a panel's number, the path of its picture.
    """
    shown.data = json.dumps(data)
    context = browser.new_context(
        color_scheme="light", viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
    )
    tab = context.new_page()
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(f"{shown.url}/board.html")
    tab.wait_for_selector("body[data-drawn]", timeout=120_000)
    tab.wait_for_timeout(500)
    box = tab.locator("body").bounding_box()
    assert box is not None
    write(tab, path, box)
    for number, target in panels.items():
        found = tab.locator(f"#panel-{number}").bounding_box()
        assert found is not None
        write(tab, target, found)
    context.close()
    assert problems == []


def take_terminal(browser: Browser, shown: Drawing, command: str, output: str, path: Path) -> None:
    """Write a picture of a command and of what it printed."""
    shown.text = (
        '<!doctype html><meta charset="utf-8"><style>body{margin:0;background:#0d1628}'
        "pre{margin:0;padding:16px 20px;color:#e8eef7;font:13px/1.5 'DejaVu Sans Mono',monospace;"
        "display:inline-block}b{color:#8cdcff;font-weight:400}</style>"
        f"<pre><b>$ {html.escape(command)}</b>\n{html.escape(output.rstrip())}</pre>"
    )
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    tab = context.new_page()
    tab.goto(f"{shown.url}/terminal")
    box = tab.locator("pre").bounding_box()
    assert box is not None
    write(tab, path, box)
    context.close()


def write(tab: Page, path: Path, box: Mapping[str, float]) -> None:
    """Write a picture of a part of a page as WebP."""
    session = tab.context.new_cdp_session(tab)
    clip = {**{name: box[name] for name in ("x", "y", "width", "height")}, "scale": 1}
    options = {"format": "webp", "quality": QUALITY, "captureBeyondViewport": True, "clip": clip}
    path.write_bytes(base64.b64decode(session.send("Page.captureScreenshot", options)["data"]))
    print(f"{path.name}: {path.stat().st_size:,} bytes")
