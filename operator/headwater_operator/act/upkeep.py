"""What all workers of an application share, and what is tidied up around them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Final

from headwater_operator.act.gate import HeldUpError, OutdatedDecisionError
from headwater_operator.kube.api import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    LEASES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STREAM_APPS,
    Resource,
)
from headwater_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from headwater_operator.manifests.access import (
    disruption_budget,
    role,
    role_binding,
    service_account,
)
from headwater_operator.manifests.config import config_map
from headwater_operator.manifests.names import FINALIZER, REVISION_LABEL, of_app
from headwater_operator.manifests.storage import is_claim_owned
from headwater_operator.manifests.worker import lease
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from headwater.model.appstatus import AppStatus
    from headwater_operator.act.gate import Gate
    from headwater_operator.kube.api import KubeApi, Manifest
    from headwater_operator.views import AppView

_AGAIN_MS: Final = 600_000
"""What was applied is applied again after so long, should somebody have changed it."""


class Upkeep:
    """Keeps what belongs to one application in order.

    Args:
        api: the API server.
        gate: passed before every write.
    """

    def __init__(self, api: KubeApi, gate: Gate) -> None:
        self._api = api
        self._gate = gate
        self._applied: dict[tuple[str, str], tuple[str, int]] = {}

    def add_finalizer(self, view: AppView) -> None:
        """See to it that the StreamApp cannot go before its workers have been treated as it says.

        Raises:
            OutdatedDecisionError: the StreamApp has changed.
        """
        self._gate.before("add_finalizer")
        self._write_finalizers(view, (*view.finalizers, FINALIZER))

    def remove_finalizer(self, view: AppView) -> None:
        """Let the StreamApp go.

        Raises:
            OutdatedDecisionError: the StreamApp has changed.
        """
        self._gate.before("remove_finalizer")
        self._write_finalizers(view, tuple(name for name in view.finalizers if name != FINALIZER))

    def _write_finalizers(self, view: AppView, finalizers: tuple[str, ...]) -> None:
        owner = view.owner
        operations: list[Manifest] = [
            {"op": "test", "path": "/metadata/uid", "value": owner.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": view.stored.version},
            {"op": "add", "path": "/metadata/finalizers", "value": list(finalizers)},
        ]
        try:
            self._api.patch(STREAM_APPS, owner.namespace, owner.name, operations)
        except NotFoundError:
            return
        except ConflictError as error:
            raise OutdatedDecisionError(str(error)) from error

    def write_status(self, view: AppView, status: AppStatus) -> None:
        """Write the StreamApp's status; nothing, if it is gone or another one by now."""
        owner = view.owner
        self._gate.before("write_status")
        manifest: Manifest = {
            "metadata": {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid},
            "status": status.to_dict(),
        }
        try:
            self._api.apply(STREAM_APPS, manifest, subresource="status")
        except (ConflictError, NotFoundError) as error:
            raise OutdatedDecisionError(str(error)) from error

    def share(self, view: AppView, now_ms: int) -> None:
        """Make what all workers of the application need before the first one starts.

        Raises:
            HeldUpError: the API server refuses something, for want of rights for example.
        """
        app, owner = view.app, view.owner
        assert app is not None
        for resource, manifest in (
            (SERVICE_ACCOUNTS, service_account(owner)),
            (ROLES, role(owner)),
            (ROLE_BINDINGS, role_binding(owner)),
            (BUDGETS, disruption_budget(app, owner)),
            (CONFIG_MAPS, config_map(app, owner, view.revision)),
        ):
            self._apply(resource, manifest, now_ms)

    def _apply(self, resource: Resource, manifest: Manifest, now_ms: int) -> None:
        text = json.dumps(manifest, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        key = (resource.plural, manifest["metadata"]["name"])
        known, at_ms = self._applied.get(key, ("", 0))
        if known == digest and now_ms - at_ms < _AGAIN_MS:
            return
        self._gate.before(f"apply_{resource.plural}")
        try:
            self._api.apply(resource, manifest)
        except (ForbiddenError, InvalidError) as error:
            raise HeldUpError(
                Problem(
                    reason=f"{resource.kind}Refused",
                    message=f"{error}; grant the operator and the namespace what is missing, or "
                    "correct the StreamApp",
                )
            ) from error
        self._applied[key] = (digest, now_ms)

    def keep_claims(self, view: AppView) -> None:
        """Have claims go with the StreamApp, or stay, as it says now."""
        assert view.app is not None
        wanted = [view.owner.reference()] if is_claim_owned(view.app) else []
        for claim in view.claims.values():
            if claim.is_deleting or claim.is_owned == bool(wanted):
                continue
            self._gate.before("own_claim")
            operations: list[Manifest] = [
                {"op": "test", "path": "/metadata/uid", "value": claim.uid},
                {"op": "add", "path": "/metadata/ownerReferences", "value": wanted},
            ]
            try:
                self._api.patch(CLAIMS, view.owner.namespace, claim.name, operations)
            except (ConflictError, NotFoundError):
                continue

    def delete_claims(self, view: AppView) -> None:
        """Delete every claim of the application, whether it has a StreamWorker or not."""
        for claim in view.claims.values():
            if not claim.is_deleting:
                self._gate.before("delete_claim")
                self._api.delete(CLAIMS, view.owner.namespace, claim.name, uid=claim.uid)

    def delete_leftovers(self, view: AppView) -> None:
        """Delete pods that have ended for good, and those that an operator made after its time.

        The latter have no StreamWorker: the one that leads now has deleted it.
        """
        drained = {each.worker.name for each in view.workers if each.worker.spec.drain}
        for worker, pod in view.pods.items():
            is_stray = worker not in view.stored_workers
            is_over = worker in drained and pod.state.is_proof_of_end
            if (is_stray or is_over) and not pod.is_deleting:
                self._gate.before("delete_leftover")
                self._api.delete(PODS, view.owner.namespace, worker, uid=pod.uid)

    def ensure_leases(self, view: AppView) -> None:
        """Make the Leases that are missing: workers may renew theirs, but not make one."""
        for worker, stored in view.stored_workers.items():
            if worker not in view.leases and worker in view.pods:
                self._gate.before("create_lease")
                with contextlib.suppress(AlreadyExistsError):
                    self._api.create(LEASES, lease(view.owner, worker, stored.uid))

    def delete_old_configs(self, view: AppView, keep: frozenset[str]) -> None:
        """Delete the ConfigMaps of revisions that nobody runs or may go back to.

        Args:
            view: the application.
            keep: revisions to keep.
        """
        namespace = view.owner.namespace
        labels = f"{of_app(view.owner.name)},{REVISION_LABEL}"
        for manifest in self._api.list(CONFIG_MAPS, namespace, labels=labels):
            metadata = manifest["metadata"]
            if metadata["labels"][REVISION_LABEL] not in keep:
                self._gate.before("delete_config")
                self._api.delete(CONFIG_MAPS, namespace, metadata["name"], uid=metadata["uid"])
