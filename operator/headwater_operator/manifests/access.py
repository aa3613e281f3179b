"""What an application's workers may do, and how many of them a drain may take at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model import podcontract
from headwater_operator.manifests.names import Manifest, Owner, metadata, pod_labels

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp

_RBAC = "rbac.authorization.k8s.io"


def service_account(owner: Owner) -> Manifest:
    """Return the account under which the workers of an application speak to the API server."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(owner, podcontract.service_account(owner.name)),
        # The pods mount a token of their own, bound to the pod.
        "automountServiceAccountToken": False,
    }


def role(owner: Owner) -> Manifest:
    """Return what the workers may do; an admission policy holds each to its own objects."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": metadata(owner, podcontract.service_account(owner.name)),
        "rules": podcontract.role_rules(),
    }


def role_binding(owner: Owner) -> Manifest:
    """Return the binding of the role to the account."""
    name = podcontract.service_account(owner.name)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(owner, name),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": owner.namespace}],
    }


def disruption_budget(app: StreamApp, owner: Owner) -> Manifest:
    """Return the budget that lets a drain of nodes take one worker at a time.

    How many there should be is known to the disruption controller because the pods' controller is
    the StreamApp, which has the scale subresource. So the budget needs no change when it is scaled,
    and none is left behind that could never be met.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, app.name),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": pod_labels(app.name)},
            # A worker that is not ready holds no caught-up task: it must not block a drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
