"""What the operator makes for one worker, made by hand, and its side of the talk with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headwater.model import podcontract
from headwater.model.cluster import StreamWorker, WorkerSpec, WorkerStatus
from headwater.model.streamapp import StreamApp, parse
from headwater.service.carrier import CarrierUnavailableError
from headwater.service.kube.carrier import KubeCarrier
from headwater.service.kube.client import Access
from headwater_operator.manifests.access import role, role_binding, service_account
from headwater_operator.manifests.names import Owner
from headwater_operator.manifests.pod import worker_pod
from headwater_operator.manifests.settings import Installation
from headwater_operator.manifests.worker import lease, spec_patch, stream_worker
from headwater_operator.observe.leases import read_lease
from headwater_operator.observe.snapshot import read_worker
from tests.kube.definitions import APPS, GROUP, VERSION, WORKERS, Resources
from tests.kube.tokens import pod_token
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from headwater.model.cluster import Lease

APP = "orders"
WORKER = "orders-w-0"
MINIMAL: dict[str, Any] = {
    "topology": {"module": "shop.orders:build"},
    "image": "headwater-test/none:1",
    "kafka": {"bootstrapServers": "broker:9092"},
}


class WorkerResources:
    """A StreamApp with one worker: StreamWorker, Lease, rights, pod, and the pod's files.

    Args:
        api: of an administrator.
        namespace: fresh, with the definitions installed.
        directory: stands for the root of the pod's file system.
        spec: of the StreamApp.
    """

    def __init__(
        self, api: ApiClient, namespace: str, directory: Path, spec: dict[str, Any] | None = None
    ) -> None:
        from kubernetes.client import CoordinationV1Api, CoreV1Api, RbacAuthorizationV1Api

        self.api = api
        self.namespace = namespace
        self.core = CoreV1Api(api)
        self.leases = CoordinationV1Api(api)
        self.rbac = RbacAuthorizationV1Api(api)
        self.workers = Resources(api, namespace, WORKERS)
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "StreamApp",
            "metadata": {"name": APP},
            "spec": MINIMAL | (spec or {}),
        }
        stored = Resources(api, namespace, APPS).create(body)
        self.app: StreamApp = parse(body)
        self.owner = Owner(name=APP, namespace=namespace, uid=stored["metadata"]["uid"])
        self.root = directory
        self.token_dir = self.path_of(podcontract.SERVICE_ACCOUNT_DIR)
        self.token_dir.mkdir(parents=True)
        self._give_rights()

    def _give_rights(self) -> None:
        account, rules = service_account(self.owner), role(self.owner)
        self.core.create_namespaced_service_account(self.namespace, account)
        self.rbac.create_namespaced_role(self.namespace, rules)
        self.rbac.create_namespaced_role_binding(self.namespace, role_binding(self.owner))

    def path_of(self, path: str) -> Path:
        """Return where a path of the pod is on this machine."""
        return self.root / path.lstrip("/")

    @property
    def access(self) -> Access:
        """How the pod reaches the API server."""
        server = urlsplit(self.api.configuration.host)
        return Access(
            host=str(server.hostname), port=int(server.port or 443), directory=self.token_dir
        )

    def carrier(self) -> KubeCarrier:
        """Return a carrier of the pod's process; its rights hold."""
        carrier = KubeCarrier(self.access, namespace=self.namespace, name=WORKER)
        self.await_rights(carrier.read)
        return carrier

    # -- the operator's side ---------------------------------------------------------------------

    def create(self, spec: WorkerSpec | None = None) -> None:
        """Create StreamWorker and Lease."""
        self.create_lease(self.create_worker(spec or WorkerSpec(app=APP, epoch=1)))

    def create_worker(self, spec: WorkerSpec) -> str:
        """Create the StreamWorker alone; return its UID."""
        made = self.workers.create(stream_worker(self.owner, WORKER, spec))
        return str(made["metadata"]["uid"])

    def create_lease(self, uid: str) -> None:
        """Create the Lease of the StreamWorker with this UID."""
        self.leases.create_namespaced_lease(self.namespace, lease(self.owner, WORKER, uid))

    def create_pod(self) -> dict[str, Any]:
        """Create the pod and give it what the kubelet would: a token. Return it as stored."""
        pod = worker_pod(
            self.app, self.owner, WORKER, revision="r1", installation=Installation(user_id=1000)
        )
        stored: dict[str, Any] = self.api.sanitize_for_serialization(
            self.core.create_namespaced_pod(self.namespace, pod)
        )
        authority = Path(self.api.configuration.ssl_ca_cert)
        (self.token_dir / podcontract.CA_FILE).write_text(authority.read_text())
        self.give_token()
        return stored

    def give_token(self) -> None:
        """Write a new token for the pod as it is now."""
        token = pod_token(self.api, self.namespace, WORKER)
        (self.token_dir / podcontract.TOKEN_FILE).write_text(token)

    def delete_pod(self) -> None:
        """Delete the pod, without grace."""
        self.core.delete_namespaced_pod(WORKER, self.namespace, grace_period_seconds=0)

    def write(self, **changes: Any) -> WorkerSpec:
        """Write the spec with changes under the next epoch, as the operator does."""
        from kubernetes.client import CustomObjectsApi

        before = self.spec
        spec = replace(before, **{"epoch": before.epoch + 1, **changes})
        CustomObjectsApi(self.api).patch_namespaced_custom_object(
            GROUP,
            VERSION,
            self.namespace,
            WORKERS,
            WORKER,
            spec_patch(spec, replaces=before.epoch),
            _content_type="application/json-patch+json",
        )
        return spec

    def await_rights(self, check: Any) -> None:
        """Wait until ``check`` raises nothing: roles count a moment after they were made."""

        def has_them() -> bool:
            try:
                check()
            except CarrierUnavailableError:
                return False
            return True

        wait_for(has_them, what="the rights of the worker")

    # -- what the worker has written -------------------------------------------------------------

    @property
    def spec(self) -> WorkerSpec:
        return StreamWorker.from_dict({**self.workers.read(WORKER), "status": {}}).spec

    @property
    def status(self) -> WorkerStatus:
        return read_worker(self.workers.read(WORKER)).status

    @property
    def lease(self) -> Lease | None:
        """The Lease as the operator understands it."""
        return read_lease(self.stored_lease)

    @property
    def stored_lease(self) -> dict[str, Any]:
        found = self.leases.read_namespaced_lease(WORKER, self.namespace)
        manifest: dict[str, Any] = self.api.sanitize_for_serialization(found)
        return manifest
