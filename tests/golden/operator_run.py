"""The run behind the pictures of the operator: two real operators on a real API server.

Their workers are played. An application is scaled, a worker drained by a StreamAction, and the
operator that leads is killed. Another application has the id of the first, and must not run.
"""

from __future__ import annotations

import re
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.dashboards import OPERATOR
from headwater_operator.kube.api import NAMESPACES
from headwater_operator.kube.client import KubeClient
from tests.golden.boards import answered, board_of, scraped_for
from tests.kube import definitions, programs
from tests.kube.control_plane import ControlPlane
from tests.kube.fixtures import Command
from tests.kube.journey import (
    SHORT_LEASE_S,
    Installation,
    Journey,
    OperatorProcess,
    fresh_namespace,
    streamapp,
)
from tests.kube.kubeconfig import client_for
from tests.kube.players import Stage
from tests.support import prometheus
from tests.support.shown import configuration, write_targets
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE: Final = "shop"
_AUTOSCALING: Final = {"minReplicas": 1, "maxReplicas": 4, "targetCatchUp": "2m"}
_DRAIN: Final[dict[str, Any]] = {
    "apiVersion": "headwater.dev/v1alpha1",
    "kind": "StreamAction",
    "metadata": {"name": "drain-1"},
    "spec": {"app": "orders", "type": "DrainWorker", "drainWorker": {"worker": "orders-w-1"}},
}
_LISTED: Final = "kubectl get sapp,sact"
_DESCRIBED: Final = "kubectl describe sact/drain-1"


@dataclass(frozen=True)
class Told:
    """What the run has shown.

    Attributes:
        board: the operator's dashboard with its answers.
        commands: what commands have printed.
    """

    board: dict[str, Any]
    commands: dict[str, str]


def run(take_page: Callable[[str], None]) -> Told:
    """Run the operators; return what is to be drawn.

    Args:
        take_page: is called with the address of the page of an operator.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        control = stack.enter_context(ControlPlane())
        admin = stack.enter_context(closing(KubeClient.from_environment(control.admin_kubeconfig)))
        client = stack.enter_context(client_for(control.admin_kubeconfig))
        definitions.install(client)
        stage = stack.enter_context(Stage(admin))
        # Of the day: the page shows how old a Lease is.
        stage.workers(NAMESPACE).clock = lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        home = fresh_namespace(admin, "headwater")
        admin.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        installation = Installation(
            admin, client, control, directory, home, lease_s=SHORT_LEASE_S, sweep_s=5, web_port=0
        ).install()
        stack.callback(installation.uninstall)
        operators = {name: installation.process(name) for name in ("operator-0", "operator-1")}
        config = configuration(directory / "targets-*.json")
        server = stack.enter_context(prometheus.running(directory / "prometheus", config))
        kubectl = Command(programs.find("kubectl"), control.admin_kubeconfig, NAMESPACE)
        user = Journey(admin, NAMESPACE, kubectl, stage, app="orders")
        began = time.time()
        scrape(directory, operators, home)
        work(user)
        commands = {_LISTED: kubectl(*_LISTED.split()[1:])}
        user.until(lambda: "Complete" in kubectl("get", "sact/drain-1"), "the drain to be complete")
        take_page(page_of(operators[other_than(installation.leader(), operators)]))
        operators[installation.leader()].kill()
        user.scale(3)
        user.until(user.is_settled, "the other operator to lead")
        user.apply(streamapp("orders-copy", replicas=1, applicationId="orders"))
        scraped_for(15)
        commands[_DESCRIBED] = kubectl(*_DESCRIBED.split()[1:])
        board = answered(board_of(OPERATOR.uid), server, (began, time.time()), {})
        return Told(board, commands)


def work(user: Journey) -> None:
    """Give the operators something to do."""
    user.apply(streamapp("orders", replicas=2))
    user.apply(streamapp("carts", replicas=1, autoscaling=_AUTOSCALING))
    user.until(lambda: user.is_settled() and user.is_settled("carts"), "both to run")
    scraped_for(10)
    user.scale(4)
    user.until(user.is_settled, "four workers")
    scraped_for(10)
    user.apply(_DRAIN)
    scraped_for(2)


def scrape(directory: Path, operators: dict[str, OperatorProcess], namespace: str) -> None:
    """Tell Prometheus where the operators are, each by its pod."""
    for place, process in operators.items():
        port = wait_for(
            lambda process=process: re.search(r"stands by, port (\d+)", process.log),  # type: ignore[misc]
            what="its port",
        )[1]
        write_targets(
            directory / f"targets-{place}.json",
            [f"127.0.0.1:{port}"],
            namespace=namespace,
            service="headwater-operator-metrics",
            pod=place,
        )


def page_of(process: OperatorProcess) -> str:
    """Return where an operator serves its page."""
    found = wait_for(
        lambda: re.search(r"the page is served at (http://\S+)", process.log), what="its page"
    )
    return str(found[1])


def other_than(leader: str, operators: dict[str, OperatorProcess]) -> str:
    """Return the one that stands by: its page goes on."""
    return next(name for name in operators if name != leader)
