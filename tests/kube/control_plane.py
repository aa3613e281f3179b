"""A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler.

    NEW --start--> RUNNING --stop--> gone, with its data
                   RUNNING --stop_api_server--> DARK --start_api_server--> RUNNING

Its programs die with the process that started it. Authorization is Node and RBAC, service account
tokens are bound to pods, and what is on by default in admission is on: NodeRestriction beside it.
There are no nodes; ``tests/kube/kubelet`` has some.
"""

from __future__ import annotations

import http
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import urllib3

from headwater.local.guarded import GuardedProgram
from headwater.local.ports import free_port
from tests.kube import programs
from tests.kube.kubeconfig import kubeconfig, write_kubeconfig
from tests.kube.pki import Authority
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from tests.kube.pki import KeyPair

ADMIN = "headwater-test-admin"
LOOPBACK = "127.0.0.1"
API_SERVER, CONTROLLERS, SCHEDULER, ETCD = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "etcd",
)
# A node that has been silent for so long is lost. Kubernetes' own default is 50 s; the nodes of the
# tests say every two seconds that they live, and on a busy machine every few seconds.
NODE_GRACE_S = 10
_READY_S = 120.0  # on a machine that is busy with other things
_ETCD_S = 60.0  # a compaction works through all that was ever written
_LOG_TAIL_LINES = 20
# Go then collects garbage a quarter as often: memory is there, and the processor is busy.
_LAZY_GARBAGE = "GOGC=400"


class ControlPlaneError(Exception):
    """A program of the control plane did not come up."""


