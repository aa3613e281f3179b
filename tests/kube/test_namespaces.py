"""An operator of two namespaces, one of which goes away, and the operator's rights with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater_operator.kube.api import NAMESPACES, ROLE_BINDINGS, STREAM_APPS, STREAM_WORKERS
from tests.kube.journey import ACCOUNT, TASKS, Journey, fresh_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.kube.client import KubeClient
    from tests.kube.control_plane import ControlPlane
    from tests.kube.fixtures import Command
    from tests.kube.journey import Installation
    from tests.kube.players import Stage


@pytest.fixture
def leaving(
    own_installation: Installation, admin: KubeClient, kubectl: Command, stage: Stage
) -> Iterator[Journey]:
    """A user in a second namespace of the installation."""
    namespace = fresh_namespace(admin, "leaving")
    own_installation.watch_too(namespace)
    yield Journey(admin, namespace, replace(kubectl, namespace=namespace), stage)
    admin.delete(NAMESPACES, None, namespace)


def until_fenced(user: Journey, worker: str) -> None:
    """Have a worker fall silent, and wait until others have its tasks; then it speaks again."""
    silent = user.workers[worker]
    silent.lease_s = 4
    user.until(lambda: user.lease_s(worker) == 4 and user.held()[worker], "a short Lease")
    silent.frozen = True
    user.until(lambda: user.held()[worker] == [] and user.tasks() == TASKS, "its tasks to move")
    assert f"wc-{worker}-0" in user.workers.of("wc").fenced
    silent.lease_s, silent.frozen = 60, False
    user.until(user.is_settled, "it to be back")


@pytest.mark.timeout(600)
def test_a_namespace_deleted_in_the_middle_of_a_scale_up_holds_up_no_other(
    own_installation: Installation,
    user: Journey,
    leaving: Journey,
    admin: KubeClient,
    control_plane: ControlPlane,
) -> None:
    own_installation.sweep_s = 5
    operator = own_installation.process("first")
    leaving.begin(applicationId="another")
    user.begin()
    leaving.scale(4)
    leaving.until(lambda: len(leaving.names(STREAM_WORKERS)) > 2, "a new worker")

    leaving.kubectl("delete", "namespace", leaving.namespace, "--wait=false")

    said = f"ok; namespaces that cannot be read: {leaving.namespace}\n"
    user.until(lambda: operator.ask("/readyz") == said, "it to say so")
    assert admin.get(ROLE_BINDINGS, leaving.namespace, ACCOUNT) is None
    assert f"namespace {leaving.namespace} is not watched" in operator.log
    # What docs/failure-modes.md says, where the rights went before the finalizer.
    for app in leaving.names(STREAM_APPS):
        bare = '{"metadata":{"finalizers":null}}'
        leaving.kubectl("patch", "streamapp", app, "--type=merge", f"--patch={bare}")
    user.until(lambda: admin.get(NAMESPACES, None, leaving.namespace) is None, "it to be gone")
    # Every watch begins anew; and an API server that has just started refuses everything.
    control_plane.restart_api_server()
    until_fenced(user, "wc-w-0")
    assert operator.exit_status is None

    operator.stop()
    operator = own_installation.process("next")

    user.scale(3)
    user.until(lambda: user.is_settled() and user.tasks() == TASKS, "the third worker")
    user.until(lambda: operator.ask("/readyz") == said, "it to say so")
    assert "headwater_operator_closed_namespaces 1.0" in operator.ask("/metrics")
