"""Kubernetes Events: what was done and why, in the sentence that log and status use."""

from __future__ import annotations

import hashlib
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headwater.model.cluster import API_VERSION
from headwater_operator.kube.api import EVENTS, FIELD_MANAGER
from headwater_operator.kube.clock import whole_time
from headwater_operator.kube.errors import AlreadyExistsError, KubeApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater_operator.actions import Reason
    from headwater_operator.kube.api import KubeApi, Manifest
    from headwater_operator.manifests.names import Owner
    from headwater_operator.status import Problem

log = logging.getLogger(__name__)

_MESSAGE_MAX: Final = 1_000
_NAME_MAX: Final = 200
_SUFFIX: Final = 16
"""Characters that tell Events of one StreamApp apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something to tell people.

    Attributes:
        reason: why it was done.
        text: one sentence.
        worker: which worker it is about, if one.
        is_warning: somebody should look.
    """

    reason: Reason
    text: str
    worker: str = ""
    is_warning: bool = False


class Herald:
    """Posts Events about one application. An Event that cannot be posted is only logged.

    One that does not lead any more says nothing: all of these raise ``NotLeadingError`` then.

    Args:
        api: the API server.
        owner: the StreamApp.
        instance: which operator says so.
        require: raises if this operator does not lead any more.
    """

    def __init__(
        self, api: KubeApi, owner: Owner, instance: str, require: Callable[[], None]
    ) -> None:
        self._api = api
        self._owner = owner
        self._instance = instance
        self._require = require

    def tell(self, news: News) -> None:
        """Post what was done."""
        text = f"{news.worker}: {news.text}" if news.worker else news.text
        self._post(_camel(news.reason.name), text, is_warning=news.is_warning)

    def warn(self, problem: Problem) -> None:
        """Post what is wrong: one Event for each reason, which counts how often its text changed.

        A message may flip for hours, as that of an image that cannot be pulled does.
        """
        about = f"{self._owner.uid} {problem.reason}".encode()
        once = hashlib.sha256(about).hexdigest()[:_SUFFIX]
        self._post(problem.reason, problem.message, is_warning=True, suffix=once)

    def note(self, reason: str, text: str) -> None:
        """Post something that is neither done nor wrong: a new state."""
        self._post(reason, text, is_warning=False)

    def _post(self, reason: str, text: str, *, is_warning: bool, suffix: str = "") -> None:
        self._require()
        log.info("%s/%s: %s: %s", self._owner.namespace, self._owner.name, reason, text)
        now = whole_time()
        manifest: Manifest = {
            "metadata": {
                "name": f"{self._owner.name[:_NAME_MAX]}.{suffix or uuid.uuid4().hex[:_SUFFIX]}",
                "namespace": self._owner.namespace,
            },
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": "StreamApp",
                "name": self._owner.name,
                "namespace": self._owner.namespace,
                "uid": self._owner.uid,
            },
            "type": "Warning" if is_warning else "Normal",
            "reason": reason,
            "message": text[:_MESSAGE_MAX],
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": f"headwater.dev/{FIELD_MANAGER}",
            "reportingInstance": self._instance[:128],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            try:
                self._api.create(EVENTS, manifest)
            except AlreadyExistsError:
                self._count(manifest)
        except KubeApiError as error:
            log.warning("an Event could not be posted: %s", error)

    def _count(self, manifest: Manifest) -> None:
        """Write what is new into the Event that is there."""
        name = manifest["metadata"]["name"]
        for found in self._api.list(EVENTS, self._owner.namespace, fields=f"metadata.name={name}"):
            changed = {key: manifest[key] for key in ("message", "lastTimestamp")}
            changed["count"] = int(found.get("count") or 0) + 1
            operations = [
                {"op": "add", "path": f"/{key}", "value": value} for key, value in changed.items()
            ]
            self._api.patch(EVENTS, self._owner.namespace, name, operations)


def _camel(name: str) -> str:
    """Return ``WORKER_LOST`` as ``WorkerLost``."""
    return "".join(part.capitalize() for part in name.split("_"))
