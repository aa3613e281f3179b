"""Operators as processes on the real control plane, and what a user does and sees there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from headwater.failpoints import VARIABLE
from headwater.local.guarded import GuardedProgram
from headwater_operator.kube.api import (
    CLAIMS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STREAM_APPS,
    STREAM_WORKERS,
    KubeApi,
    Manifest,
    Resource,
)
from headwater_operator.kube.election import LEASE_NAME
from headwater_operator.kube.errors import ApiUnavailableError
from headwater_operator.manifests.permissions import (
    Rule,
    namespace_rules,
    operator_rules,
    shard_rules,
)
from tests.kube.kubeconfig import kubeconfig, write_kubeconfig
from tests.kube.tokens import account_token
from tests.support.kube_fakes import condition_in, held_by, names, status_of
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kubernetes.client import ApiClient

    from tests.kube.control_plane import ControlPlane
    from tests.kube.fixtures import Command
    from tests.kube.players import Stage
    from tests.support.kube_fakes import FakeWorkers

ACCOUNT: Final = "headwater-operator"
CLUSTER_ROLES: Final = Resource(
    "rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", is_namespaced=False
)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", is_namespaced=False
)
TASKS: Final = ["0_0", "0_1", "1_0", "1_1"]
IMAGE: Final = "headwater-test/worker:1"

_LOOK_S: Final = 0.3
"""A look asks the API server several things, and costs it more than it costs us."""
_LONG_S: Final = 300.0
"""A machine that is busy with other things makes everything slow."""
_LEASE_S: Final = 60
"""Nobody is to lose it for that; a test in which it has to run out asks for ``SHORT_LEASE_S``."""
SHORT_LEASE_S: Final = 15


class OperatorProcess:
    """One operator as its pod would run it, with the rights of its service account.

    Args:
        command: the program and its arguments.
        place: the name of its pod.
        log_file: where it says what it does.
        failpoints: armed in it.
    """

    def __init__(
        self, command: Sequence[str], place: str, log_file: Path, failpoints: str = ""
    ) -> None:
        self.place = place
        self._log_file = log_file
        variable = f"{VARIABLE}={failpoints}"
        self._program = GuardedProgram(
            ["/usr/bin/env", variable, *command, f"--pod-name={place}"], log_file=log_file
        )

    @property
    def log(self) -> str:
        """What it has said."""
        return self._log_file.read_text(errors="replace")

    def ask(self, path: str) -> str:
        """What it answers by HTTP, whether that is good or bad; empty before it listens."""
        found = re.search(r"stands by, port (\d+)", self.log)
        if found is None:
            return ""
        connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, HTTPException):
            return ""
        finally:
            connection.close()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._program.pid

    @property
    def exit_status(self) -> int | None:
        """Its exit code, or the number of the signal that ended it; ``None`` while it runs."""
        return self._program.exit_status

    def freeze(self) -> None:
        """Stop it in its tracks."""
        os.kill(self._program.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._program.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self._program.kill()

    def stop(self) -> None:
        """Tell it to end, and wait for that."""
        self._program.stop(grace_s=60)


@dataclass
class Installation:
    """An operator's account with its rights, and processes that use it.

    Attributes:
        home: the namespace of account and Lease.
        watched: the namespace whose StreamApps it runs; empty: all.
        watched_too: more such namespaces.
        lease_s: how long a Lease of it lasts.
        http_port: where processes tell their numbers; 0: anywhere.
        sweep_s: between two sweeps.
        web_port: where processes serve the page; 0: anywhere; ``None``: they do not.
        selector: of the namespaces whose StreamApps it runs; empty: all.
    """

    api: KubeApi
    client: ApiClient
    control_plane: ControlPlane
    directory: Path
    home: str
    watched: str = ""
    watched_too: list[str] = field(default_factory=list)
    lease_s: int = _LEASE_S
    http_port: int = 0
    sweep_s: int = 30
    web_port: int | None = None
    selector: str = ""
    processes: list[OperatorProcess] = field(default_factory=list)

    def install(self) -> Installation:
        """Make the account and grant it its rights."""
        self.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT, "namespace": self.home}})
        if self.watched:
            assert self.watched == self.home
            self._grant(ROLES, ROLE_BINDINGS, ACCOUNT, self.home, namespace_rules())
        else:
            name = f"{ACCOUNT}-{self.home}"
            rules = [*operator_rules(), *(shard_rules() if self.selector else ())]
            self._grant(CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, name, "", rules)
        return self

    def watch_too(self, namespace: str) -> None:
        """Have processes that start from now on watch another namespace beside the first."""
        self._grant(ROLES, ROLE_BINDINGS, ACCOUNT, namespace, namespace_rules())
        self.watched_too.append(namespace)

    def _grant(
        self, roles: Resource, bindings: Resource, name: str, namespace: str, rules: list[Rule]
    ) -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        self.api.create(roles, {"metadata": metadata, "rules": rules})
        group = "rbac.authorization.k8s.io"
        reference = {"apiGroup": group, "kind": roles.kind, "name": name}
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.home}
        self.api.create(
            bindings, {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
        )

    def uninstall(self) -> None:
        """End all processes and take the rights away."""
        for process in self.processes:
            process.kill()
        if not self.watched:
            name = f"{ACCOUNT}-{self.home}"
            self.api.delete(CLUSTER_ROLE_BINDINGS, None, name)
            self.api.delete(CLUSTER_ROLES, None, name)

    def process(self, place: str, failpoints: str = "") -> OperatorProcess:
        """Start an operator process."""
        token = account_token(self.client, self.home, ACCOUNT)
        server, authority = self.control_plane.server, self.control_plane.ca_certificate
        path = self.directory / f"{self.home}-{place}.kubeconfig"
        write_kubeconfig(path, kubeconfig(server, authority, token=token))
        watched = [self.watched, *self.watched_too] if self.watched else []
        scope = [f"--namespace={each}" for each in watched] or ["--all-namespaces"]
        command = [
            *(sys.executable, "-m", "headwater_operator", *scope),
            f"--kubeconfig={path}",
            f"--lease-namespace={self.home}",
            f"--lease-seconds={self.lease_s}",
            f"--http-port={self.http_port}",
            f"--sweep-seconds={self.sweep_s}",
            "--http-host=127.0.0.1",
            "--bootstrap-servers=broker.example:9092",
            "--worker-callers=[]",
            *([] if self.web_port is None else [f"--web-port={self.web_port}"]),
            f"--namespace-selector={self.selector}",
        ]
        log_file = self.directory / f"{self.home}-{place}.log"
        process = OperatorProcess(command, place, log_file, failpoints)
        self.processes.append(process)
        return process

    def leader(self) -> str:
        """The place of the operator that holds the Lease; empty if none does."""
        lease = self.api.get(LEASES, self.home, LEASE_NAME)
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
        return str(holder).partition("_")[0]

    def generation(self) -> int:
        """Of the leadership, as the Lease says."""
        lease = self.api.get(LEASES, self.home, LEASE_NAME)
        return int(((lease or {}).get("spec") or {}).get("leaseTransitions") or 0)


def forget_apps(api: KubeApi, namespace: str) -> None:
    """Delete the StreamApps of a namespace, whose finalizer nobody is left to take off."""
    for app in api.list(STREAM_APPS, namespace):
        name = app["metadata"]["name"]
        bare = {"op": "add", "path": "/metadata/finalizers", "value": []}
        api.patch(STREAM_APPS, namespace, name, [bare])
        api.delete(STREAM_APPS, namespace, name)


def fresh_namespace(api: KubeApi, prefix: str) -> str:
    """Make a namespace of a new name."""
    name = f"{prefix}-{uuid4().hex[:8]}"
    api.create(NAMESPACES, {"metadata": {"name": name}})
    return name


def streamapp(name: str = "wc", **spec: object) -> Manifest:
    """A StreamApp with two workers, exactly-once, unless said otherwise."""
    return {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "topology": {"module": "a:b"},
            "image": IMAGE,
            "replicas": 2,
            "processingGuarantee": "exactly_once_v2",
            **spec,
        },
    }


@dataclass
class Journey:
    """A user in a namespace of his own.

    Attributes:
        api: the API server, with all rights.
        namespace: his.
        kubectl: his tool.
        stage: the players.
        patience_s: how long he waits for anything.
    """

    api: KubeApi
    namespace: str
    kubectl: Command
    stage: Stage
    patience_s: float = _LONG_S
    app: str = "wc"

    @property
    def workers(self) -> FakeWorkers:
        return self.stage.workers(self.namespace)

    # -- what he does ----------------------------------------------------------------------------

    def apply(self, manifest: Manifest) -> None:
        self.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(manifest))

    def begin(self, **spec: object) -> None:
        """Have a StreamApp that is ready."""
        self.apply(streamapp(**spec))
        self.until(self.is_settled, "the StreamApp to be ready")

    def scale(self, replicas: int) -> None:
        self.kubectl("scale", f"sapp/{self.app}", f"--replicas={replicas}")

    def patch(self, path: str, value: object) -> None:
        self.patch_all({path: value})

    def patch_all(self, values: Mapping[str, object]) -> None:
        """Change several fields, by path, at once."""
        changes = [{"op": "add", "path": path, "value": value} for path, value in values.items()]
        self.api.patch(STREAM_APPS, self.namespace, self.app, changes)

    def evict(self, pod: str) -> bool:
        """Ask for a pod to leave its node; return whether it may."""
        eviction = Resource("v1", "Eviction", f"pods/{pod}/eviction")
        named = {"name": pod, "namespace": self.namespace}
        try:
            self.api.create(
                eviction, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": named}
            )
        except ApiUnavailableError as error:
            if "disruption budget" not in str(error):
                raise
            return False
        return True

    # -- what he sees ----------------------------------------------------------------------------

    def status(self, app: str = "") -> Manifest:
        return status_of(self.api, self.namespace, app or self.app)

    def condition(self, kind: str, app: str = "") -> tuple[str, str, str]:
        return condition_in(self.status(app), kind)

    def is_settled(self, app: str = "") -> bool:
        """Whether all tasks run, and what is reported is about the present specification."""
        found = self.api.get(STREAM_APPS, self.namespace, app or self.app)
        assert found is not None
        status = found.get("status") or {}
        # In mode Auto, the number that counts is the one that was decided.
        scaled = status.get("autoscaling") or {}
        wanted = scaled["replicas"] if scaled.get("mode") == "Auto" else found["spec"]["replicas"]
        return (
            status.get("observedGeneration") == found["metadata"]["generation"]
            and condition_in(status, "Ready")[:2] == ("True", "Running")
            and condition_in(status, "AssignmentConverged")[0] == "True"
            and status["readyReplicas"] == status["replicas"] == wanted
        )

    def names(self, resource: Resource) -> list[str]:
        return names(self.api.list(resource, self.namespace))

    def uid(self, resource: Resource, name: str) -> str:
        found = self.api.get(resource, self.namespace, name)
        return "" if found is None else str(found["metadata"]["uid"])

    def uids(self) -> dict[str, str]:
        """The uids of his pods, by name."""
        found = self.api.list(PODS, self.namespace)
        return {each["metadata"]["name"]: str(each["metadata"]["uid"]) for each in found}

    def lease_s(self, worker: str) -> int:
        """How long a worker's Lease lasts, as it says."""
        found = self.api.get(LEASES, self.namespace, worker)
        return int(((found or {}).get("spec") or {}).get("leaseDurationSeconds") or 0)

    def held(self, app: str = "") -> dict[str, list[str]]:
        return held_by(self.api, self.namespace, app or self.app)

    def tasks(self, app: str = "") -> list[str]:
        return sorted(task for tasks in self.held(app).values() for task in tasks)

    def events(self) -> list[tuple[str, str]]:
        found = self.api.list(EVENTS, self.namespace)
        return [(each["reason"], each["message"]) for each in found]

    def until_degraded(self, reason: str, app: str = "") -> None:
        """Wait until a problem is named."""
        self.until(lambda: self.condition("Degraded", app)[1] == reason, f"{app}: {reason}")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something is so."""

        def is_so() -> object:
            # An API server that has just heard of a kind, or is away, answers later.
            with contextlib.suppress(ApiUnavailableError):
                return condition()
            return None

        try:
            wait_for(is_so, what=what, timeout_s=self.patience_s, every_s=_LOOK_S)
        except AssertionError as error:
            seen = {
                "status": self.status(),
                "pods": self.names(PODS),
                "claims": self.names(CLAIMS),
                "held": self.held(),
                "workers": [
                    {part: each.get(part) for part in ("spec", "status")}
                    for each in self.api.list(STREAM_WORKERS, self.namespace)
                ],
                "errors": self.stage.errors,
            }
            raise AssertionError(f"{error}\n{json.dumps(seen, default=str, indent=1)}") from error
