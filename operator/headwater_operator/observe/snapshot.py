"""One live look at one application, as values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ResetError, SpecError
from headwater.model import resetting
from headwater.model.appstatus import AppStatus
from headwater.model.changes import base_of, revision_of, with_rolled_part
from headwater.model.cluster import StreamWorker
from headwater.model.imagecatalog import image_of
from headwater.model.podcontract import STREAMAPP_KEY
from headwater.model.streamapp import OnFailure, parse
from headwater_operator.decide.judge import held_tasks
from headwater_operator.decide.observed import RESET_NOW, ProcessState, WorkerView
from headwater_operator.kube.api import (
    CLAIMS,
    CONFIG_MAPS,
    LEASES,
    PODS,
    STREAM_APPS,
    STREAM_IMAGE_CATALOGS,
    STREAM_WORKERS,
)
from headwater_operator.kube.clock import boot_ms
from headwater_operator.kube.errors import ForbiddenError, NotFoundError
from headwater_operator.manifests.effective import effective
from headwater_operator.manifests.names import (
    ACTION_ANNOTATION,
    APPLICATION_ID_ANNOTATION,
    DRIVER_COMPONENT,
    EXECUTOR_COMPONENT,
    FINALIZER,
    PAUSE_ANNOTATION,
    RESET_ANNOTATION,
    SHIFTS_ANNOTATION,
    WORKER_LABEL,
    Owner,
    component_of,
    config_name,
    driver_name,
    lacking_labels,
    of_app,
)
from headwater_operator.manifests.storage import bytes_of
from headwater_operator.manifests.worker import is_as_written
from headwater_operator.observe.driver_pod import read_driver
from headwater_operator.observe.leases import read_lease
from headwater_operator.observe.nodes import NodeBook
from headwater_operator.observe.pods import NO_VOLUME, is_hopeless, read_pod
from headwater_operator.observe.rollon import with_changes
from headwater_operator.observe.streamactions import read_actions, with_claims
from headwater_operator.status import Problem
from headwater_operator.views import AppView, ClaimView, Stored, mark_of

_AUTOSCALERS: Final = ("kube-controller-manager", "keda")
"""How the field managers of other autoscalers begin."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headwater.model.streamapp import StreamApp
    from headwater_operator.kube.api import KubeApi, Manifest
    from headwater_operator.manifests.settings import Installation
    from headwater_operator.views import PodView


