"""Fixtures of the tests with players or machines: a stage, a cluster, an operator, a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from headwater_operator.kube.client import KubeClient
    from tests.kube.control_plane import ControlPlane
    from tests.kube.deployed import Operators
    from tests.kube.fixtures import Command
    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster
    from tests.kube.players import Stage


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Iterator[KubeClient]:
    """The operator's own client, with all rights."""
    from headwater_operator.kube.client import KubeClient

    client = KubeClient.from_environment(control_plane.admin_kubeconfig)
    yield client
    client.close()


@pytest.fixture(scope="module")
def stage(admin: KubeClient, crds: None) -> Iterator[Stage]:
    """Nodes, volumes and workers, for as long as a file of tests needs them."""
    from tests.kube.players import Stage

    with Stage(admin) as players:
        yield players


@pytest.fixture(scope="module")
def cluster(
    control_plane: ControlPlane, admin: KubeClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Machines in two zones that run pods as processes, for as long as a file of tests needs them.

    Never beside a ``stage``: the scheduler would mix the two.
    """
    from tests.kube import operator_entry
    from tests.kube.deployed import OPERATOR
    from tests.kube.kubelet.cluster import PYTHON, Cluster, python_image

    directory = tmp_path_factory.mktemp("cluster")
    images = {PYTHON: python_image(), OPERATOR: operator_entry.image()}
    with Cluster(control_plane, admin, directory, images) as running:
        yield running


@pytest.fixture(scope="module")
def installation(
    admin: KubeClient,
    kube_api: ApiClient,
    control_plane: ControlPlane,
    stage: Stage,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    """One operator for all namespaces."""
    from headwater_operator.kube.api import NAMESPACES, STREAM_APPS
    from tests.kube.journey import Installation, fresh_namespace
    from tests.support.waiting import wait_for

    directory = tmp_path_factory.mktemp("operator")
    home = fresh_namespace(admin, "system")
    made = Installation(admin, kube_api, control_plane, directory, home).install()
    process = made.process("first")
    yield made
    try:
        for app in admin.list(STREAM_APPS, None):
            metadata = app["metadata"]
            admin.delete(STREAM_APPS, metadata["namespace"], metadata["name"])
        wait_for(lambda: not admin.list(STREAM_APPS, None), what="StreamApps to go")
    finally:
        made.uninstall()
    admin.delete(NAMESPACES, None, home)
    assert [line for line in process.log.splitlines() if " ERROR " in line] == []


@pytest.fixture
def own_installation(
    admin: KubeClient,
    kube_api: ApiClient,
    control_plane: ControlPlane,
    namespace: str,
    tmp_path: Path,
) -> Iterator[Installation]:
    """The account of operators for the test's namespace alone; no process."""
    from tests.kube.journey import Installation, forget_apps

    made = Installation(admin, kube_api, control_plane, tmp_path, namespace, watched=namespace)
    made.install()
    yield made
    made.uninstall()
    forget_apps(admin, namespace)


@pytest.fixture
def user(admin: KubeClient, namespace: str, kubectl: Command, stage: Stage) -> Journey:
    """A user in a fresh namespace."""
    from tests.kube.journey import Journey

    return Journey(admin, namespace, kubectl, stage)


@pytest.fixture
def journey(admin: KubeClient, namespace: str, kubectl: Command, cluster: Cluster) -> Journey:
    """A user in a fresh namespace; machines instead of players."""
    from tests.kube.journey import Journey
    from tests.kube.story import APP

    return Journey(admin, namespace, kubectl, cast("Stage", cluster), app=APP)


@pytest.fixture
def operators(
    kube_api: ApiClient, kubeconfig: Path, journey: Journey, cluster: Cluster, tmp_path: Path
) -> Iterator[Operators]:
    """Those of the chart, not yet installed, in a namespace of their own."""
    from tests.kube.deployed import Operators
    from tests.kube.installed import forget_apps, namespaces, programs

    with namespaces(kube_api, 1) as [home]:
        helm, kubectl = programs(kubeconfig, home)
        yield Operators(journey, cluster, helm, kubectl, tmp_path)
        forget_apps(kube_api, journey.namespace)