class ControlPlane:
    """One control plane with fresh data, usable as a context manager.

    Attributes:
        directory: everything it keeps, removed at the end.
        authority: signs the certificates of all users and servers.
        server: address of the API server.
    """

    def __init__(self) -> None:
        self.directory = Path()
        self.server = ""
        self._etcd = ""
        self._programs: dict[str, GuardedProgram] = {}
        self._ports: set[int] = set()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start everything and return when pods could be created.

        Raises:
            ProgramsMissingError: the programs have not been built.
            ControlPlaneError: a program ended, or did not answer within two minutes (with its log).
        """
        self.directory = Path(tempfile.mkdtemp(prefix="headwater-kube-"))
        try:
            (self.directory / "log").mkdir()
            self.authority = Authority(self.directory / "pki")
            self._prepare()
            self._start_etcd()
            self.start_api_server()
            self._start_controllers()
            self._start_scheduler()
            self._await("the default service account", self._has_service_account)
            self._check_alive()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End every program and remove the data."""
        # Nothing is kept, so nothing needs to end in good order.
        for name in (SCHEDULER, CONTROLLERS, API_SERVER, ETCD):
            program = self._programs.pop(name, None)
            if program is not None:
                program.kill()
        self._http.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # -- faults -------------------------------------------------------------------------------

    def stop_api_server(self) -> None:
        """Kill the API server."""
        self._programs.pop(API_SERVER).kill()

    def start_api_server(self) -> None:
        """Start the API server, on its port and data as before, and return when it is ready.

        Raises:
            ControlPlaneError: it ended, or did not become ready within two minutes (with its log).
        """
        self._start(API_SERVER, self._api_server_options())
        self._await("the API server", self._is_ready)

    def restart_api_server(self) -> None:
        """Kill the API server and start it again; what it remembers of recent changes is lost.

        The controllers and the scheduler may take some seconds to come back to it.
        """
        self.stop_api_server()
        self.start_api_server()

    def compact(self) -> int:
        """Make etcd forget every revision but the newest; return that one.

        The API server answers a watch from an older revision with 410 Gone once it has been
        restarted: until then it has recent changes in its memory.
        """
        revision = int(self._ask_etcd("kv/range", {"key": "AA=="})["header"]["revision"])
        self._ask_etcd("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def freeze(self, name: str) -> None:
        """Stop a program in its tracks (SIGSTOP)."""
        os.kill(self._programs[name].pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let a frozen program go on."""
        os.kill(self._programs[name].pid, signal.SIGCONT)

    # -- answers ------------------------------------------------------------------------------

    @property
    def admin_kubeconfig(self) -> Path:
        """Kubeconfig of a user who may do everything."""
        return self.directory / "admin.kubeconfig"

    @property
    def ca_certificate(self) -> Path:
        """Certificate that clients of the API server have to trust."""
        return self.authority.files.certificate

    def user_kubeconfig(self, name: str, groups: Sequence[str] = ()) -> Path:
        """Kubeconfig of a user, who has the rights that RBAC grants to the name and the groups."""
        path = self.directory / f"user-{name.replace(':', '-')}.kubeconfig"
        return self._write_kubeconfig(path, self.authority.user(name, groups))

    def pid(self, name: str) -> int:
        """Process id of a program."""
        return self._programs[name].pid

    def log(self, name: str) -> str:
        """What a program has printed."""
        return (self.directory / "log" / f"{name}.log").read_text(errors="replace")

    # -- programs -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        port = free_port(taken=self._ports)
        self.server = f"https://{LOOPBACK}:{port}"
        self._etcd = f"http://{LOOPBACK}:{free_port(taken=self._ports)}"
        names = ["localhost", "kubernetes.default.svc", LOOPBACK]
        self._serving = self.authority.server("apiserver", names)
        self._to_kubelets = self.authority.user("apiserver-to-kubelets", ["system:masters"])
        self._accounts_key = self.authority.bare_key("service-accounts")
        admin = self.authority.user(ADMIN, ["system:masters"])
        self._write_kubeconfig(self.admin_kubeconfig, admin)
        self._http = urllib3.PoolManager(
            ca_certs=str(self.ca_certificate),
            cert_file=str(admin.certificate),
            key_file=str(admin.key),
            retries=False,
            timeout=5.0,
        )

    def _start_etcd(self) -> None:
        peer = f"http://{LOOPBACK}:{free_port(taken=self._ports)}"
        self._start(
            ETCD,
            [
                f"--data-dir={self.directory / 'etcd'}",
                "--unsafe-no-fsync",
                "--log-level=warn",
                f"--listen-client-urls={self._etcd}",
                f"--advertise-client-urls={self._etcd}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ],
        )

    def _api_server_options(self) -> list[str]:
        return [
            f"--etcd-servers={self._etcd}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.server.rpartition(':')[2]}",
            f"--advertise-address={LOOPBACK}",
            # The service `kubernetes` cannot have a loopback address; pods are told ours instead.
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.ca_certificate}",
            f"--kubelet-certificate-authority={self.ca_certificate}",
            f"--kubelet-client-certificate={self._to_kubelets.certificate}",
            f"--kubelet-client-key={self._to_kubelets.key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={self._accounts_key}",
            f"--service-account-signing-key-file={self._accounts_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--profiling=false",
        ]

    def _start_controllers(self) -> None:
        self._start(
            CONTROLLERS,
            [
                f"--kubeconfig={self._own_kubeconfig(CONTROLLERS)}",
                f"--service-account-private-key-file={self._accounts_key}",
                f"--root-ca-file={self.ca_certificate}",
                "--use-service-account-credentials=true",
                "--leader-elect=false",
                "--secure-port=0",
                "--kube-api-qps=200",
                "--kube-api-burst=400",
                "--node-monitor-period=1s",
                f"--node-monitor-grace-period={NODE_GRACE_S}s",
                "--horizontal-pod-autoscaler-sync-period=1s",
                "--profiling=false",
            ],
        )

    def _start_scheduler(self) -> None:
        self._start(
            SCHEDULER,
            [
                f"--kubeconfig={self._own_kubeconfig(SCHEDULER)}",
                "--leader-elect=false",
                "--secure-port=0",
                "--profiling=false",
            ],
        )

    def _own_kubeconfig(self, name: str) -> Path:
        return self._write_kubeconfig(
            self.directory / f"{name}.kubeconfig", self.authority.user(f"system:{name}")
        )

    def _write_kubeconfig(self, path: Path, user: KeyPair) -> Path:
        return write_kubeconfig(path, kubeconfig(self.server, self.ca_certificate, user=user))

    def _start(self, name: str, options: Sequence[str]) -> None:
        self._programs[name] = GuardedProgram(
            ["/usr/bin/env", _LAZY_GARBAGE, str(programs.find(name)), *options],
            log_file=self.directory / "log" / f"{name}.log",
            remove_if_orphaned=self.directory if name == ETCD else None,
        )

    # -- waiting ------------------------------------------------------------------------------

    def _await(self, what: str, is_there: Callable[[], bool]) -> None:
        def is_there_or_ended() -> bool:
            self._check_alive()
            return is_there()

        try:
            wait_for(is_there_or_ended, what=what, timeout_s=_READY_S)
        except AssertionError as error:
            raise ControlPlaneError(f"{error}\n{self._log_tail(API_SERVER)}") from error

    def _check_alive(self) -> None:
        for name, program in self._programs.items():
            if not program.is_running():
                raise ControlPlaneError(f"{name} has ended\n{self._log_tail(name)}")

    def _log_tail(self, name: str) -> str:
        return "\n".join(self.log(name).splitlines()[-_LOG_TAIL_LINES:])

    def _is_ready(self) -> bool:
        return self._answers("/readyz")

    def _has_service_account(self) -> bool:
        return self._answers("/api/v1/namespaces/default/serviceaccounts/default")

    def _answers(self, path: str) -> bool:
        try:
            return int(self._http.request("GET", self.server + path).status) == http.HTTPStatus.OK
        except urllib3.exceptions.HTTPError:
            return False

    def _ask_etcd(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        answer = self._http.request("POST", f"{self._etcd}/v3/{path}", json=body, timeout=_ETCD_S)
        assert answer.status == http.HTTPStatus.OK, answer.data
        found: dict[str, Any] = answer.json()
        return found
