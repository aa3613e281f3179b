"""Fixtures: a control plane per run, clients for it, a fresh namespace per test."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.kube import programs
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

    from tests.kube.control_plane import ControlPlane

_COMMAND_TIMEOUT_S = 240


@dataclass(frozen=True, slots=True)
class Command:
    """A command-line program that works on the cluster, in one namespace unless told otherwise."""

    program: Path
    kubeconfig: Path
    namespace: str
    timeout_s: float = _COMMAND_TIMEOUT_S

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run it and return what it printed; fail with what it complained about."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr}"
        return done.stdout

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        options = [f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        return subprocess.run(
            [str(self.program), *options, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=self.timeout_s,
            check=False,
        )


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The private control plane of this run, started when the first test asks for it."""
    # The Kubernetes client takes a second to import, and most runs do not need it.
    from tests.kube.control_plane import ControlPlane

    with ControlPlane() as running:
        yield running


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """Kubeconfig of an administrator: of ``--kubeconfig``, else of the private control plane."""
    chosen: str | None = request.config.getoption("--kubeconfig")
    if chosen:
        return Path(chosen)
    running: ControlPlane = request.getfixturevalue("control_plane")
    return running.admin_kubeconfig


@pytest.fixture(scope="session")
def kube_api(kubeconfig: Path) -> Iterator[ApiClient]:
    """A client of the official library with all rights."""
    from tests.kube.kubeconfig import client_for

    with client_for(kubeconfig) as api:
        yield api


@pytest.fixture
def namespace(kube_api: ApiClient) -> Iterator[str]:
    """A fresh namespace; what is in it goes with it."""
    from kubernetes.client import CoreV1Api
    from kubernetes.client.exceptions import ApiException

    core = CoreV1Api(kube_api)
    name = f"test-{uuid4().hex[:8]}"
    body: dict[str, Any] = {"metadata": {"name": name, "labels": {"headwater.test/fresh": "yes"}}}
    core.create_namespace(body)

    def is_usable() -> bool:
        """Pods mount both, and the controllers make them a moment after the namespace."""
        try:
            core.read_namespaced_service_account("default", name)
            core.read_namespaced_config_map("kube-root-ca.crt", name)
        except ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    wait_for(is_usable, what=f"the default service account of {name}")
    yield name
    try:
        core.delete_namespace(name)
    except ApiException as error:
        if error.status not in {404, 409}:  # the test may have deleted it
            raise


@pytest.fixture
def kubectl(kubeconfig: Path, namespace: str) -> Command:
    """``kubectl`` of the control plane's version, in the test's namespace."""
    return Command(programs.find("kubectl"), kubeconfig, namespace)


@pytest.fixture
def helm(kubeconfig: Path, namespace: str) -> Command:
    """``helm``, in the test's namespace."""
    return Command(programs.find("helm"), kubeconfig, namespace)