class Observer:
    """Looks at applications.

    Args:
        api: the API server.
        installation: defaults of this installation.
        now_ms: a clock that never goes back.
    """

    def __init__(
        self, api: KubeApi, installation: Installation, now_ms: Callable[[], int] = boot_ms
    ) -> None:
        self._api = api
        self._nodes = NodeBook(api, now_ms)
        self._installation = installation

    def look(
        self,
        namespace: str,
        name: str,
        before: AppView | None = None,
        *,
        with_actions: bool = True,
    ) -> AppView | None:
        """Read an application and everything that belongs to it; ``None`` if there is none.

        Args:
            namespace: where it is.
            name: of the StreamApp.
            before: how it was when it was looked at last.
            with_actions: read its StreamActions, too.

        Raises:
            KubeApiError: something could not be read.
        """
        manifest = self._api.get(STREAM_APPS, namespace, name)
        if manifest is None:
            return None
        labels = of_app(name)
        # Workers first: a process that is seen to have ended did so after what it says of itself.
        workers = self._workers(namespace, labels, is_deleting=_is_deleting(manifest))
        leases = self._api.list(LEASES, namespace, labels=labels)
        pods, driver, executors = _sorted_out(self._api.list(PODS, namespace, labels=labels), name)
        claims = self._api.list(CLAIMS, namespace, labels=labels)
        view = self.read_app(manifest)
        if with_actions:
            view = replace(view, actions=read_actions(self._api, namespace, name))
        if before is not None and before.owner != view.owner:
            before = None  # of an earlier StreamApp of that name
        keys = view.app.spec.assignment.topology_keys if view.app is not None else ()
        placed = [self._nodes.place(read_pod(pod), keys) for pod in pods]
        workers = (*workers, *self._hidden(view, workers, (*leases, *pods), before))
        found = _with_workers(view, workers, leases, placed, claims)
        found = with_changes(_with_driver(found, driver, executors))
        found = replace(found, actions=with_claims(found.actions, found.claims))
        return found if view.is_deleting else with_vanished(found, before)

    def _workers(self, namespace: str, labels: str, *, is_deleting: bool) -> tuple[Manifest, ...]:
        """Read the StreamWorkers; none, if their definition goes together with the StreamApp.

        Both definitions may be deleted at once, and theirs, without finalizers, is gone first.
        """
        try:
            return self._api.list(STREAM_WORKERS, namespace, labels=labels)
        except NotFoundError:
            if not is_deleting:
                raise
            return ()

    def _hidden(
        self,
        view: AppView,
        workers: Sequence[Manifest],
        belongings: Iterable[Manifest],
        before: AppView | None,
    ) -> list[Manifest]:
        """Return StreamWorkers whose labels were taken away: their tasks are still theirs."""
        names = {str(each["metadata"]["name"]) for each in belongings}
        names |= set(before.stored_workers) if before is not None else set()
        names -= {each["metadata"]["name"] for each in workers}
        found = (
            self._api.get(STREAM_WORKERS, view.owner.namespace, name) for name in sorted(names)
        )
        app = view.owner.name
        return [each for each in found if each is not None and each["spec"].get("app") == app]

    def read_app(self, manifest: Manifest) -> AppView:
        """Read a StreamApp alone, without what belongs to it.

        Raises:
            KubeApiError: the ConfigMap with its topology could not be read.
        """
        metadata = manifest["metadata"]
        finalizers = tuple(metadata.get("finalizers") or ())
        status = read_status(manifest)
        app, problem = self._usable(manifest, status)
        found = self._rolled_back(manifest, status, app) if problem is None else None
        app, rolled_back = found or (app, None)
        annotations = metadata.get("annotations") or {}
        reset_to, unclear_reset = _reset_to(annotations)
        return AppView(
            owner=Owner(
                name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            ),
            stored=Stored(uid=metadata["uid"], version=metadata["resourceVersion"]),
            generation=int(metadata.get("generation") or 1),
            mark=mark_of(metadata),
            created=str(metadata.get("creationTimestamp") or ""),
            has_finalizer=FINALIZER in finalizers,
            finalizers=finalizers,
            is_deleting=_is_deleting(manifest),
            is_paused=str(annotations.get(PAUSE_ANNOTATION)).lower() == "true",
            is_resetting=reset_to is not None,
            reset_to=reset_to or RESET_NOW,
            scaled_by=scaled_by(metadata),
            shifts=_count(annotations.get(SHIFTS_ANNOTATION)),
            unclear_reset=unclear_reset,
            app=app,
            spec_problem=problem,
            revision=_revision(app, status, is_rolled_back=rolled_back is not None),
            rolled_back=rolled_back,
            status=status,
        )

    def _usable(
        self, manifest: Manifest, status: AppStatus
    ) -> tuple[StreamApp | None, Problem | None]:
        """Return the specification to go by, and what is wrong with the present one."""
        namespace = manifest["metadata"]["namespace"]
        try:
            app = parse(manifest)
            source = self._source(namespace, app)
            image = self._catalog_image(namespace, app)
            return effective(app, self._installation, source, image), None
        except SpecError as error:
            problem = Problem(reason="InvalidSpec", message=str(error))
        last = status.revision.current
        if not last:
            return None, problem
        # The last one that could be used goes on.
        name = config_name(manifest["metadata"]["name"], last)
        stored = self._api.get(CONFIG_MAPS, namespace, name)
        return (_from_config(stored) if stored is not None else None), problem

    def _rolled_back(
        self, manifest: Manifest, status: AppStatus, app: StreamApp | None
    ) -> tuple[StreamApp, Problem] | None:
        """Return what was ready before and why it is gone back to; ``None`` if it is not."""
        if app is None or app.spec.upgrade.on_failure is not OnFailure.ROLL_BACK:
            return None
        failed, last = status.revision.failed, status.revision.last_stable
        if not failed or base_of(failed) != revision_of(app.spec) or failed == last:
            return None
        name = config_name(manifest["metadata"]["name"], last)
        stored = self._api.get(CONFIG_MAPS, manifest["metadata"]["namespace"], name)
        good = _from_config(stored) if stored is not None else None
        if good is None:
            return None
        message = (
            f"revision {failed} was rolled back to {last}, which was ready before: "
            f"{status.revision.failed_message}. Correct the StreamApp; to try the same again, "
            "change spec.restartNonce"
        )
        before = replace(app, spec=with_rolled_part(app.spec, good.spec))
        return before, Problem(reason="RolledBack", message=message)

    def _catalog_image(self, namespace: str, app: StreamApp) -> str:
        reference = app.spec.image_catalog_ref
        if reference is None:
            return ""
        try:
            found = self._api.get(STREAM_IMAGE_CATALOGS, namespace, reference.name)
        except ForbiddenError as error:
            raise SpecError(
                "spec.imageCatalogRef: the operator needs the right to get streamimagecatalogs "
                f"(headwater.dev): add it to its Role: {error}"
            ) from error
        return image_of(reference, found)

    def _source(self, namespace: str, app: StreamApp) -> str | None:
        reference = app.spec.topology.config_map_ref
        if reference is None:
            return None
        found = self._api.get(CONFIG_MAPS, namespace, reference.name)
        text = ((found or {}).get("data") or {}).get(reference.key)
        return None if text is None else str(text)


