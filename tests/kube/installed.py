"""The chart installed on the control plane, with the operator of its Deployment as a process.

There are no nodes, so no container runs. The operator's pod exists all the same: its token is real,
and its variables and arguments are those that the process here is started with.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import yaml

from tests.golden.chart import CHART
from tests.kube.definitions import GROUP, VERSION
from tests.kube.fixtures import Command
from tests.kube.kubeconfig import kubeconfig, write_kubeconfig
from tests.kube.programs import find
from tests.kube.tokens import pod_token
from tests.support.documents import MINIMAL
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

RELEASE = "headwater"
_STOP_S = 60.0


@contextmanager
def namespaces(api: ApiClient, count: int) -> Iterator[list[str]]:
    """Fresh namespaces that take restricted pods only."""
    from kubernetes.client import CoreV1Api

    core = CoreV1Api(api)
    names = [f"test-{uuid4().hex[:8]}" for _ in range(count)]
    for name in names:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        core.create_namespace({"metadata": {"name": name, "labels": labels}})
    try:
        yield names
    finally:
        for name in names:
            core.delete_namespace(name)


def programs(admin: Path, namespace: str) -> tuple[Command, Command]:
    """Helm and kubectl as an administrator, in a namespace."""
    helm, kubectl = find("helm"), find("kubectl")
    return Command(helm, admin, namespace), Command(kubectl, admin, namespace)


@contextmanager
def release(helm: Command, *options: str, chart: Path = CHART) -> Iterator[str]:
    """The chart, installed; yields its notes. The tests' own definitions are there already."""
    try:
        yield helm("install", RELEASE, str(chart), "--set=crds.install=false", *options)
    finally:
        helm("uninstall", RELEASE, "--wait", "--ignore-not-found")


def run_app(api: ApiClient, namespace: str, name: str) -> None:
    """Create a StreamApp with two workers, whose volumes go with it."""
    from kubernetes.client import CustomObjectsApi

    body = yaml.safe_load(MINIMAL)
    body["metadata"]["name"] = name
    kafka = {"bootstrapServers": "kafka:9092"}
    state = {"retention": {"whenDeleted": "Delete"}}
    body["spec"] |= {"replicas": 2, "image": "example.com/app:1", "kafka": kafka, "state": state}
    CustomObjectsApi(api).create_namespaced_custom_object(
        GROUP, VERSION, namespace, "streamapps", body
    )


def workers(api: ApiClient, namespace: str, app: str) -> list[str]:
    """Names of the workers of an application; a worker's pod bears the same."""
    from kubernetes.client import CoreV1Api

    labels = f"headwater.dev/app={app}"
    found = CoreV1Api(api).list_namespaced_pod(namespace, label_selector=labels)
    return sorted(pod.metadata.name for pod in found.items)


def forget_apps(api: ApiClient, namespace: str) -> None:
    """Delete StreamApps that no operator is left to let go of."""
    from kubernetes.client import CustomObjectsApi

    custom, where = CustomObjectsApi(api), (GROUP, VERSION, namespace, "streamapps")
    for app in custom.list_namespaced_custom_object(*where)["items"]:
        name = app["metadata"]["name"]
        custom.patch_namespaced_custom_object(*where, name, {"metadata": {"finalizers": None}})
        custom.delete_namespaced_custom_object(*where, name)


def operator_pod(api: ApiClient, namespace: str) -> Any:
    """The pod that the Deployment has made."""
    from kubernetes.client import CoreV1Api

    selector = "app.kubernetes.io/component=operator"

    def find_it() -> Any:
        pods = CoreV1Api(api).list_namespaced_pod(namespace, label_selector=selector).items
        return pods[0] if pods else None

    return wait_for(find_it, what="the operator's pod")


@contextmanager
def running_operator(api: ApiClient, namespace: str, directory: Path) -> Iterator[Path]:
    """The operator as its pod would start it, with the pod's token; yields its log."""
    pod = operator_pod(api, namespace)
    token = pod_token(api, namespace, pod.metadata.name)
    authority = directory / "ca.crt"
    with open(api.configuration.ssl_ca_cert, "rb") as file:  # noqa: PTH123 - what the client says
        authority.write_bytes(file.read())
    document = kubeconfig(api.configuration.host, authority, token=token)
    config = write_kubeconfig(directory / "operator.kubeconfig", document)
    log = directory / "operator.log"
    [container] = pod.spec.containers
    options = [f"--kubeconfig={config}", "--http-host=127.0.0.1", "--http-port=0", "--web-port=0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater_operator", *(container.args or ()), *options],
            env={**os.environ, **_environment(pod, container)},
            stdout=output,
            stderr=output,
        )
        try:
            yield log
        finally:
            process.terminate()
            try:
                code = process.wait(_STOP_S)
            finally:
                process.kill()
    assert code == 0, log.read_text()[-3000:]


def page_of(log: Path) -> str:
    """The address of the page that an operator serves, as its log tells it."""

    def told() -> str:
        found = re.search(r"the page is served at (http://\S+)", log.read_text())
        return found[1] if found else ""

    return wait_for(told, what=f"the page; see {log}")


def _environment(pod: Any, container: Any) -> dict[str, str]:
    """Variables as the kubelet would fill them in."""
    fields = {"metadata.name": pod.metadata.name, "metadata.namespace": pod.metadata.namespace}
    return {
        each.name: each.value or fields[each.value_from.field_ref.field_path]
        if each.value_from is not None
        else each.value or ""
        for each in container.env
    }
