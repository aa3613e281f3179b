"""Tokens of service accounts, as pods get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, CoreV1Api


def pod_token(
    api: ApiClient, namespace: str, pod: str, *, audiences: list[str] | None = None
) -> str:
    """A token of the service account of a pod, bound to that pod.

    Its claims name the pod, and its node if it has one; it is worth nothing once the pod is gone.
    """
    found = _core(api).read_namespaced_pod(pod, namespace)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": found.metadata.uid}
    return _request(api, namespace, found.spec.service_account_name, audiences, reference)


def account_token(api: ApiClient, namespace: str, service_account: str = "default") -> str:
    """A token of a service account that is bound to nothing."""
    return _request(api, namespace, service_account, None, None)


def _core(api: ApiClient) -> CoreV1Api:
    # Imported when it is used: it takes a second, and every collection of tests imports this.
    from kubernetes.client import CoreV1Api

    return CoreV1Api(api)


def _request(
    api: ApiClient,
    namespace: str,
    service_account: str,
    audiences: list[str] | None,
    reference: dict[str, str] | None,
) -> str:
    spec: dict[str, Any] = {"audiences": audiences or [], "expirationSeconds": 3600}
    if reference is not None:
        spec["boundObjectRef"] = reference
    answer = _core(api).create_namespaced_service_account_token(
        service_account, namespace, {"spec": spec}
    )
    token: str = answer.status.token
    return token
