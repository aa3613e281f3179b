"""What a user does with StreamActions, and what he sees of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater_operator.kube.api import JOBS, STREAM_ACTIONS

if TYPE_CHECKING:
    from headwater_operator.kube.api import Manifest
    from tests.kube.journey import Journey

_WAIT = "--timeout=280s"


def create(journey: Journey, name: str, app: str = "", **spec: object) -> None:
    """Create a StreamAction as a user does."""
    manifest = {
        "apiVersion": STREAM_ACTIONS.api_version,
        "kind": STREAM_ACTIONS.kind,
        "metadata": {"name": name},
        "spec": {"app": app or journey.app, **spec},
    }
    journey.kubectl("create", "--filename=-", stdin=json.dumps(manifest))


def complete(journey: Journey, name: str) -> None:
    """Wait as a user's script does."""
    journey.kubectl("wait", f"sact/{name}", "--for=condition=Complete", _WAIT)


def failure(journey: Journey, name: str) -> tuple[str, str]:
    """Wait until an action has failed; return reason and message."""
    journey.kubectl("wait", f"sact/{name}", "--for=condition=Failed", _WAIT)
    return standing(journey, name, "Failed")


def standing(journey: Journey, name: str, kind: str) -> tuple[str, str]:
    """Reason and message of an action's condition that holds; empty if it does not."""
    found = journey.api.get(STREAM_ACTIONS, journey.namespace, name) or {}
    for each in found.get("status", {}).get("conditions", ()):
        if each["type"] == kind and each["status"] == "True":
            return each["reason"], each["message"]
    return "", ""


def suspended_job(journey: Journey, name: str, container: Manifest) -> Manifest:
    """A Job of the application that waits for an action to start it."""
    pod = {"restartPolicy": "Never", "containers": [container]}
    labels = {"headwater.dev/app": journey.app}
    return {
        "metadata": {"name": name, "namespace": journey.namespace, "labels": labels},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }


def has_begun(journey: Journey, job: str) -> bool:
    """Whether a Job runs, or has run."""
    found = journey.api.get(JOBS, journey.namespace, job) or {}
    return "startTime" in found.get("status", {})
