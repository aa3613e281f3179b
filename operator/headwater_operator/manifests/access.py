"""What an application's pods may do, and how many of them a drain may take at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model import drivercontract, podcontract
from headwater_operator.manifests.names import (
    APP_LABEL,
    COMPONENT_LABEL,
    DRIVER_COMPONENT,
    EXECUTOR_COMPONENT,
    RECOUNT_ANNOTATION,
    WORKER_COMPONENT,
    Manifest,
    Owner,
    metadata,
    pod_labels,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.model.streamapp import StreamApp
    from headwater.model.streamapp_labels import Labelled

_RBAC = "rbac.authorization.k8s.io"


def service_account(owner: Owner, name: str = "", *, chosen: Labelled | None = None) -> Manifest:
    """Return the account under which an application's pods speak to the API server.

    Args:
        owner: the StreamApp.
        name: of the account; the workers', unless said otherwise.
        chosen: the user's labels and annotations of it.
    """
    made = metadata(owner, name or podcontract.service_account(owner.name))
    if chosen is not None:
        made["labels"] = {**chosen.labels, **made["labels"]}
        made["annotations"] = dict(chosen.annotations)
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": made,
        # The pods mount a token of their own, bound to the pod.
        "automountServiceAccountToken": False,
    }


def role(owner: Owner) -> Manifest:
    """Return what the workers may do; an admission policy holds each to its own objects."""
    return _role(owner, podcontract.service_account(owner.name), podcontract.role_rules())


def driver_role(owner: Owner) -> Manifest:
    """Return what a driver may do; an admission policy holds it to executors of its application."""
    return _role(owner, drivercontract.driver_account(owner.name), drivercontract.driver_rules())


def _role(owner: Owner, name: str, rules: list[dict[str, object]]) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": metadata(owner, name),
        "rules": rules,
    }


def role_binding(owner: Owner, name: str = "") -> Manifest:
    """Return the binding of a role to the account of its name; the workers', unless said so."""
    name = name or podcontract.service_account(owner.name)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(owner, name),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": owner.namespace}],
    }


def _eviction_policy(app: StreamApp) -> str:
    """Return whether a drain may take pods that are not ready, however few are ready.

    A worker that is not ready holds no caught-up task: it must not block a drain. That is not known
    of a pod with other containers that last, for each of them can make it not ready: by its probe,
    or because it has ended.
    """
    template = app.spec.pod_template
    has_others = template.containers or any(each.is_sidecar for each in template.init_containers)
    return "IfHealthyBudget" if has_others else "AlwaysAllow"


def disruption_budget(app: StreamApp, owner: Owner, *, recount: str = "") -> Manifest:
    """Return the budget that lets a drain of nodes take one worker at a time.

    How many there should be is known to the disruption controller because the pods' controller is
    the StreamApp, which has the scale subresource. So the budget needs no change when it is scaled,
    and none is left behind that could never be met.

    Args:
        app: whose workers.
        owner: the StreamApp.
        recount: another text than before has the disruption controller count anew.
    """
    made = metadata(owner, app.name)
    if recount:
        made["annotations"] = {RECOUNT_ANNOTATION: recount}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": made,
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": pod_labels(app.name)},
            "unhealthyPodEvictionPolicy": _eviction_policy(app),
        },
    }


def network_policy(app: StreamApp, owner: Owner, callers: Sequence[Manifest]) -> Manifest:
    """Return the policy that says who may call an application's pods.

    Its own pods may, at every port, since driver and executors of Spark speak to each other at
    several. A kubelet's probes need no rule.

    Args:
        app: the application.
        owner: the StreamApp.
        callers: peers that may call the HTTP port besides.
    """
    ours: list[Manifest] = [
        {"from": [{"podSelector": {"matchLabels": {APP_LABEL: app.name}}}]},
    ]
    others: list[Manifest] = [
        {"ports": [{"port": podcontract.HTTP_PORT, "protocol": "TCP"}], "from": list(callers)}
    ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(owner, app.name),
        "spec": {
            "podSelector": {
                "matchLabels": {APP_LABEL: app.name},
                "matchExpressions": [
                    {
                        "key": COMPONENT_LABEL,
                        "operator": "In",
                        "values": [WORKER_COMPONENT, DRIVER_COMPONENT, EXECUTOR_COMPONENT],
                    }
                ],
            },
            "policyTypes": ["Ingress"],
            # Without peers a rule would admit everybody.
            "ingress": [*ours, *(others if callers else [])],
        },
    }


def spark_budget(app: StreamApp, owner: Owner) -> Manifest:
    """Return the budget that lets a drain take one of driver and executors at a time.

    Executors are the driver's pods, and a pod cannot be asked how many there should be: so this is
    a number. With a master of the user's own there is the driver's pod alone: a drain may take it,
    and another one goes on. This takes the place of the workers' budget, under its name.
    """
    executors = app.wanted_workers if app.spec.spark.master is None else 0
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, app.name),
        "spec": {
            "minAvailable": executors,
            "selector": {
                "matchLabels": {APP_LABEL: app.name},
                "matchExpressions": [
                    {
                        "key": COMPONENT_LABEL,
                        "operator": "In",
                        "values": [DRIVER_COMPONENT, EXECUTOR_COMPONENT],
                    }
                ],
            },
            "unhealthyPodEvictionPolicy": _eviction_policy(app),
        },
    }
