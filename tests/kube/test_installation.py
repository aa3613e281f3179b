"""Install, upgrade, uninstall: what is there, what runs by it, and what is left."""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.golden.chart import CHART, SNAPSHOTS
from tests.kube.definitions import install
from tests.kube.installed import (
    RELEASE,
    forget_apps,
    namespaces,
    operator_pod,
    page_of,
    programs,
    release,
    run_app,
    running_operator,
    workers,
)
from tests.support.page_events import seen
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes.client import ApiClient

    from tests.kube.deployed import Operators
    from tests.kube.fixtures import Command

# Made by the cluster itself, at any time.
_OTHERS = ("events", "componentstatuses")


def everything(kubectl: Command) -> set[str]:
    """Names of all objects of the cluster."""
    kinds = kubectl("api-resources", "--verbs=list", "--output=name").split()
    listed = ",".join(kind for kind in kinds if not kind.startswith(_OTHERS))
    shown = json.loads(kubectl("get", listed, "--all-namespaces", "--output=json"))
    return {
        f"{each['metadata'].get('namespace', '')}/{each['kind']}/{each['metadata']['name']}"
        for each in shown["items"]
    }


def at_rest(kubectl: Command, namespace: str) -> set[str]:
    """Everything, once the cluster has made what it makes by itself in a new namespace.

    And once the StreamApps of earlier tests are gone: an operator would put its finalizer on them.
    """
    own = {f"{namespace}/ServiceAccount/default", f"{namespace}/ConfigMap/kube-root-ca.crt"}

    def found() -> set[str]:
        all_of_it = everything(kubectl)
        has_apps = any("/StreamApp/" in name for name in all_of_it)
        return all_of_it if own <= all_of_it and not has_apps else set()

    return wait_for(found, what="the namespace, and no StreamApp")


def test_installed_upgraded_and_uninstalled_nothing_is_left(
    kube_api: ApiClient, crds: None, kubeconfig: Path, tmp_path: Path
) -> None:
    with namespaces(kube_api, 1) as [namespace]:
        helm, kubectl = programs(kubeconfig, namespace)
        before = at_rest(kubectl, namespace)
        older = tmp_path / "headwater"
        shutil.copytree(CHART, older)
        shutil.copy(SNAPSHOTS / "released" / "first.yaml", older / "values.yaml")

        with release(helm, chart=older) as notes:
            # The namespace takes restricted pods only.
            operator_pod(kube_api, namespace)
            helm("upgrade", RELEASE, str(CHART), "--reuse-values", "--set=replicas=2")
            helm("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values", "--set=hands=6")
            after = {name.removeprefix(f"{namespace}/") for name in everything(kubectl) - before}
            with running_operator(kube_api, namespace, tmp_path) as log:
                run_app(kube_api, namespace, "counter")
                is_there = lambda: len(workers(kube_api, namespace, "counter")) == 2  # noqa: E731
                wait_for(is_there, what=f"workers; see {log}")
                shown = seen(page_of(log), f"{namespace}/counter")
                kubectl("delete", "streamapp", "counter", "--timeout=60s")

        assert f"rollout status deployment/{RELEASE}-operator" in notes
        assert "all namespaces" in notes
        # With no more rights than the operator has anyway.
        assert shown["app"]["namespace"] == namespace
        assert sorted(shown["workers"]) == ["counter-w-0", "counter-w-1"]
        assert "inexact" not in shown["app"], shown["app"]
        for kind in ("PodDisruptionBudget", "Deployment", "Service", "Lease"):
            found = [name for name in after if name.startswith(f"{kind}/{RELEASE}-operator")]
            assert len(found) == 1, after
        for account in (f"{RELEASE}-operator", f"{RELEASE}-operator-caller"):
            assert f"ServiceAccount/{account}" in after
        policy = f"{namespace}-{RELEASE}-operator-workers"
        assert f"/ValidatingAdmissionPolicy/{policy}" in after
        with contextlib.suppress(AssertionError):
            wait_for(lambda: everything(kubectl) <= before, what="the end")
        assert everything(kubectl) - before == set()