def _revision(app: StreamApp | None, status: AppStatus, *, is_rolled_back: bool) -> str:
    """Return the name of what is wanted: its ConfigMap's, if it is what was ready before."""
    if is_rolled_back:
        return status.revision.last_stable
    return revision_of(app.spec) if app is not None else ""


def _reset_to(annotations: Mapping[str, Any]) -> tuple[str | None, Problem | None]:
    """Return where a reset begins, if one is asked for, and why the annotation is not followed.

    A value that asks for no reset is refused: what it would delete does not come back.
    """
    if RESET_ANNOTATION not in annotations:
        return None, None
    value = str(annotations[RESET_ANNOTATION])
    try:
        return str(resetting.parse(value)), None
    except ResetError as error:
        message = (
            f"the annotation {RESET_ANNOTATION} is {value!r:.40}: nothing is reset; write "
            f"{RESET_ANNOTATION}={RESET_NOW} to delete the application's offsets, topics and "
            f"volumes, or take the annotation away. {error}"
        )
        return None, Problem(reason="ResetNotUnderstood", message=message)


def scaled_by(metadata: Mapping[str, Any]) -> str:
    """Return which autoscaler has written spec.replicas last; empty if none has.

    A HorizontalPodAutoscaler, and KEDA through one, write as the controller manager.
    """
    for entry in metadata.get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        manager = str(entry.get("manager") or "")
        if entry.get("subresource") == "scale" and "f:replicas" in fields:
            return manager if manager.startswith(_AUTOSCALERS) else ""
    return ""


def _count(text: object) -> int:
    """Return a number that the operator has written; 0 if somebody else has."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _is_deleting(manifest: Manifest) -> bool:
    return "deletionTimestamp" in manifest["metadata"]


def read_status(manifest: Manifest) -> AppStatus:
    """Read a StreamApp's status; a damaged one is as good as none, because it is written anew."""
    try:
        return AppStatus.from_dict(manifest.get("status") or {})
    except SpecError:
        return AppStatus()


def read_worker(manifest: Manifest) -> StreamWorker:
    """Read a StreamWorker; a damaged status is as good as none: the worker will write another.

    Raises:
        SpecError: the spec is damaged.
    """
    try:
        return StreamWorker.from_dict(manifest)
    except SpecError:
        return StreamWorker.from_dict({**manifest, "status": {}})


def _from_config(manifest: Manifest) -> StreamApp | None:
    try:
        return parse(json.loads(manifest["data"][STREAMAPP_KEY]))
    except (KeyError, ValueError, SpecError):
        return None


def _sorted_out(
    pods: Iterable[Manifest], app: str
) -> tuple[list[Manifest], Manifest | None, list[Manifest]]:
    """Return the pods of workers, of the driver if there is one, and of its executors."""
    found: dict[str, list[Manifest]] = {}
    for pod in pods:
        found.setdefault(component_of(pod), []).append(pod)
    drivers, executors = found.pop(DRIVER_COMPONENT, []), found.pop(EXECUTOR_COMPONENT, [])
    named = [pod for pod in drivers if pod["metadata"]["name"] == driver_name(app)]
    workers = [pod for several in found.values() for pod in several]
    return workers, named[0] if named else None, executors


