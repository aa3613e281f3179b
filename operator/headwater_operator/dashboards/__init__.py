"""Dashboards as values, over the one table of metrics. Pure: imports ``headwater.model.metrics``.

    fleet, application, worker, state,
    spark, operator                             the dashboards
    panels                                       what they are made of
    promql                                       a query as text for Prometheus
    alerts                                       what somebody should look at, and at which panel
    history, evaluation, functions               a query's answer from samples in memory

Grafana's JSON is written from them by ``tests/golden/dashboards.py``; the live page draws them from
samples in memory. So the two show the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.dashboards.application import APPLICATION
from headwater_operator.dashboards.fleet import FLEET
from headwater_operator.dashboards.operator import OPERATOR
from headwater_operator.dashboards.spark import SPARK
from headwater_operator.dashboards.state import STATE
from headwater_operator.dashboards.worker import WORKER

if TYPE_CHECKING:
    from headwater_operator.dashboards.panels import Dashboard

DASHBOARDS: Final[tuple[Dashboard, ...]] = (FLEET, APPLICATION, WORKER, STATE, SPARK, OPERATOR)
"""All dashboards, in the order in which they are offered."""

__all__ = ["APPLICATION", "DASHBOARDS", "FLEET", "OPERATOR", "SPARK", "STATE", "WORKER"]