@pytest.mark.sampled
def test_definitions_are_upgraded_with_the_release_and_outlive_it(
    kube_api: ApiClient, crds: None, kubeconfig: Path, tmp_path: Path
) -> None:
    older = tmp_path / "headwater"
    shutil.copytree(CHART, older)
    path = older / "files" / "crds" / "streamapps.headwater.dev.yaml"
    definition = yaml.safe_load(path.read_text())
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"] for column in columns]
    del columns[-1]
    path.write_text(yaml.safe_dump(definition))

    with namespaces(kube_api, 1) as [namespace]:
        helm, kubectl = programs(kubeconfig, namespace)

        def columns_now() -> list[str]:
            query = "{.spec.versions[0].additionalPrinterColumns[*].name}"
            crd = "customresourcedefinition/streamapps.headwater.dev"
            return kubectl("get", crd, f"--output=jsonpath={query}").split()

        # The tests' own definitions stand for those that an earlier release has left.
        adopt = ("--take-ownership", "--force-conflicts", "--set=crds.install=true")
        with release(helm, *adopt, chart=older):
            assert columns_now() == shown[:-1]
            helm("upgrade", RELEASE, str(CHART))
            assert columns_now() == shown
            run_app(kube_api, namespace, "counter")
            # Its owner changes: from the release to somebody with kubectl, and back.
            by_hand = ("apply", "--server-side", f"--filename={path.parent}")
            assert 'conflict with "helm"' in kubectl.run(*by_hand).stderr
            helm("upgrade", RELEASE, str(CHART), "--set=crds.install=false")
            kubectl(*by_hand, "--force-conflicts")
            assert columns_now() == shown[:-1]
            assert helm.run("upgrade", RELEASE, str(CHART), adopt[-1]).returncode != 0
            helm("upgrade", RELEASE, str(CHART), *adopt)
        assert columns_now() == shown
        kept = kubectl("get", "streamapps", "--output=name").split()
        assert kept == ["streamapp.headwater.dev/counter"]


@pytest.mark.sampled
def test_an_operator_gives_its_lease_back_and_the_next_one_takes_over(
    kube_api: ApiClient, crds: None, kubeconfig: Path, tmp_path: Path
) -> None:
    from kubernetes.client import CoordinationV1Api

    def lease() -> Any:
        api = CoordinationV1Api(kube_api)
        return api.read_namespaced_lease(f"{RELEASE}-operator", namespace).spec

    def led(directory: Path, app: str) -> tuple[int, str]:
        """One operator's time, from its start to the end of its leadership."""
        directory.mkdir()
        with running_operator(kube_api, namespace, directory) as log:
            run_app(kube_api, namespace, app)
            is_there = lambda: len(workers(kube_api, namespace, app)) == 2  # noqa: E731
            wait_for(is_there, what=f"workers of {app}; see {log}")
        return lease().lease_transitions, log.read_text()

    with namespaces(kube_api, 1) as [namespace]:
        helm, _ = programs(kubeconfig, namespace)
        with release(helm, f"--set=watchNamespaces={{{namespace}}}"):
            first, said_first = led(tmp_path / "first", "one")
            assert lease().holder_identity in (None, "")
            second, said_second = led(tmp_path / "second", "two")
        forget_apps(kube_api, namespace)

    assert second == first + 1
    assert "leads, generation" in said_first
    assert "leads, generation" in said_second


@pytest.mark.sampled
def test_streamapps_go_before_the_operator_if_their_definitions_do(
    kube_api: ApiClient, crds: None, operators: Operators
) -> None:
    namespace, kubectl = operators.journey.namespace, operators.kubectl
    goes = ("--take-ownership", "--force-conflicts", "--set=crds.install=true,crds.keep=false")
    try:
        with operators.installed(*goes, replicas=1, lease_s=3):
            run_app(kube_api, namespace, "counter")
            is_there = lambda: len(workers(kube_api, namespace, "counter")) == 2  # noqa: E731
            wait_for(is_there, what=f"workers; {operators.log}")
            assert "headwater.dev/operator" in kubectl(
                "get", "streamapp", "counter", f"--namespace={namespace}", "--output=yaml"
            )
        defined = kubectl("get", "customresourcedefinitions", "--output=name").split()
        left = kubectl("get", "jobs,serviceaccounts,clusterroles,clusterrolebindings").split()
    finally:
        install(kube_api)

    assert [name for name in defined if name.endswith("headwater.dev")] == []
    assert [name for name in left if name.endswith("-uninstall")] == []
    assert workers(kube_api, namespace, "counter") == []
