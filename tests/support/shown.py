"""Whether panels have data of a live run: asked of the Prometheus that has scraped it."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Final

from headwater.model.metrics import Unit
from headwater_operator.dashboards.promql import label_values, promql
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from headwater_operator.dashboards.panels import Dashboard, Expression, Panel
    from tests.support.prometheus import Answered, Prometheus

WINDOW: Final = "10s"
"""Of ten scrapes."""
_MOST: Final = {
    Unit.NONE: 2.0**53,
    Unit.RECORDS: 1e7,
    Unit.BYTES: 1e14,
    Unit.MS: 600_000,
    Unit.NS: 60e9,
    Unit.SECONDS: 3_600,
    Unit.RATIO: 1.05,
    Unit.PER_SECOND: 1e6,
    Unit.BYTES_PER_SECOND: 1e9,
}
"""Beyond this a number is of another unit than it says."""


def configuration(targets: Path, token: str = "") -> str:
    """Return what Prometheus is to scrape each second: what a file says.

    Args:
        targets: the file, or several by a pattern; ``write_targets`` writes one.
        token: is shown to each; empty: none.
    """
    job: dict[str, object] = {
        "job_name": "headwater",
        "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
    }
    if token:
        job["authorization"] = {"credentials": token}
    return json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]})


def write_targets(path: Path, endpoints: Iterable[str], **labels: str) -> None:
    """Let Prometheus scrape these, with labels as a PodMonitor adds them."""
    made = path.with_suffix(".new")
    made.write_text(json.dumps([{"targets": sorted(endpoints), "labels": labels}]))
    made.replace(path)


def until_shown(shown: Shown, board: Dashboard, but_for: Iterable[str] = ()) -> None:
    """Wait until every panel of a dashboard has data, but for some."""

    def lacking() -> list[str]:
        return shown.lacking(board, time.time(), but_for)

    try:
        wait_for(lambda: not lacking(), what=f"data of {board.uid}", timeout_s=90, every_s=1)
    except AssertionError as error:
        raise AssertionError(f"{board.uid}: no data of {lacking()}") from error
    shown.check_choices(board)


class Shown:
    """What a Prometheus has for dashboards.

    Args:
        server: that has scraped.
        since_s: when the run began.
        chosen: what a viewer has chosen.
    """

    def __init__(self, server: Prometheus, since_s: float, chosen: Mapping[str, list[str]]) -> None:
        self.server = server
        self.since_s = since_s
        self.chosen = chosen
        self._has_data: set[tuple[str, str]] = set()

    def lacking(self, board: Dashboard, now_s: float, but_for: Iterable[str] = ()) -> list[str]:
        """Return the panels that have no data yet, but for some."""
        found = []
        for panel in board:
            if panel.title in but_for or (board.uid, panel.title) in self._has_data:
                continue
            if all(self.has_data(board, panel, query, now_s) for query in panel.queries):
                self._has_data.add((board.uid, panel.title))
            else:
                found.append(panel.title)
        return found

    def has_data(self, board: Dashboard, panel: Panel, query: Expression, now_s: float) -> bool:
        """Whether a query has an answer; it must be a plausible one, by all its labels."""
        found = False
        for series in self.answers(board, query, now_s):
            assert set(query.by) - {"namespace"} <= series.labels.keys(), (panel, series.labels)
            numbers = [value for _, value in series.points if not math.isnan(value)]
            for value in numbers:
                assert 0 <= value <= _MOST[query.unit], (board.uid, panel.title, series)
            found = found or bool(numbers)
        return found

    def answers(self, board: Dashboard, query: Expression, now_s: float) -> list[Answered]:
        """Return what Prometheus answers to a query with its variables filled in."""
        labels = {variable.label for variable in board.variables}
        chosen = {label: values for label, values in self.chosen.items() if label in labels}
        text = promql(query, board.variables, window=WINDOW, chosen=chosen)
        return self.server.range(text, self.since_s, now_s, 1.0)

    def most(self, board: Dashboard, title: str, now_s: float) -> float:
        """Return the greatest number that a panel has shown."""
        panel = board.panel(title)
        points = [
            value
            for query in panel.queries
            for series in self.answers(board, query, now_s)
            for _, value in series.points
        ]
        return max(points, default=math.nan)

    def check_choices(self, board: Dashboard) -> None:
        """Check that each variable offers what was chosen, and that nothing fits another choice."""
        for index, variable in enumerate(board.variables):
            before = board.variables[:index]
            wanted = self.chosen.get(variable.label, [])
            selector = label_values(variable, before, self.chosen)
            assert set(wanted) <= set(self.server.label_values(variable.label, selector))
            for text in asked(board, {variable.label: ["nothing"]}):
                assert self.server.instant(text) == [], text


def asked(board: Dashboard, chosen: Mapping[str, list[str]]) -> list[str]:
    """Return all that a dashboard asks with a choice."""
    return [
        promql(query, board.variables, window=WINDOW, chosen=chosen)
        for panel in board
        for query in panel.queries
    ]