def _with_driver(
    view: AppView, manifest: Manifest | None, executors: Iterable[Manifest]
) -> AppView:
    views = tuple(map(read_pod, executors))
    if manifest is None:
        return replace(view, executors=views)
    pod = read_pod(manifest)
    # With a master of the user's own, nobody here sees executors.
    are_pods = view.app is None or view.app.spec.spark.master is None
    return replace(
        view,
        driver_pod=pod,
        executors=views,
        driver=read_driver(manifest, pod, views if are_pods else None),
    )


def _with_workers(
    view: AppView,
    workers: tuple[Manifest, ...],
    leases: tuple[Manifest, ...],
    pods: Sequence[PodView],
    claims: tuple[Manifest, ...],
) -> AppView:
    pod_views = {pod.worker: pod for pod in pods}
    lease_views = {lease["metadata"]["name"]: read_lease(lease) for lease in leases}
    views: list[WorkerView] = []
    stored: dict[str, Stored] = {}
    for manifest in workers:
        metadata = manifest["metadata"]
        name = metadata["name"]
        lacking = lacking_labels(manifest, view.owner.name, name)
        stored[name] = Stored(
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            is_annotated=bool(metadata.get("annotations")),
            labels={**(metadata.get("labels") or {}), **lacking} if lacking else None,
        )
        worker = read_worker(manifest)
        pod = pod_views.get(name)
        views.append(
            WorkerView(
                worker=worker,
                process=pod.state if pod is not None else ProcessState.NONE,
                lease=lease_views.get(name),
                revision=pod.revision if pod is not None and not pod.state.is_proof_of_end else "",
                waits_for=pod.waits_for if pod is not None else "",
                problem=_why_it_cannot_begin(pod),
                is_hopeless=pod is not None and is_hopeless(pod),
                process_id=pod.uid if pod is not None and not pod.state.is_proof_of_end else "",
                is_stopping=pod is not None and pod.is_deleting,
                is_tampered=bool(lacking) or not is_as_written(manifest, worker.spec),
                labels=pod.labels if pod is not None else {},
            )
        )
    return replace(
        view,
        workers=tuple(views),
        stored_workers=stored,
        pods=pod_views,
        claims={worker: claim for worker, claim in map(_read_claim, claims) if worker},
        leases=frozenset(lease_views),
    )


def with_vanished(view: AppView, before: AppView | None) -> AppView:
    """Return the same with StreamWorkers that somebody deleted although they held tasks.

    We delete none that does. Their processes end when they find out, but may be asleep: so they
    are fenced as those of a StreamWorker that was changed by hand, which makes it anew.
    """
    known = {each.worker.name for each in view.workers}
    gone = [
        replace(
            each,
            process=pod.state if (pod := view.pods.get(each.worker.name)) else ProcessState.NONE,
            lease=None,
            is_tampered=True,
        )
        for each in (before.workers if before is not None else ())
        if each.worker.name not in known and held_tasks(each.worker.spec, each.worker.status)
    ]
    return replace(view, workers=(*view.workers, *gone)) if gone else view


def _why_it_cannot_begin(pod: PodView | None) -> str:
    if pod is None or pod.problem is None or pod.problem.reason == NO_VOLUME:
        return ""
    return pod.problem.message


def _read_claim(manifest: Manifest) -> tuple[str, ClaimView]:
    metadata: Mapping[str, Any] = manifest["metadata"]
    worker = str((metadata.get("labels") or {}).get(WORKER_LABEL, ""))
    annotations: Mapping[str, Any] = metadata.get("annotations") or {}
    return worker, ClaimView(
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        is_annotated=bool(annotations),
        application_id=str(annotations.get(APPLICATION_ID_ANNOTATION, "")),
        is_deleting="deletionTimestamp" in metadata,
        is_bound=(manifest.get("status") or {}).get("phase") == "Bound",
        is_owned=bool(metadata.get("ownerReferences")),
        restored_by=str(annotations.get(ACTION_ANNOTATION, "")),
        volume=str((manifest.get("spec") or {}).get("volumeName") or ""),
        storage_class=str((manifest.get("spec") or {}).get("storageClassName") or ""),
        requested=_storage((manifest.get("spec") or {}).get("resources"), "requests"),
        capacity=_storage(manifest.get("status"), "capacity"),
        labels=metadata.get("labels") or {},
        annotations=annotations,
    )


def _storage(place: Mapping[str, Any] | None, part: str) -> int:
    found = ((place or {}).get(part) or {}).get("storage")
    return 0 if found is None else bytes_of(found)
