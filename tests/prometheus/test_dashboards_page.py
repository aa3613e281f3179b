"""What docs/dashboards.md lets people configure is understood: by the chart and by Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.golden.chart import CHART
from tests.support.pages import blocks
from tests.support.prometheus import promtool

from headwater_operator.dashboards import DASHBOARDS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes


def check(given: dict[str, Any], known: dict[str, Any]) -> None:
    for name, value in given.items():
        if isinstance(value, dict):
            check(value, known[name])
        else:
            assert type(value) is type(known[name]), name


def test_the_resources_on_the_page_are_understood(tmp_path: Path) -> None:
    values, config = blocks("dashboards.md", "yaml")
    path = tmp_path / "prometheus.yaml"
    path.write_text(config)

    check(yaml.safe_load(values), yaml.safe_load((CHART / "values.yaml").read_text()))
    assert "SUCCESS" in promtool("check", "config", str(path))


def test_the_page_lists_every_dashboard_with_its_question() -> None:
    page = (CHART.parents[1] / "docs" / "dashboards.md").read_text()

    for board in DASHBOARDS:
        assert f"| {board.title} | {board.description} |" in page
