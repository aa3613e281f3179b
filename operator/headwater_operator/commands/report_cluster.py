"""What a report has of an application on a cluster: what its namespace shows whoever asks."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater.model.podcontract import HTTP_PORT
from headwater_operator.commands.podlogs import pods_of
from headwater_operator.kube.api import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    STREAM_APPS,
    STREAM_WORKERS,
)
from headwater_operator.manifests.names import of_app

if TYPE_CHECKING:
    from headwater_operator.commands.places import OnCluster
    from headwater_operator.commands.podlogs import Pod
    from headwater_operator.commands.report import Report
    from headwater_operator.kube.api import Resource

_KINDS: Final = (
    STREAM_WORKERS,
    PODS,
    LEASES,
    CLAIMS,
    CONFIG_MAPS,
    SERVICES,
    BUDGETS,
    NETWORK_POLICIES,
)
"""No Secrets: what is not read cannot be sent."""
_HTTP: Final = {"/tasks": "json", "/metrics": "txt"}
_OPERATOR: Final = "app.kubernetes.io/name=headwater,app.kubernetes.io/component=operator"


def collect(report: Report, place: OnCluster, app: str, *, lines: int) -> None:
    """Add resources, events, logs, metrics and versions.

    Args:
        report: gets them.
        place: where the application is.
        app: its name.
        lines: of each log.
    """
    client, namespace = place.client, place.namespace
    labels = of_app(app)

    def resources(kind: Resource) -> None:
        found = client.list(kind, namespace, labels=labels)
        report.resources(kind.plural, found)

    def stream_app() -> None:
        found = client.get(STREAM_APPS, namespace, app)
        report.resources(STREAM_APPS.plural, [] if found is None else [found])

    def events() -> None:
        found = client.list(EVENTS, namespace)
        about = [
            each
            for each in found
            if (name := str((each.get("involvedObject") or {}).get("name") or "")) == app
            or name.startswith(f"{app}-")
        ]
        report.resources(EVENTS.plural, about)

    def version() -> None:
        report.versions["kubernetes"] = client.server_version()

    report.attempt("the StreamApp", stream_app)
    for kind in _KINDS:
        report.attempt(kind.plural, partial(resources, kind))
    report.attempt("events", events)
    report.attempt("the version of Kubernetes", version)
    found: list[Pod] = []
    report.attempt("pods", lambda: found.extend(pods_of(place, app)))
    for pod in found:
        report.attempt(f"the log of {pod.name}", partial(_log, report, place, pod, lines))
        for path in _HTTP:
            report.attempt(f"{path} of {pod.name}", partial(_http, report, place, pod, path))
    report.attempt("the operator", lambda: _operator(report, place, lines))


def _log(report: Report, place: OnCluster, pod: Pod, lines: int) -> None:
    found = place.client.pod_log(place.namespace, pod.name, pod.container, lines=lines)
    report.text(f"logs/{pod.name}.log", "".join(f"{line}\n" for line in found))


def _http(report: Report, place: OnCluster, pod: Pod, path: str) -> None:
    status, body = place.client.ask_pod(place.namespace, pod.name, HTTP_PORT, path)
    if status != 200:
        raise ValueError(f"HTTP status {status}")
    name = f"http/{pod.name}{path}.{_HTTP[path]}"
    text = body.decode(errors="replace")
    if _HTTP[path] == "json":
        report.document(name, json.loads(text))
    else:
        report.text(name, text)


def _operator(report: Report, place: OnCluster, lines: int) -> None:
    for manifest in place.client.list(PODS, None, labels=_OPERATOR):
        metadata = manifest["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        container = manifest["spec"]["containers"][0]
        report.versions[f"image of {name}"] = str(container.get("image"))
        found = place.client.pod_log(namespace, name, container["name"], lines=lines)
        report.text(f"logs/operator/{name}.log", "".join(f"{line}\n" for line in found))
