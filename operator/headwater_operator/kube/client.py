"""The port over the ``kubernetes`` package: its connections and credentials, our JSON."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import kubernetes.client
import kubernetes.config
import urllib3
from kubernetes.client.exceptions import ApiException

from headwater_operator.kube.api import FIELD_MANAGER, PODS, KubeApi, Manifest, Resource
from headwater_operator.kube.errors import (
    AlreadyExistsError,
    ApiUnavailableError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    KubeApiError,
    NotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NO_NAMESPACE: Final = "default"
_CONNECT_S: Final = 5.0
_READ_S: Final = 20.0
_PAGE: Final = 500
_VERSION: Final = Resource("v1", "Version", "version", is_namespaced=False)
_OK: Final = 200
_PART: Final = 64 * 1024
_CONNECTIONS: Final = 16

try:  # it reads the lists of a large cluster in a fifth of the time
    from orjson import loads as _loads
except ImportError:  # kubectl's plug-in can do without
    from json import loads as _loads  # type: ignore[assignment]

_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_JSON_PATCH: Final = "application/json-patch+json"

_BUSY: Final = (408, 425, 429)


class KubeClient:
    """The API server, reached by HTTP.

    Args:
        configuration: address and credentials.
        user_agent: how the API server's logs shall call us.
        field_manager: the name under which written fields are owned.
        connect_s: a connection must stand within so many seconds.
        read_s: an answer must come within so many seconds.
        observe_call: told of every call that was made: verb, plural and HTTP status (0: none).
    """

    def __init__(
        self,
        configuration: kubernetes.client.Configuration,
        *,
        user_agent: str = FIELD_MANAGER,
        field_manager: str = FIELD_MANAGER,
        connect_s: float = _CONNECT_S,
        read_s: float = _READ_S,
        observe_call: Callable[[str, str, int], None] | None = None,
    ) -> None:
        # A call that was lost is tried again by whoever made it: he knows whether that is safe.
        configuration.retries = urllib3.Retry(0)
        configuration.connection_pool_maxsize = _CONNECTIONS
        self._client = kubernetes.client.ApiClient(configuration)
        self._client.user_agent = user_agent
        self._field_manager = field_manager
        self._timeout = (connect_s, read_s)
        self._observe_call = observe_call
        self._guard = threading.Lock()

    @classmethod
    def from_environment(
        cls,
        kubeconfig: Path | None = None,
        *,
        context: str | None = None,
        field_manager: str = FIELD_MANAGER,
        observe_call: Callable[[str, str, int], None] | None = None,
    ) -> KubeClient:
        """Connect as a pod does with its service account, else as ``kubectl`` would.

        Args:
            kubeconfig: this file and nothing else.
            context: of the kubeconfig, instead of its current one.
            field_manager: see the constructor.
            observe_call: see the constructor.

        Raises:
            ApiUnavailableError: nothing says where the API server is.
        """
        return cls(
            configuration_of(kubeconfig, context),
            user_agent=field_manager,
            field_manager=field_manager,
            observe_call=observe_call,
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...]:
        """As in the port; in pages, and from the beginning if a page has become too old."""
        selection = {"labelSelector": labels, "fieldSelector": fields}
        try:
            return self._list(resource, namespace, {**selection, "limit": str(_PAGE)})
        except ExpiredError:
            return self._list(resource, namespace, selection)

    def _list(
        self, resource: Resource, namespace: str | None, selection: Mapping[str, str]
    ) -> tuple[Manifest, ...]:
        found: list[Manifest] = []
        token = ""
        while True:
            query = {**selection, "continue": token}
            answer = self._call("GET", "list", resource, resource.path(namespace), query=query)
            # The items of a list do not say what they are.
            found += [
                {"apiVersion": resource.api_version, "kind": resource.kind, **item}
                for item in answer.get("items") or ()
            ]
            token = answer.get("metadata", {}).get("continue") or ""
            if not token:
                return tuple(found)

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        """As in the port."""
        try:
            return self._call("GET", "get", resource, resource.path(namespace, name))
        except NotFoundError:
            return None

    def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        """As in the port."""
        path = resource.path(manifest["metadata"].get("namespace"))
        query = {"fieldManager": self._field_manager}
        return self._call("POST", "create", resource, path, query=query, body=manifest)

    def replace(self, resource: Resource, manifest: Manifest) -> Manifest:
        """As in the port."""
        path = _path_of(resource, manifest)
        query = {"fieldManager": self._field_manager}
        return self._call("PUT", "update", resource, path, query=query, body=manifest)

    def apply(self, resource: Resource, manifest: Manifest, *, subresource: str = "") -> Manifest:
        """As in the port."""
        query = {"fieldManager": self._field_manager, "force": "true"}
        try:
            return self._call(
                "PATCH",
                "apply",
                resource,
                _path_of(resource, manifest, subresource),
                query=query,
                body={"apiVersion": resource.api_version, "kind": resource.kind, **manifest},
                content_type=_APPLY,
            )
        except InvalidError as error:
            if "metadata.uid" in str(error):
                raise ConflictError(str(error), reason=error.reason) from error
            raise

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
    ) -> Manifest:
        """As in the port."""
        path = resource.path(namespace, name)
        query = {"fieldManager": self._field_manager}
        body = [dict(operation) for operation in operations]
        try:
            return self._call(
                "PATCH",
                "patch",
                resource,
                path,
                query=query,
                body=body,
                content_type=_JSON_PATCH,
            )
        except InvalidError as error:
            # A failed test and a path that leads nowhere are told apart by their words alone from
            # an object that became invalid.
            if "the server rejected our request" in str(error) or "testing path" in str(error):
                raise ConflictError(str(error), reason=error.reason) from error
            raise

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
    ) -> bool:
        """As in the port."""
        expected = {"uid": uid, "resourceVersion": resource_version}
        body: Manifest = {"propagationPolicy": "Background"}
        if preconditions := {name: value for name, value in expected.items() if value}:
            body["preconditions"] = preconditions
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self._call("DELETE", "delete", resource, resource.path(namespace, name), body=body)
        except NotFoundError:
            return False
        return True

    def ask_pod(
        self,
        namespace: str,
        pod: str,
        port: int,
        path: str,
        *,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Return what a pod answers to a GET through the API server, whatever its status is.

        Args:
            namespace: of the pod.
            pod: its name.
            port: where it serves HTTP.
            path: with its query.
            timeout_s: of the answer, if it is to come sooner than others.
            headers: for the pod; ``Authorization`` would not get there.

        Raises:
            ApiUnavailableError: the API server does not answer.
            ForbiddenError: pods/proxy may not be read.
            NotFoundError: there is no such pod.
        """
        at = f"{PODS.path(namespace, f'{pod}:{port}', 'proxy')}{path}"
        with self._guard:
            request = self._client.param_serialize(
                "GET", at, header_params=dict(headers or {}), auth_settings=["BearerToken"]
            )
        timeout = self._timeout if timeout_s is None else (self._timeout[0], timeout_s)
        try:
            response = self._client.call_api(*request, _request_timeout=timeout)
            data = response.read()
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            raise ApiUnavailableError(
                f"the API server does not answer GET {at}: {error}"
            ) from error
        answer = _decoded(data)
        if answer.get("kind") == "Status":  # the API server's own answer
            raise _error(int(response.status), answer, f"GET {at}", "")
        return int(response.status), data

    def server_version(self) -> str:
        """Return the version of Kubernetes, such as ``v1.33.1``.

        Raises:
            KubeApiError: the API server does not answer.
        """
        return str(self._call("GET", "get", _VERSION, "/version").get("gitVersion") or "unknown")

    def pod_log(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        lines: int | None = None,
        since_s: int | None = None,
    ) -> Iterator[str]:
        """Yield the lines that a container of a pod has printed.

        Args:
            namespace: of the pod.
            pod: its name.
            container: of the pod.
            follow: go on with what it prints, until its container ends.
            lines: only the last ones.
            since_s: only those of the last seconds.

        Raises:
            ApiUnavailableError: the API server does not answer, or breaks off.
            ForbiddenError: pods/log may not be read.
            InvalidError: its container has not begun.
            NotFoundError: there is no such pod.
        """
        at = PODS.path(namespace, pod, "log")
        query = {
            "container": container,
            "follow": "true" if follow else "",
            "tailLines": "" if lines is None else str(lines),
            "sinceSeconds": "" if since_s is None else str(since_s),
        }
        with self._guard:
            request = self._client.param_serialize(
                "GET",
                at,
                query_params=[(name, value) for name, value in query.items() if value],
                auth_settings=["BearerToken"],
            )
        timeout = (self._timeout[0], None if follow else self._timeout[1])
        try:
            response = self._client.call_api(*request, _request_timeout=timeout)
            if int(response.status) != _OK:
                answer = _decoded(response.read())
                raise _error(int(response.status), answer, f"GET {at}", "")
            yield from _lines(response.response)
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            raise ApiUnavailableError(
                f"the API server does not answer GET {at}: {error}"
            ) from error

    def _call(
        self,
        method: str,
        verb: str,
        resource: Resource,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = _JSON,
    ) -> Manifest:
        headers = {"Accept": _JSON}
        if body is not None:
            headers["Content-Type"] = content_type
        status = 0
        try:
            # Whoever refreshes an expired token writes into the shared configuration.
            with self._guard:
                request = self._client.param_serialize(
                    method,
                    path,
                    query_params=[(name, value) for name, value in (query or {}).items() if value],
                    header_params=headers,
                    # JSON is YAML, so an applied manifest may travel as text of the former.
                    body=json.dumps(body) if content_type == _APPLY else body,
                    auth_settings=["BearerToken"],
                )
            response = self._client.call_api(*request, _request_timeout=self._timeout)
            data = response.read()
            status = int(response.status)
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            raise ApiUnavailableError(
                f"the API server does not answer {method} {path}: {error}; trying again"
            ) from error
        finally:
            if self._observe_call is not None:
                self._observe_call(verb, resource.counted_as, status)
        answer = _decoded(data)
        if 200 <= status < 300:
            return answer
        raise _error(status, answer, f"{method} {path}", response.getheader("Retry-After", ""))


