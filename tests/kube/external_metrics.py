"""External metrics for a real HorizontalPodAutoscaler, served as KEDA's metrics server serves them.

The API server asks an API that is registered with it (an APIService), as it would ask KEDA's. The
Service of that API is a name for this machine, because nothing routes addresses of Services here.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from headwater_operator.kube.api import SERVICES, Resource
from headwater_operator.kube.errors import KubeApiError
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater_operator.kube.api import KubeApi
    from tests.kube.pki import Authority

GROUP_VERSION: Final = "external.metrics.k8s.io/v1beta1"
_API: Final = "v1beta1.external.metrics.k8s.io"
_API_SERVICES: Final = Resource("apiregistration.k8s.io/v1", "APIService", "apiservices", False)
_NAME: Final = "external-metrics"
_RESOURCES: Final[dict[str, Any]] = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": GROUP_VERSION,
    "resources": [
        {
            "name": "externalmetrics",
            "singularName": "",
            "namespaced": True,
            "kind": "ExternalMetricValueList",
            "verbs": ["get"],
        }
    ],
}


class ExternalMetrics:
    """Serves metrics of one namespace as long as the block lasts.

    Args:
        api: as somebody who may do everything.
        authority: vouches for the server.
        namespace: of whoever asks.
        metrics: what each is now, by name.
    """

    def __init__(
        self,
        api: KubeApi,
        authority: Authority,
        namespace: str,
        metrics: Mapping[str, Callable[[], int]],
    ) -> None:
        self._api = api
        self._authority = authority
        self._namespace = namespace
        self._metrics = metrics

    def __enter__(self) -> Self:
        host = f"{_NAME}.{self._namespace}.svc"
        keys = self._authority.server(_NAME, [host])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys.certificate, keys.key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(self._answer))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._register(int(self._server.server_address[1]))
        wait_for(self._is_available, what="external metrics to be available")
        return self

    def __exit__(self, *_: object) -> None:
        # A namespace is not deleted while an API that is registered does not answer.
        self._api.delete(_API_SERVICES, None, _API)
        wait_for(lambda: self._api.get(_API_SERVICES, None, _API) is None, what="the API to go")
        self._server.shutdown()
        self._server.server_close()

    def _register(self, port: int) -> None:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        named = {"name": _NAME, "namespace": self._namespace}
        self._api.create(SERVICES, {"metadata": named, "spec": spec})
        group, _, version = GROUP_VERSION.partition("/")
        bundle = base64.b64encode(self._authority.files.certificate.read_bytes()).decode()
        spec = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": bundle,
            "service": {**named, "port": port},
        }
        self._api.create(_API_SERVICES, {"metadata": {"name": _API}, "spec": spec})

    def _is_available(self) -> bool:
        with suppress(KubeApiError):
            found = self._api.get(_API_SERVICES, None, _API) or {}
            conditions = found.get("status", {}).get("conditions", ())
            return any(
                each["type"] == "Available" and each["status"] == "True" for each in conditions
            )
        return False

    def _answer(self, path: str) -> dict[str, Any] | None:
        """Return what is there; ``None`` if nothing is."""
        below = urlsplit(path).path.removeprefix(f"/apis/{GROUP_VERSION}")
        if below == "":
            return _RESOURCES
        metric = self._metrics.get(below.removeprefix(f"/namespaces/{self._namespace}/"))
        if metric is None:
            return None
        item = {
            "metricName": below.rpartition("/")[2],
            "metricLabels": {},
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": str(metric()),
        }
        return {
            "kind": "ExternalMetricValueList",
            "apiVersion": GROUP_VERSION,
            "metadata": {},
            "items": [item],
        }


def _answering(
    answer: Callable[[str], dict[str, Any] | None],
) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(self.path)
            body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "code": 404})
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Answers
