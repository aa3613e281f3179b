"""The actions of a decision that workers are made with, on a cluster."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from headwater.model.cluster import WorkerSpec
from headwater_operator.act.drivers import Drivers
from headwater_operator.act.events import News
from headwater_operator.act.gate import HeldUpError, OutdatedDecisionError
from headwater_operator.act.objects import Objects
from headwater_operator.actions import (
    DeleteWorker,
    Reason,
    StartDriver,
    StartWorker,
    StopDriver,
    StopWorker,
    WriteWorkerSpec,
    news_of,
)
from headwater_operator.kube.api import CLAIMS, LEASES, PODS, STREAM_WORKERS
from headwater_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
)
from headwater_operator.manifests.pod import worker_pod
from headwater_operator.manifests.storage import claim, claim_taken
from headwater_operator.manifests.worker import lease, spec_patch, stream_worker
from headwater_operator.status import Problem
from headwater_operator.views import Stored

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater_operator.act.gate import Gate
    from headwater_operator.actions import Action
    from headwater_operator.kube.api import KubeApi, Manifest, Resource
    from headwater_operator.manifests.settings import Installation
    from headwater_operator.views import AppView, ClaimView


class Actor:
    """Carries out the actions of one decision about one application.

    Args:
        api: the API server.
        gate: passed before every write.
        view: what the decision was made from.
        installation: defaults of this installation.
    """

    def __init__(self, api: KubeApi, gate: Gate, view: AppView, installation: Installation) -> None:
        assert view.app is not None
        self._api = api
        self._gate = gate
        self._view = view
        self._app: StreamApp = view.app
        self._owner = view.owner
        self._namespace = view.owner.namespace
        self._installation = installation
        self._created: dict[str, Stored] = {}
        self._objects = Objects(api, gate, view)
        self._drivers = Drivers(self._objects, gate, view, installation)

    def carry_out(self, action: Action) -> News | None:
        """Do what the action says; return what to tell people, ``None`` if that is no news.

        Raises:
            OutdatedDecisionError: the decision was made from something that is no longer so.
            HeldUpError: it cannot be done now, for a reason that somebody has to see to.
            KubeApiError: the API server refused, or did not answer; it may have been done.
        """
        match action:
            case WriteWorkerSpec():
                return self._write_spec(action)
            case StartDriver():
                return self._drivers.start(action)
            case StopDriver():
                return self._drivers.stop(action)
            case StartWorker():
                return self._start(action)
            case StopWorker():
                return self._stop(action)
            case DeleteWorker():
                return self._delete(action)

    # -- StreamWorker ----------------------------------------------------------------------------

    def _write_spec(self, action: WriteWorkerSpec) -> News | None:
        before, stored = self._spec_of(action.worker), self._view.stored_workers.get(action.worker)
        try:
            if stored is None:
                self._gate.before("create_worker")
                manifest = stream_worker(self._owner, action.worker, action.spec)
                made = self._create(STREAM_WORKERS, action.worker, manifest)
                metadata = made["metadata"]
                self._created[action.worker] = Stored(
                    uid=metadata["uid"], version=metadata["resourceVersion"]
                )
                return None
            self._gate.before("write_spec")
            patch = spec_patch(
                action.spec,
                replaces=action.replaces,
                version=stored.version,
                is_annotated=stored.is_annotated,
                labels=stored.labels,
            )
            written = self._api.patch(STREAM_WORKERS, self._namespace, action.worker, patch)
            self._gate.wrote(written)
        except (ConflictError, NotFoundError) as error:
            raise OutdatedDecisionError(str(error)) from error
        text = news_of(before, action)
        return None if text is None else News(reason=action.reason, worker=action.worker, text=text)

    def _spec_of(self, worker: str) -> WorkerSpec:
        for view in self._view.workers:
            if view.worker.name == worker:
                return view.worker.spec
        return WorkerSpec(app=self._app.name)

    def _stored(self, worker: str) -> Stored:
        found = self._created.get(worker) or self._view.stored_workers.get(worker)
        if found is None:
            raise OutdatedDecisionError(f"the StreamWorker {worker} is gone")
        return found

    # -- pods and claims -------------------------------------------------------------------------

    def _start(self, action: StartWorker) -> News | None:
        worker = action.worker
        pod = self._view.pods.get(worker)
        if pod is not None and not pod.state.is_proof_of_end:
            return None
        stored = self._stored(worker)
        if worker not in self._view.leases:
            self._gate.before("create_lease")
            with contextlib.suppress(AlreadyExistsError):
                self._api.create(LEASES, lease(self._owner, worker, stored.uid))
        self._ensure_claim(worker)
        self._objects.see_off(pod, "delete_ended_pod")
        self._gate.before("create_pod")
        self._create(PODS, worker, self._pod(worker))
        if action.reason is Reason.MOUNT_AGAIN:
            return None
        if pod is None or not pod.ended:
            return News(reason=action.reason, worker=worker, text=f"started: {action.reason}")
        text = f"started again; it had ended: {pod.ended}"
        return News(reason=action.reason, worker=worker, text=text)

    def _create(self, resource: Resource, worker: str, manifest: Manifest) -> Manifest:
        return self._objects.create(resource, worker, manifest, worker=worker)

    def _pod(self, worker: str) -> Manifest:
        return worker_pod(
            self._app,
            self._owner,
            worker,
            revision=self._view.revision,
            installation=self._installation,
        )

    def _ensure_claim(self, worker: str) -> None:
        """Make the claim, or take the one that is there: it holds state of this application."""
        found = self._view.claims.get(worker)
        if found is None:
            self._gate.before("create_claim")
            self._create(CLAIMS, worker, claim(self._app, self._owner, worker))
            return
        if found.is_deleting:
            raise HeldUpError(
                Problem(
                    reason="VolumeDeleting",
                    message=f"{worker}: its claim {found.name} is being deleted; it is made anew "
                    "as soon as it is gone. If it stays, look at its finalizers",
                )
            )
        if found.application_id not in ("", self._app.application_id):
            raise HeldUpError(
                Problem(
                    reason="VolumeOfAnotherApplication",
                    message=f"{worker}: the claim {found.name} holds state of the application "
                    f"{found.application_id!r}, not of {self._app.application_id!r}; delete the "
                    "claim, or rename the StreamApp",
                )
            )
        self._gate.before("take_claim")
        operations = claim_taken(found.version, is_annotated=found.is_annotated)
        try:
            self._api.patch(CLAIMS, self._namespace, found.name, operations)
        except (ConflictError, NotFoundError) as error:
            raise OutdatedDecisionError(str(error)) from error

    def _delete_claim(self, found: ClaimView) -> None:
        """Delete a claim, unless a pod has been given it since it was read."""
        self._gate.before("delete_claim")
        try:
            self._api.delete(
                CLAIMS,
                self._namespace,
                found.name,
                uid=found.uid,
                resource_version=found.version,
            )
        except ConflictError as error:
            raise OutdatedDecisionError(str(error)) from error

    def _stop(self, action: StopWorker) -> News | None:
        pod = self._view.pods.get(action.worker)
        return self._objects.stop(pod, action, action.worker, "delete_pod")

    def _delete(self, action: DeleteWorker) -> News | None:
        """Delete a worker that holds nothing, in the order that leaks nothing.

        The claim's deletion is asked for first: it goes when the pod has gone, and whoever is
        killed here is followed by somebody who still sees the StreamWorker.
        """
        worker = action.worker
        stored = self._view.stored_workers.get(worker)
        if stored is None:
            return None
        if self._spec_of(worker).epoch != action.replaces:
            raise OutdatedDecisionError(f"{worker} was written again")
        found, pod = self._view.claims.get(worker), self._view.pods.get(worker)
        if action.delete_state and found is not None and not found.is_deleting:
            self._delete_claim(found)
        if pod is not None:
            self._objects.delete_pod(pod, None, "delete_ended_pod")
        # The garbage collector would delete it, too, but maybe after the next worker of this name
        # has begun to rely on it.
        self._gate.before("delete_lease")
        self._api.delete(LEASES, self._namespace, worker)
        self._gate.before("delete_worker")
        try:
            # The version is that of the epoch the decision was made from.
            self._api.delete(
                STREAM_WORKERS,
                self._namespace,
                worker,
                uid=stored.uid,
                resource_version=stored.version,
            )
        except ConflictError as error:
            raise OutdatedDecisionError(str(error)) from error
        state = " with its state" if action.delete_state else ""
        text = f"deleted{state}: {action.reason}"
        return News(reason=action.reason, worker=worker, text=text)