def configuration_of(
    kubeconfig: Path | None, context: str | None = None
) -> kubernetes.client.Configuration:
    """Return address and credentials of the API server: see :meth:`KubeClient.from_environment`.

    Raises:
        ApiUnavailableError: nothing says where the API server is.
    """
    configuration = kubernetes.client.Configuration()
    try:
        if _is_in_cluster(kubeconfig, context):
            kubernetes.config.load_incluster_config(client_configuration=configuration)
        else:
            if context is not None:
                _named_context(kubeconfig, context)
            kubernetes.config.load_kube_config(
                config_file=None if kubeconfig is None else str(kubeconfig),
                context=context,
                client_configuration=configuration,
            )
    except kubernetes.config.ConfigException as error:
        raise ApiUnavailableError(
            f"no Kubernetes cluster is configured: {error}; run in a pod with a service account, "
            "or name a kubeconfig file in KUBECONFIG"
        ) from error
    return configuration


def default_namespace(kubeconfig: Path | None, context: str | None = None) -> str:
    """Return the namespace that ``kubectl`` would use without ``--namespace``.

    Args:
        kubeconfig: this file and nothing else.
        context: of the kubeconfig, instead of its current one.

    Raises:
        ApiUnavailableError: the file or the context cannot be used.
    """
    if _is_in_cluster(kubeconfig, context):
        try:
            return _NAMESPACE_FILE.read_text(encoding="utf-8").strip() or _NO_NAMESPACE
        except OSError:
            return _NO_NAMESPACE
    chosen = _named_context(kubeconfig, context)
    return str((chosen.get("context") or {}).get("namespace") or _NO_NAMESPACE)


