"""The custom resource definitions on a real API server, and short ways to write resources there."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from headwater_operator.spec import custom_resource_definitions
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes.client import ApiClient

    from headwater.model.cluster import StreamWorker

GROUP, VERSION = "headwater.dev", "v1alpha1"
APPS, WORKERS, ACTIONS = "streamapps", "streamworkers", "streamactions"
_ALL_GROUPS = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture(scope="session")
def crds(kube_api: ApiClient) -> None:
    """Both definitions, served."""
    install(kube_api)


def install(api: ApiClient) -> None:
    """Create or replace both definitions and wait until the API server serves them."""
    from kubernetes.client import ApiextensionsV1Api

    extensions = ApiextensionsV1Api(api)
    for name, definition in custom_resource_definitions().items():
        extensions.patch_custom_resource_definition(
            name,
            definition,
            field_manager="headwater-tests",
            force=True,
            _content_type="application/apply-patch+yaml",
        )
    for name in custom_resource_definitions():
        wait_for(lambda name=name: _is_established(extensions, name), what=f"{name} to be there")
    wait_for(lambda: are_served(api), what="both kinds to be served")


def _is_established(extensions: Any, name: str) -> bool:
    found = extensions.read_custom_resource_definition(name)
    conditions = {item.type: item.status for item in found.status.conditions or ()}
    return conditions.get("Established") == "True"


def are_served(api: ApiClient) -> bool:
    """Whether both kinds can be listed, and tools are told of them and of their fields.

    Each of the three comes up to some seconds after a definition, or after a start of the server.
    """
    version = f"/apis/{GROUP}/{VERSION}"
    listed = [_read(api, f"{version}/{plural}").get("kind") for plural in (APPS, WORKERS, ACTIONS)]
    told = {
        resource["resource"]
        for group in _read(api, "/apis", _ALL_GROUPS).get("items", ())
        if group["metadata"].get("name") == GROUP
        for each in group["versions"]
        for resource in each["resources"]
    }
    documents = _read(api, "/openapi/v3").get("paths", {})
    place = documents.get(version.lstrip("/"), {}).get("serverRelativeURL")
    explained = _read(api, place).get("paths", {}) if place else {}
    return (
        listed == ["StreamAppList", "StreamWorkerList", "StreamActionList"]
        and told >= {APPS, WORKERS, ACTIONS}
        and all(f"{version}/{plural}" in explained for plural in (APPS, WORKERS, ACTIONS))
    )


def _read(api: ApiClient, path: str, accept: str = "application/json") -> dict[str, Any]:
    """Return what the API server answers; empty if that is no document."""
    request = api.param_serialize(
        "GET", path, header_params={"Accept": accept}, auth_settings=["BearerToken"]
    )
    response = api.call_api(*request)
    data = response.read()
    with contextlib.suppress(ValueError):
        found = json.loads(data)
        return found if response.status == 200 and isinstance(found, dict) else {}
    return {}


class RefusedError(Exception):
    """The API server refused a resource; the message is the server's.

    Attributes:
        causes: which field is to blame, and why.
    """

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status["message"])
        causes = status.get("details", {}).get("causes", ())
        self.causes = [
            # The resource as a whole is told as a pointer to nothing.
            (cause.get("field", "").replace("<nil>", ""), cause.get("message", ""))
            for cause in causes
        ]


@dataclass(frozen=True, slots=True)
class Resources:
    """Writes resources of one kind into one namespace, as strictly as kubectl does."""

    api: ApiClient
    namespace: str
    plural: str

    def try_create(self, body: dict[str, Any]) -> None:
        """Have the API server check a new resource without keeping it."""
        self._call("create_namespaced_custom_object", body, dry_run="All")

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create a resource and return it as kept."""
        return self._call("create_namespaced_custom_object", body)

    def patch(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Merge into a resource."""
        return self._call("patch_namespaced_custom_object", name, body)

    def write_status(self, name: str, status: Mapping[str, Any], **others: Any) -> dict[str, Any]:
        """Merge into the status of a resource; ``others`` are parts that do not belong there."""
        body = {"status": status, **others}
        return self._call("patch_namespaced_custom_object_status", name, body)

    def read(self, name: str) -> dict[str, Any]:
        """Return a resource."""
        return self._call("get_namespaced_custom_object", name)

    def delete(self, name: str) -> None:
        """Delete a resource."""
        self._call("delete_namespaced_custom_object", name)

    def _call(self, method: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        from kubernetes.client import CustomObjectsApi
        from kubernetes.client.exceptions import ApiException

        if method.startswith(("create", "patch")):
            options["field_validation"] = "Strict"
        call = getattr(CustomObjectsApi(self.api), method)
        try:
            done: dict[str, Any] = call(
                GROUP, VERSION, self.namespace, self.plural, *arguments, **options
            )
        except ApiException as error:
            if error.status not in {400, 422} or error.body is None:
                raise
            raise RefusedError(json.loads(error.body)) from error
        return done


@pytest.fixture
def stream_apps(kube_api: ApiClient, namespace: str) -> Resources:
    """StreamApps in the test's namespace."""
    return Resources(kube_api, namespace, APPS)


@pytest.fixture
def stream_workers(kube_api: ApiClient, namespace: str) -> Resources:
    """StreamWorkers in the test's namespace."""
    return Resources(kube_api, namespace, WORKERS)


def worker_body(worker: StreamWorker) -> dict[str, Any]:
    """Return a StreamWorker without its status, which is written by another request."""
    body = worker.to_dict()
    del body["status"]
    return body
