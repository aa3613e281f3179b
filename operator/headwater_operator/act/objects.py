"""How the objects of one application are made and its pods ended, whoever they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater_operator.act.events import News
from headwater_operator.act.gate import HeldUpError, OutdatedDecisionError
from headwater_operator.actions import Reason, StopHow
from headwater_operator.kube.api import PODS
from headwater_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
)
from headwater_operator.manifests.names import missing_labels
from headwater_operator.status import Problem

if TYPE_CHECKING:
    from headwater_operator.act.gate import Gate
    from headwater_operator.actions import StopDriver, StopWorker
    from headwater_operator.kube.api import KubeApi, Manifest, Resource
    from headwater_operator.views import AppView, PodView

AT_ONCE_S: Final = 1
"""Grace of a pod that is to end at once. Never 0: that forgets a pod without ending it."""


class Objects:
    """Writes objects of one application.

    Args:
        api: the API server.
        gate: passed before every write.
        view: what the decision was made from.
    """

    def __init__(self, api: KubeApi, gate: Gate, view: AppView) -> None:
        self._api = api
        self._gate = gate
        self._namespace = view.owner.namespace
        self._app = view.owner.name

    def create(
        self,
        resource: Resource,
        whose: str,
        manifest: Manifest,
        *,
        worker: str = "",
        component: str = "",
    ) -> Manifest:
        """Create something of a worker or driver; what is refused holds up this one alone.

        Args:
            resource: what kind of thing.
            whose: the worker or driver, for people.
            manifest: of it.
            worker: whose labels it bears.
            component: likewise.

        Raises:
            OutdatedDecisionError: it is there by now.
            HeldUpError: it is refused, or there is another object of its name.
        """
        try:
            return self._api.create(resource, manifest)
        except AlreadyExistsError as error:
            name = manifest["metadata"]["name"]
            for found in self._api.list(resource, self._namespace, fields=f"metadata.name={name}"):
                lacking = missing_labels(found, self._app, worker=worker, component=component)
                if lacking:
                    raise HeldUpError(_name_taken(resource, whose, name, lacking)) from error
            raise OutdatedDecisionError(str(error)) from error
        except (ForbiddenError, InvalidError) as error:
            raise HeldUpError(
                Problem(
                    reason=f"{resource.kind}Refused",
                    message=f"{whose}: {error}; grant the operator and the namespace what is "
                    "missing, or correct the StreamApp",
                )
            ) from error

    def stop(
        self, pod: PodView | None, action: StopWorker | StopDriver, name: str, step: str
    ) -> News | None:
        """Have a pod end; ``None`` if it has ended, or was told before.

        Raises:
            OutdatedDecisionError: it is another one by now.
        """
        if pod is None or pod.state.is_proof_of_end:
            return None
        is_graceful = action.how is StopHow.GRACEFULLY
        if pod.is_deleting and (is_graceful or pod.grace_s <= AT_ONCE_S):
            return None
        self.delete_pod(pod, None if is_graceful else AT_ONCE_S, step)
        if action.reason is Reason.MOUNT_AGAIN:
            return None  # The condition says what is missing; every 20 s that is no news.
        verb = "told to stop" if is_graceful else "killed"
        return News(
            reason=action.reason,
            worker=name,
            text=f"{verb}: {action.reason}",
            is_warning=not is_graceful,
        )

    def see_off(self, pod: PodView | None, step: str) -> None:
        """Delete a pod whose process has ended, so that another of its name can be made.

        Raises:
            OutdatedDecisionError: it is another one by now.
            HeldUpError: it was deleted before, and other containers in it still end.
        """
        if pod is None:
            return
        if pod.is_deleting and pod.others_running:
            names = ", ".join(pod.others_running)
            raise HeldUpError(
                Problem(
                    reason="ContainersEnding",
                    message=f"{pod.worker}: its process has ended, and its pod waits for {names} "
                    "to end; the next pod is made then. Have them end at SIGTERM",
                )
            )
        self.delete_pod(pod, None, step)

    def delete_pod(self, pod: PodView, grace_s: int | None, step: str) -> None:
        """Delete a pod, unless it is another one by now.

        Raises:
            OutdatedDecisionError: it is.
        """
        self._gate.before(step)
        try:
            self._api.delete(PODS, self._namespace, pod.worker, uid=pod.uid, grace_s=grace_s)
        except ConflictError as error:
            raise OutdatedDecisionError(str(error)) from error


def _name_taken(resource: Resource, whose: str, name: str, lacking: dict[str, str]) -> Problem:
    """Say that there is something of this name that does not say that it belongs to us."""
    said = " ".join(f"{key}={value}" for key, value in lacking.items())
    return Problem(
        reason="NameTaken",
        message=f"{whose}: there is a {resource.kind} {name} without the labels {said}; put them "
        "there if it belongs to this StreamApp, else delete it",
    )
