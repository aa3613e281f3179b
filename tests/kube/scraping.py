"""A Prometheus that reads the operator and the workers of a cluster whose pods are processes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from headwater.model.podcontract import HTTP_PORT
from headwater_operator.dashboards import DASHBOARDS, FLEET, OPERATOR
from headwater_operator.dashboards.of_operator import NAMESPACE, OF_OPERATOR, SERVICE
from headwater_operator.kube.api import PODS
from tests.kube.installed import RELEASE
from tests.support import prometheus
from tests.support.shown import Shown, configuration, until_shown, write_targets

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.deployed import Operators

_OPERATORS: Final = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
_WORKERS: Final = "app.kubernetes.io/name=headwater,app.kubernetes.io/component in (worker, driver)"
"""As the chart's PodMonitor selects them."""
_METRICS: Final = "metrics"
WITHOUT: Final = {
    "Problems": "no StreamApp has one",
    "Workers by load": "no StreamApp has spec.autoscaling",
    "Why so many workers": "no StreamApp has spec.autoscaling",
}
"""Panels of the operator without data, with the reason."""


def check_maps(operators: Operators) -> None:
    """Check that Grafana's sidecar finds every dashboard, whole, and its folder."""
    options = ("--selector=grafana_dashboard=1", "--output=json")
    found = json.loads(operators.kubectl("get", "configmaps", *options))["items"]
    texts = {name: text for each in found for name, text in each["data"].items()}

    assert {name: json.loads(text)["uid"] for name, text in texts.items()} == {
        f"{board.uid}.json": board.uid for board in DASHBOARDS
    }
    for each in found:
        assert each["metadata"]["annotations"]["grafana_folder"] == "Headwater"


def check_panels(operators: Operators, directory: Path) -> None:
    """Check that the operator's panels have data, and that its alerts rest."""
    check_maps(operators)
    namespace, began = operators.namespace, time.time()
    apps = operators.journey.namespace
    write_targets(
        directory / "targets-operator.json",
        _endpoints(operators, namespace, _OPERATORS),
        namespace=namespace,
        service=_METRICS,
        pod="operator-0",
    )
    workers = _endpoints(operators, apps, _WORKERS)
    write_targets(directory / "targets-workers.json", workers, namespace=apps)
    config = configuration(directory / "targets-*.json")
    with prometheus.running(directory / "prometheus", config) as server:
        until_shown(Shown(server, began, {"namespace": [namespace]}), OPERATOR, WITHOUT)
        fleet = Shown(server, began, {"namespace": [apps]})
        assert fleet.most(FLEET, "Workers", time.time()) == len(workers) > 0
        for alert in OF_OPERATOR:
            text = alert.promql.replace(NAMESPACE, namespace).replace(SERVICE, _METRICS)
            assert server.instant(text) == [], alert.name


def _endpoints(operators: Operators, namespace: str, labels: str) -> list[str]:
    found = operators.journey.api.list(PODS, namespace, labels=labels)
    return [f"{each['status']['podIP']}:{HTTP_PORT}" for each in found]
