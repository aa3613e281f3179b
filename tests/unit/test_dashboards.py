"""Grafana's dashboards: each panel shows numbers that workers have, by labels that they have."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.golden.chart import CHART
from tests.golden.dashboards import BOARDS, NAMED, Board, Panel, dashboards, query, unit_of

from headwater.model.metrics import Scope

PANELS = [(board, panel) for board in BOARDS for panels in board.rows.values() for panel in panels]


@pytest.mark.parametrize(
    ("board", "panel"), PANELS, ids=[f"{board.uid}: {panel.title}" for board, panel in PANELS]
)
def test_a_panel_shows_metrics_of_the_table_by_labels_that_they_have(
    board: Board, panel: Panel
) -> None:
    of_scraping = {"job", "namespace"}
    for name in panel.metrics:
        metric = NAMED[name]
        assert metric.is_scraped
        assert {*panel.by, *board.variables} - of_scraping <= set(metric.labels), name
    assert unit_of(panel)


def test_a_counter_is_shown_by_its_growth_and_a_gauge_as_it_is() -> None:
    panel = Panel("", (), ("task_id",), "max")
    chosen = '{namespace=~"$namespace", client_id=~"$client_id"}'

    assert query(panel, NAMED["stream_task_process_total"], ("client_id",)) == (
        f"max by (task_id) (rate(stream_task_process_total{chosen}[$__rate_interval]))"
    )
    assert query(panel, NAMED["stream_task_records_lag"], ("client_id",)) == (
        f"max by (task_id) (stream_task_records_lag{chosen})"
    )


def test_a_panel_of_several_units_is_refused() -> None:
    mixed = Panel("mixed", ("stream_task_records_lag", "stream_task_cache_size_bytes"), ())

    with pytest.raises(ValueError, match="panel 'mixed' has several units"):
        unit_of(mixed)


def test_what_is_committed_names_every_metric_as_the_table_does() -> None:
    for name, text in dashboards().items():
        committed = (CHART / "files" / "dashboards" / name).read_text()
        assert committed == text, "run: make crds"
        board: dict[str, Any] = json.loads(committed)
        queries = [each["expr"] for panel in board["panels"] for each in panel.get("targets", [])]
        named = {found for it in queries for found in re.findall(r"\b[a-z_]+(?=\{)", it)}
        assert named
        assert named <= NAMED.keys()


def test_every_kind_of_number_has_a_panel() -> None:
    shown = {NAMED[name].scope for _, panel in PANELS for name in panel.metrics}

    assert set(Scope) - shown == {Scope.USER}
