"""StreamActions as a user creates them, and waits for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headwater_operator.kube.api import STREAM_ACTIONS
from tests.e2e.site import APP, PATIENCE_S, say

if TYPE_CHECKING:
    from tests.kube.fixtures import Command


def create(kubectl: Command, name: str, **spec: object) -> None:
    """Create one."""
    manifest = {
        "apiVersion": STREAM_ACTIONS.api_version,
        "kind": STREAM_ACTIONS.kind,
        "metadata": {"name": name},
        "spec": {"app": APP, **spec},
    }
    kubectl("create", "--filename=-", stdin=json.dumps(manifest))


def ended(kubectl: Command, name: str, condition: str) -> dict[str, Any]:
    """Wait until one is ``Complete`` or ``Failed``; return its status."""
    kubectl("wait", f"sact/{name}", f"--for=condition={condition}", f"--timeout={PATIENCE_S}s")
    found: dict[str, Any] = json.loads(kubectl("get", "sact", name, "--output=json"))["status"]
    say(f"{name}: {json.dumps(found.get('history'))}")
    return found


def act(kubectl: Command, name: str, **spec: object) -> dict[str, Any]:
    """Create one and wait until it is complete; return its status."""
    create(kubectl, name, **spec)
    return ended(kubectl, name, "Complete")