def _named_context(kubeconfig: Path | None, context: str | None) -> Mapping[str, Any]:
    """Return a context of the kubeconfig; the current one, if none is named.

    Raises:
        ApiUnavailableError: the file cannot be used, or has no such context.
    """
    try:
        contexts, current = kubernetes.config.list_kube_config_contexts(
            config_file=None if kubeconfig is None else str(kubeconfig)
        )
    except kubernetes.config.ConfigException as error:
        raise ApiUnavailableError(f"no Kubernetes cluster is configured: {error}") from error
    named: dict[str, Mapping[str, Any]] = {each["name"]: each for each in contexts}
    chosen: Mapping[str, Any] | None = current if context is None else named.get(context)
    if chosen is None:
        raise ApiUnavailableError(
            f"there is no context {context!r} in the kubeconfig; there are: "
            f"{', '.join(sorted(named)) or 'none'}"
        )
    return chosen


def _is_in_cluster(kubeconfig: Path | None, context: str | None) -> bool:
    if kubeconfig is not None or context is not None:
        return False
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


def _path_of(resource: Resource, manifest: Manifest, subresource: str = "") -> str:
    metadata = manifest["metadata"]
    return resource.path(metadata.get("namespace"), metadata["name"], subresource)


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[str]:
    """Yield the lines of an answer as they come."""
    rest = b""
    for part in response.stream(_PART, decode_content=True):
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _decoded(data: bytes) -> Manifest:
    try:
        answer = _loads(data)
    except ValueError:
        return {"message": data[:500].decode(errors="replace")}
    return cast("Manifest", answer) if isinstance(answer, dict) else {"message": str(answer)}


_KINDS: Final[Mapping[int, type[KubeApiError]]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
}


def _error(status: int, answer: Manifest, call: str, retry_after: str) -> KubeApiError:
    reason = str(answer.get("reason") or "")
    message = f"{call}: {answer.get('message') or reason or f'HTTP status {status}'}"
    if reason == "AlreadyExists":
        return AlreadyExistsError(message, reason=reason)
    if status in _BUSY or status >= 500:
        seconds = float(retry_after) if retry_after.isdigit() else 0.0
        return ApiUnavailableError(message, reason=reason, retry_after_s=seconds)
    return _KINDS.get(status, KubeApiError)(message, reason=reason)


def _implements_the_port(client: KubeClient) -> KubeApi:
    return client
