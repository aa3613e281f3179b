"""What the operator may do, as rules of RBAC: the one list that installations are made from.

    operator_rules    everything, for an operator that runs the StreamApps of all namespaces
    namespace_rules   in each namespace, for one that runs those of some
    election_rules    where its own Lease lives, if that is none of these
    departure_rules   everywhere, if it is to let go of StreamApps whose namespace is being deleted
    shard_rules       beyond namespaces: their labels, for an operator that chooses by them
    node_rules        beyond namespaces: labels of nodes, for ``spec.assignment.topologyKeys``
    caller_rules      where it lives: tokens of an account without rights, to show them to workers

Every verb is one that the operator uses, and it may not read Secrets. A rule is needed for one more
reason: Kubernetes lets nobody grant what he may not do himself, and the operator grants the rights
of workers and drivers (``podcontract.role_rules``, ``drivercontract.driver_rules``).
"""

from __future__ import annotations

from typing import Any, Final

Rule = dict[str, Any]

_OWN: Final = "headwater.dev"
_COORDINATION: Final = "coordination.k8s.io"
_APPLY: Final = ["create", "patch"]
"""Server-side apply of an object that may not exist yet."""


def operator_rules() -> list[Rule]:
    """Return what an operator needs in a ClusterRole that is bound for the whole cluster."""
    return [*namespace_rules(), *node_rules()]


def namespace_rules() -> list[Rule]:
    """Return what an operator needs in every namespace whose StreamApps it runs."""
    return [
        _rule(_OWN, "streamapps", ["get", "list", "watch", "patch"]),
        _rule(_OWN, "streamapps/status", ["patch"]),
        _rule(_OWN, "streamworkers", ["get", "list", "watch", "create", "patch", "delete"]),
        # Granted to workers, never used.
        _rule(_OWN, "streamworkers/status", ["patch"]),
        _rule(_OWN, "streamimagecatalogs", ["get"]),
        _rule(_OWN, "streamactions", ["list", "watch", "delete"]),
        _rule(_OWN, "streamactions/status", ["patch"]),
        # For StreamActions: copies of volumes, and the Jobs of backfills.
        _rule("snapshot.storage.k8s.io", "volumesnapshots", ["list", "create"]),
        _rule("batch", "jobs", ["get", "patch"]),
        # Workers' Leases, and its own; workers may get and update theirs.
        _rule(_COORDINATION, "leases", ["get", "list", "create", "update", "delete"]),
        # The first and the last are granted to drivers of Spark, never used.
        _rule("", "pods", ["get", "list", "watch", "create", "delete", "deletecollection"]),
        _rule("", "persistentvolumeclaims", ["list", "watch", "create", "patch", "delete"]),
        _rule("", "configmaps", ["get", "list", *_APPLY, "delete"]),
        _rule("", "serviceaccounts", _APPLY),
        _rule("", "services", _APPLY),
        _rule("", "events", ["list", "create", "patch"]),
        _rule("rbac.authorization.k8s.io", "roles", _APPLY),
        _rule("rbac.authorization.k8s.io", "rolebindings", _APPLY),
        _rule("networking.k8s.io", "networkpolicies", _APPLY),
        _rule("policy", "poddisruptionbudgets", _APPLY),
    ]


def election_rules() -> list[Rule]:
    """Return what an operator needs where its own Lease lives."""
    return [_rule(_COORDINATION, "leases", ["get", "create", "update"])]


def departure_rules() -> list[Rule]:
    """Return what an operator of some namespaces needs once its rights in one have gone with it.

    RBAC knows no namespace that is being deleted, and no finalizer: the rules hold for every
    StreamApp of the cluster. So whoever installs the operator has to ask for them.
    """
    return [_rule(_OWN, "streamapps", ["list", "patch"]), _rule("", "namespaces", ["get"])]


def shard_rules() -> list[Rule]:
    """Return what an operator needs to run the namespaces with certain labels only."""
    return [_rule("", "namespaces", ["list"])]


def node_rules() -> list[Rule]:
    """Return what an operator needs to know where nodes are; they live in no namespace."""
    return [_rule("", "nodes", ["get"])]


def caller_rules(account: str) -> list[Rule]:
    """Return what an operator needs to have tokens for workers that ask their callers for one.

    Args:
        account: a service account of the operator's namespace. It may do nothing, so that nobody
            gains by a token of it: whoever may create tokens says how long and where they hold.
    """
    return [_rule("", "serviceaccounts/token", ["create"]) | {"resourceNames": [account]}]


def _rule(group: str, resource: str, verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
