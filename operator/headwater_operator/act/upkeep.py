"""What all workers of an application share, and what is tidied up around them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from typing import TYPE_CHECKING, Final

from headwater.model import resetting
from headwater.model.drivercontract import driver_account
from headwater_operator.act.gate import HeldUpError, OutdatedDecisionError
from headwater_operator.kube.api import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    LEASES,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
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
    driver_role,
    network_policy,
    role,
    role_binding,
    service_account,
    spark_budget,
)
from headwater_operator.manifests.config import config_map
from headwater_operator.manifests.driver import driver_service
from headwater_operator.manifests.names import (
    FINALIZER,
    RESET_ANNOTATION,
    REVISION_LABEL,
    SHIFTS_ANNOTATION,
    lacking_labels,
    of_app,
)
from headwater_operator.manifests.storage import claim_grown, claim_labelled, is_claim_owned
from headwater_operator.manifests.worker import lease
from headwater_operator.status import Problem
from headwater_operator.views import mark_of

if TYPE_CHECKING:
    from headwater.model.appstatus import AppStatus
    from headwater.model.streamapp import StreamApp
    from headwater_operator.act.gate import Gate
    from headwater_operator.kube.api import KubeApi, Manifest
    from headwater_operator.manifests.settings import Installation
    from headwater_operator.views import AppView, ClaimView

_AGAIN_MS: Final = 600_000
"""What was applied is applied again after so long, should somebody have changed or deleted it."""
_SPREAD_MS: Final = 150_000
"""And after up to so much more, so that not all applications are seen to at once."""
_DOUBTED_MS: Final = 5_000
"""As the first, while there is doubt: a worker without its Role cannot renew its Lease."""
_COUNTED_MS: Final = 15_000
"""So long after a start, pods should have been counted."""


class Upkeep:
    """Keeps what belongs to one application in order.

    Args:
        api: the API server.
        gate: passed before every write.
        installation: defaults of this installation.
    """

    def __init__(self, api: KubeApi, gate: Gate, installation: Installation) -> None:
        self._api = api
        self._gate = gate
        self._installation = installation
        self._applied: dict[tuple[str, str], tuple[str, int]] = {}
        self._again_ms = _AGAIN_MS
        self._budget_ms = 0
        self._budget_pause_ms = _COUNTED_MS
        self._recount = ""
        self._ungrown: dict[tuple[str, str], tuple[int, Problem]] = {}

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

    def end_reset(self, view: AppView) -> None:
        """Take away the annotation that has asked for a reset, and count it if it was a shift.

        Raises:
            OutdatedDecisionError: the StreamApp has changed.
        """
        self._gate.before("end_reset")
        changes: list[Manifest] = [{"op": "remove", "path": _path_of(RESET_ANNOTATION)}]
        if resetting.parse(view.reset_to).scenario is resetting.Scenario.SHIFT:
            count = {"path": _path_of(SHIFTS_ANNOTATION), "value": str(view.shifts + 1)}
            changes.append({"op": "add", **count})
        self._patch(view, *changes)

    def _write_finalizers(self, view: AppView, finalizers: tuple[str, ...]) -> None:
        change = {"op": "add", "path": "/metadata/finalizers", "value": list(finalizers)}
        self._patch(view, change)

    def _patch(self, view: AppView, *changes: Manifest) -> None:
        """Change the StreamApp as it was read; nothing, if it is gone."""
        owner = view.owner
        operations: list[Manifest] = [
            {"op": "test", "path": "/metadata/uid", "value": owner.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": view.stored.version},
            *changes,
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
            written = self._api.apply(STREAM_APPS, manifest, subresource="status")
        except (ConflictError, NotFoundError) as error:
            raise OutdatedDecisionError(str(error)) from error
        if mark_of(written["metadata"]) == view.mark:
            self._gate.wrote(written)

    def must_share_again(self, now_ms: int, *, is_doubted: bool) -> bool:
        """Whether what was shared is to be applied again, although nothing is known to be wrong.

        Args:
            now_ms: of the clock that ``share`` is given.
            is_doubted: something suggests that somebody has changed or deleted it.
        """
        return any(
            self._is_old(at_ms, now_ms, is_doubted=is_doubted)
            for _, at_ms in self._applied.values()
        )

    def _is_old(self, at_ms: int, now_ms: int, *, is_doubted: bool) -> bool:
        return now_ms - at_ms >= (_DOUBTED_MS if is_doubted else self._again_ms)

    def share(self, view: AppView, now_ms: int, *, is_doubted: bool) -> None:
        """Make what all workers of the application need; what was made is looked at seldom.

        Args:
            view: the application.
            now_ms: a clock that never goes back.
            is_doubted: as for :meth:`must_share_again`.

        Raises:
            HeldUpError: the API server refuses something, for want of rights for example.
        """
        app, owner = view.app, view.owner
        assert app is not None
        self._again_ms = _AGAIN_MS + zlib.crc32(owner.uid.encode()) % _SPREAD_MS
        before, self._applied = self._applied, {}
        for resource, manifest in self._shared(view, app):
            digest = _digest(manifest)
            key = (resource.plural, manifest["metadata"]["name"])
            known, at_ms = before.get(key, ("", 0))
            if known != digest or self._is_old(at_ms, now_ms, is_doubted=is_doubted):
                self._apply(resource, manifest)
                at_ms = now_ms
                if resource is BUDGETS:
                    self._budget_pause_ms = _COUNTED_MS
                    self._budget_ms = now_ms + _COUNTED_MS
            self._applied[key] = (digest, at_ms)

    def _shared(self, view: AppView, app: StreamApp) -> list[tuple[Resource, Manifest]]:
        owner = view.owner
        made = config_map(app, owner, view.revision, self._installation)
        chosen = app.spec.pod_template.service_account
        workers: list[tuple[Resource, Manifest]] = [
            (SERVICE_ACCOUNTS, service_account(owner, chosen=chosen)),
            (ROLES, role(owner)),
            (ROLE_BINDINGS, role_binding(owner)),
            (CONFIG_MAPS, made),
        ]
        if (callers := self._installation.callers) is not None:
            workers.append((NETWORK_POLICIES, network_policy(app, owner, callers)))
        if not view.is_spark:
            return [*workers, (BUDGETS, disruption_budget(app, owner, recount=self._recount))]
        account = driver_account(app.name)
        return [
            *workers,
            (SERVICE_ACCOUNTS, service_account(owner, account, chosen=chosen)),
            (ROLES, driver_role(owner)),
            (ROLE_BINDINGS, role_binding(owner, account)),
            (SERVICES, driver_service(owner)),
            (BUDGETS, spark_budget(app, owner)),
        ]

    def is_budget_due(self, now_ms: int) -> bool:
        """Whether it is time to see whether the pods have been counted."""
        return now_ms >= self._budget_ms

    def keep_budget(self, view: AppView, now_ms: int) -> None:
        """Have pods counted that could not be: until they are, none may be drained.

        The disruption controller hears of a new kind, the StreamApp, up to half a minute late. If
        it counts the pods before, it fails, and does not try again until pods or budget change.
        As long as it has not counted, it is looked at again, after ever longer pauses.
        """
        assert view.app is not None
        if not view.pods or not self.is_budget_due(now_ms):
            return
        if view.is_spark:
            # The budget of driver and executors is a number: nobody has to count.
            self._budget_ms = now_ms + _AGAIN_MS
            return
        self._gate.before(f"apply_{BUDGETS.plural}")
        budget = disruption_budget(view.app, view.owner, recount=self._recount)
        with contextlib.suppress(ForbiddenError, InvalidError):
            is_counted = _is_counted(self._api.apply(BUDGETS, budget), len(view.pods))
            if is_counted:
                self._budget_ms = now_ms + _AGAIN_MS
                return
            if is_counted is False:
                self._recount = str(now_ms)
                budget = disruption_budget(view.app, view.owner, recount=self._recount)
                self._api.apply(BUDGETS, budget)
                name = budget["metadata"]["name"]
                self._applied[BUDGETS.plural, name] = (_digest(budget), now_ms)
        self._budget_ms = now_ms + self._budget_pause_ms
        self._budget_pause_ms = min(_AGAIN_MS, self._budget_pause_ms * 2)

    def _apply(self, resource: Resource, manifest: Manifest) -> None:
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

    def keep_claims(self, view: AppView) -> None:
        """Have claims go with the StreamApp, or stay, and bear the labels that it says now."""
        assert view.app is not None
        wanted = [view.owner.reference()] if is_claim_owned(view.app) else []
        chosen = view.app.spec.state.volume_claim
        for claim in view.claims.values():
            if claim.is_deleting:
                continue
            if claim.is_owned != bool(wanted):
                value = {"path": "/metadata/ownerReferences", "value": wanted}
                self._change_claim(view, claim, [{"op": "add", **value}])
            labels, annotations = claim.lacking(chosen.labels, chosen.annotations)
            if labels or annotations:
                added = claim_labelled(labels, annotations, is_annotated=claim.is_annotated)
                self._change_claim(view, claim, added)

    def _change_claim(self, view: AppView, claim: ClaimView, operations: list[Manifest]) -> None:
        self._gate.before("own_claim")
        same: Manifest = {"op": "test", "path": "/metadata/uid", "value": claim.uid}
        with contextlib.suppress(ConflictError, NotFoundError):
            self._api.patch(CLAIMS, view.owner.namespace, claim.name, [same, *operations])

    def grow_claims(self, view: AppView, now_ms: int) -> None:
        """Have claims ask for what the specification says, if it is more than they do.

        The API server refuses it where the storage class cannot do that; it is asked again seldom.
        """
        assert view.app is not None
        size = str(view.app.spec.state.size)
        before, self._ungrown = self._ungrown, {}
        for claim in view.too_small:
            refused = before.get((claim.uid, size))
            if refused is None or now_ms - refused[0] >= _AGAIN_MS:
                refused = self._grown(view, claim, size, now_ms)
            if refused is not None:
                self._ungrown[claim.uid, size] = refused

    def _grown(
        self, view: AppView, claim: ClaimView, size: str, now_ms: int
    ) -> tuple[int, Problem] | None:
        self._gate.before("grow_claim")
        namespace = view.owner.namespace
        try:
            operations = claim_grown(claim.uid, claim.version, size)
            self._api.patch(CLAIMS, namespace, claim.name, operations)
        except (ConflictError, NotFoundError):
            return None
        except (ForbiddenError, InvalidError) as error:
            named = f" {claim.storage_class}" if claim.storage_class else ""
            return now_ms, Problem(
                reason="VolumeTooSmall",
                message=f"{claim.name} holds less than spec.state.size ({size}) and cannot grow: "
                f"{error}. Set allowVolumeExpansion in its storage class{named} if the driver can "
                "do that; or take the size back; or name another class in "
                "spec.state.storageClassName, and the worker in spec.scaleDown.workersToRemove "
                "with whenScaled: Delete, so that another one gets a new volume",
            )
        return None

    @property
    def ungrown(self) -> tuple[Problem, ...]:
        """Why claims ask for less than the specification does."""
        return tuple(problem for _, problem in self._ungrown.values())

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
        driver = view.driver_pod
        if driver is None or view.is_spark or driver.is_deleting:
            return
        if driver.state.is_proof_of_end:
            # With it go its executors, if any are left.
            self._gate.before("delete_ended_driver")
            self._api.delete(PODS, view.owner.namespace, driver.worker, uid=driver.uid)

    def ensure_leases(self, view: AppView) -> None:
        """Make the Leases that are missing: workers may renew theirs, but not make one."""
        for worker, stored in view.stored_workers.items():
            if worker not in view.leases and worker in view.pods:
                self._gate.before("create_lease")
                try:
                    self._api.create(LEASES, lease(view.owner, worker, stored.uid))
                except AlreadyExistsError:
                    self._delete_unlabelled_lease(view, worker)

    def _delete_unlabelled_lease(self, view: AppView, worker: str) -> None:
        """Have a Lease without our labels made anew: nobody would see that it is renewed."""
        found = self._api.get(LEASES, view.owner.namespace, worker)
        if found is not None and lacking_labels(found, view.owner.name, worker):
            self._gate.before("delete_lease")
            self._api.delete(LEASES, view.owner.namespace, worker, uid=found["metadata"]["uid"])

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
                # A StreamApp may come back to that revision a moment later.
                self._applied.pop((CONFIG_MAPS.plural, metadata["name"]), None)
                self._api.delete(CONFIG_MAPS, namespace, metadata["name"], uid=metadata["uid"])


def _path_of(annotation: str) -> str:
    """Return where an annotation is, in a JSON patch."""
    return f"/metadata/annotations/{annotation.replace('~', '~0').replace('/', '~1')}"


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _is_counted(budget: Manifest, pods: int) -> bool | None:
    """Whether the disruption controller has counted a budget's pods; ``None`` if not yet."""
    status = budget.get("status") or {}
    reasons = {each.get("reason") for each in status.get("conditions") or ()}
    if "SyncFailed" in reasons:
        return False
    is_of_now = status.get("observedGeneration") == budget["metadata"].get("generation")
    return True if reasons and is_of_now and status.get("expectedPods", 0) >= pods else None
