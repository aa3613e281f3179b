"""``headwater reset`` on Kubernetes: writes the annotation, and waits for the operator."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from headwater.errors import EnvironmentProblemError, GroupInUseError, UserError
from headwater.model.appstatus import OperationType
from headwater.model.streamapp import parse
from headwater_operator.kube.errors import ConflictError
from headwater_operator.local.on_cluster import ClusterApp
from headwater_operator.local.patience import Patience
from headwater_operator.local.resetting import confirmed, question_before_reset
from headwater_operator.local.running import error_of, wait_until
from headwater_operator.manifests.names import RESET_ANNOTATION
from headwater_operator.observe.snapshot import read_status

if TYPE_CHECKING:
    from headwater.model.resetting import Beginning
    from headwater_operator.kube.api import Manifest
    from headwater_operator.kube.client import KubeClient

_RESET_S: Final = 300.0


def reset(
    client: KubeClient, namespace: str, name: str, *, to: Beginning, is_confirmed: bool
) -> int:
    """Ask the operator to delete what a StreamApp has computed, and wait for it.

    Args:
        client: with the rights of whoever asks.
        namespace: of the StreamApp.
        name: its own.
        to: where it begins to read then.
        is_confirmed: nobody is asked.

    Raises:
        SpecError: there is no such StreamApp, or its specification is wrong.
        UserError: another reset of it is under way.
        ResetError: the offsets cannot be chosen; the annotation stays.
        GroupInUseError: somebody else is a member of its consumer group; the annotation stays.
        HeadwaterError: it will not be done.
        KubeApiError: the API server refused.
    """
    app = ClusterApp(client, namespace, name)
    if not is_confirmed and not confirmed(question_before_reset(parse(app.read()))):
        sys.stdout.write("nothing was changed\n")
        return 1
    waiting = _Waiting(app, _annotate(app, str(to)), str(to))
    if not wait_until(waiting.is_done, timeout_s=_RESET_S):
        raise EnvironmentProblemError(
            f"{name} was not reset within {_RESET_S:.0f} s: {read_status(app.read()).reason}; "
            f"the operator goes on with it, until you say: {waiting.withdrawal}"
        )
    where = "at these offsets" if to.commits else "from the beginning of its input"
    if app.read()["spec"].get("suspend"):
        sys.stdout.write(f"{name} is reset; once spec.suspend is false, it begins {where}\n")
    else:
        sys.stdout.write(f"{name} is reset, and begins {where}\n")
    return 0


def _annotate(app: ClusterApp, value: str) -> str:
    """Write the annotation; return the StreamApp's uid.

    Raises:
        UserError: another reset is under way.
    """
    while True:
        found = app.read()
        annotations = found["metadata"].get("annotations") or {}
        asked = annotations.get(RESET_ANNOTATION, value)
        if asked != value:
            raise UserError(
                f"a reset of {app.name} is under way, to {asked!r:.80}: wait for its end, or take "
                f"it back: {_withdrawal(app)}"
            )
        changed = {**annotations, RESET_ANNOTATION: value}
        try:
            app.change(found, [{"op": "add", "path": "/metadata/annotations", "value": changed}])
        except ConflictError:
            continue  # somebody has written meanwhile
        return str(found["metadata"]["uid"])


def _withdrawal(app: ClusterApp) -> str:
    return f"kubectl annotate streamapp {app.name} --namespace {app.namespace} {RESET_ANNOTATION}-"


class _Waiting:
    """Waits for the end of a reset.

    Args:
        app: of which StreamApp.
        uid: its uid.
        value: of the annotation.
    """

    def __init__(self, app: ClusterApp, uid: str, value: str) -> None:
        self._app = app
        self._uid = uid
        self._value = value
        self._patience = Patience()

    @property
    def withdrawal(self) -> str:
        """The command that takes the wish back."""
        return _withdrawal(self._app)

    def is_done(self) -> bool:
        """Tell whether it is done.

        Raises:
            HeadwaterError: it will not be done.
        """
        found = self._app.read()
        name, metadata = self._app.name, found["metadata"]
        if metadata["uid"] != self._uid:
            raise EnvironmentProblemError(f"{name} was deleted, and is another StreamApp by now")
        asked = (metadata.get("annotations") or {}).get(RESET_ANNOTATION)
        if asked is None:
            return True
        if asked != self._value:
            raise EnvironmentProblemError(
                f"{name} is not reset: somebody has asked for something else meanwhile "
                f"({asked!r:.80})"
            )
        self._raise_failure(found)
        return False

    def _raise_failure(self, found: Manifest) -> None:
        name, status = self._app.name, read_status(found)
        failure, doing = status.failure, status.operation
        if failure is None or doing is None or doing.type is not OperationType.RESET:
            return  # or it is about what was before the reset
        # A member of the group may leave.
        is_hopeless = failure.is_final and failure.error != GroupInUseError.__name__
        if is_hopeless or self._patience.is_over(name, status):
            error = error_of(name, failure)
            raise type(error)(f"{error}; the operator tries on until you say: {self.withdrawal}")
