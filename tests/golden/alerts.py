"""Makes the chart's alerts from ``headwater_operator.dashboards``: ``make crds``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from headwater_operator.dashboards.of_applications import OF_APPLICATIONS
from headwater_operator.dashboards.of_operator import OF_OPERATOR

if TYPE_CHECKING:
    from headwater_operator.dashboards.alerts import Alert

ALERTS: Final = (*OF_OPERATOR, *OF_APPLICATIONS)
"""All of them."""
_NOTE: Final = "# Written by `make crds` from headwater_operator/dashboards. Do not edit.\n"


def alerts_file() -> str:
    """Return the file that the chart's template reads: groups of alerts."""
    groups = {"operator": OF_OPERATOR, "applications": OF_APPLICATIONS}
    told = {name: [_entry(alert) for alert in alerts] for name, alerts in groups.items()}
    return _NOTE + yaml.safe_dump(told, sort_keys=False, width=10_000)


def _entry(alert: Alert) -> dict[str, str]:
    return {
        "alert": alert.name,
        "expr": alert.promql,
        "for": alert.lasting,
        "severity": alert.severity.value,
        "summary": alert.summary,
        "description": alert.description,
        "section": alert.section,
        "panel": alert.panel_url,
    }
