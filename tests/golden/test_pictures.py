"""The docs have a picture of every page and panel that they speak of, and none too many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from headwater_operator.dashboards import DASHBOARDS
from tests.golden.alerts import ALERTS
from tests.golden.boards import digest_of, drawn
from tests.golden.pictures import PICTURES, board_picture, panel_picture
from tests.support import pages

if TYPE_CHECKING:
    from headwater_operator.dashboards.alerts import Alert
    from headwater_operator.dashboards.panels import Dashboard

MOST_BYTES = 6_000_000
"""Of all pictures: everybody who clones the repository has them."""
DOCS = pages.ROOT / "docs"


def named() -> set[str]:
    """The pictures that pages name."""
    texts = [path.read_text() for path in (pages.ROOT / "README.md", *DOCS.glob("*.md"))]
    return {name for text in texts for name in re.findall(r"pictures/([\w.-]+)", text)}


def test_pages_name_every_picture_and_no_other() -> None:
    assert named() == {path.name for path in PICTURES.iterdir()}


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_a_dashboard_has_a_picture_of_all_its_panels(board: Dashboard) -> None:
    assert f"(pictures/{board_picture(board)})" in (DOCS / "dashboards.md").read_text()


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_the_picture_of_a_dashboard_is_of_its_present_json(board: Dashboard) -> None:
    told = "draw it anew: python -m tests.golden.pictures, with local, operator or spark"

    assert drawn().get(board.uid) == digest_of(board.uid), told


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_section_of_an_alert_shows_its_panel(alert: Alert) -> None:
    page = (DOCS / "runbook.md").read_text()
    [section] = re.findall(rf"(?ms)^### {alert.name}\n(.*?)(?=^##|\Z)", page)

    assert f"(pictures/{panel_picture(alert.dashboard, alert.panel)})" in section
