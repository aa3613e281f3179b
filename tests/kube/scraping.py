"""A Prometheus that reads the operator and the workers of a cluster whose pods are processes."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from headwater.model.podcontract import HTTP_PORT
from headwater_operator.dashboards import DASHBOARDS, FLEET, OPERATOR
from headwater_operator.dashboards.of_operator import NAMESPACE, OF_OPERATOR, SERVICE
from headwater_operator.kube.api import PODS, STREAM_APPS
from headwater_operator.kube.errors import ApiUnavailableError
from tests.kube.installed import RELEASE
from tests.support import prometheus
from tests.support.shown import Shown, configuration, until_shown, write_targets
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.deployed import Operators
    from tests.kube.journey import Journey

_OPERATORS: Final = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
_WORKERS: Final = "app.kubernetes.io/name=headwater,app.kubernetes.io/component in (worker, driver)"
"""As the chart's PodMonitor selects them."""
_METRICS: Final = "metrics"
COPY: Final = "copy"


@contextmanager
def scraped_workers(
    journey: Journey, directory: Path, token: str = ""
) -> Iterator[prometheus.Prometheus]:
    """Run a Prometheus that reads a user's workers, whichever there are.

    Args:
        journey: the user.
        directory: for its files.
        token: is shown to workers; empty: none.
    """
    targets, ended = directory / "targets-workers.json", threading.Event()

    def follow() -> None:
        while not ended.is_set():
            with suppress(ApiUnavailableError):
                found = _endpoints(journey, journey.namespace, _WORKERS)
                write_targets(targets, found, namespace=journey.namespace)
            ended.wait(0.5)

    thread = threading.Thread(target=follow, name="follows pods", daemon=True)
    config = configuration(targets, token)
    with prometheus.running(directory / "prometheus-workers", config) as server:
        thread.start()
        try:
            yield server
        finally:
            ended.set()
            thread.join(60)


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
    """Check that the operator's alerts rest, and that each of its panels has data.

    Some StreamApp has ``spec.autoscaling``. Another one comes that cannot run: it has the
    application id of the first.
    """
    check_maps(operators)
    namespace, began = operators.namespace, time.time()
    journey = operators.journey
    write_targets(
        directory / "targets-operator.json",
        _endpoints(journey, namespace, _OPERATORS),
        namespace=namespace,
        service=_METRICS,
        pod="operator-0",
    )
    workers = _endpoints(journey, journey.namespace, _WORKERS)
    write_targets(directory / "targets-workers.json", workers, namespace=journey.namespace)
    config = configuration(directory / "targets-*.json")
    with prometheus.running(directory / "prometheus", config) as server:
        fleet = Shown(server, began, {"namespace": [journey.namespace]})
        journey.until(
            lambda: fleet.most(FLEET, "Workers", time.time()) == len(workers), "all to be scraped"
        )
        assert workers
        asked = [
            it.promql.replace(NAMESPACE, namespace).replace(SERVICE, _METRICS) for it in OF_OPERATOR
        ]
        wait_for(lambda: not any(map(server.instant, asked)), what="all alerts to rest")
        with copied(journey):
            until_shown(Shown(server, began, {"namespace": [namespace]}), OPERATOR)


@contextmanager
def copied(journey: Journey) -> Iterator[None]:
    """Have another StreamApp with the same application id in the block: it must not run."""
    first = journey.api.get(STREAM_APPS, journey.namespace, journey.app)
    assert first is not None
    journey.apply({**first, "metadata": {"name": COPY}, "status": {}})
    try:
        yield
    finally:
        journey.kubectl("delete", "sapp", COPY, "--timeout=60s")


def _endpoints(journey: Journey, namespace: str, labels: str) -> list[str]:
    found = journey.api.list(PODS, namespace, labels=labels)
    addresses = [(each.get("status") or {}).get("podIP") for each in found]
    return [f"{address}:{HTTP_PORT}" for address in addresses if address]
