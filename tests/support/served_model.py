"""The API server in memory (``kube_model``), served over HTTPS: for programs that connect to it."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from headwater.model import podcontract
from headwater_operator.kube import api
from headwater_operator.kube.api import Resource
from headwater_operator.kube.errors import KubeApiError
from tests.kube.kubeconfig import kubeconfig, write_kubeconfig
from tests.support.scripted_api import Answer, Asked, ScriptedApi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.kube_model import KubeModel

_KINDS: Final = {each.plural: each for each in vars(api).values() if isinstance(each, Resource)}


class ServedModel:
    """Answers requests from a model.

    Args:
        model: the API server.

    Attributes:
        pods: what pods answer through the proxy, by name and path; 503 without an answer.
        logs: what pods have printed, by name.
        refuse: returns why a call is not allowed, by verb and plural; empty if it is.
        before: called before every change with its verb and plural.
    """

    def __init__(self, model: KubeModel) -> None:
        self.model = model
        self.pods: dict[tuple[str, str], bytes] = {}
        self.logs: dict[str, str] = {}
        self.refuse: Callable[[str, str], bool] = lambda _verb, _resource: False
        self.before: Callable[[str, str], None] = lambda _verb, _resource: None
        self._one_at_a_time = threading.Lock()

    def serve(self, directory: Path) -> tuple[ScriptedApi, str]:
        """Return a server, to be entered, and the kubeconfig with which it is reached."""
        server = ScriptedApi(directory, self.answer)
        url = f"https://{server.access.host}:{server.access.port}"
        document = kubeconfig(url, directory / podcontract.CA_FILE, token="token-1")
        document["contexts"][0]["context"]["namespace"] = "default"
        return server, str(write_kubeconfig(directory / "config", document))

    def answer(self, asked: Asked) -> Answer:
        """Answer one request."""
        with self._one_at_a_time:
            try:
                return self._answer(asked)
            except KubeApiError as error:
                return _status(error.code or 503, error.reason, str(error))

    def _answer(self, asked: Asked) -> Answer:
        url = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/version":
            return Answer(body={"gitVersion": "v1.33.1"})
        parts = url.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = None
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind, name = _KINDS[parts[0]], parts[1] if len(parts) > 1 else ""
        sub = "/".join(parts[2:])
        verb = _verb(asked.method, name, query)
        called = f"{kind.plural}/{sub.partition('/')[0]}" if sub else kind.plural
        if self.refuse(verb, called):
            group = kind.api_version.rpartition("/")[0]
            message = f'{kind.plural} is forbidden: User "ann" cannot {verb} resource "{called}" '
            return _status(403, "Forbidden", f'{message}in API group "{group}"')
        if sub.startswith("proxy"):
            body = self.pods.get((name.partition(":")[0], sub.removeprefix("proxy")))
            return _status(503, "", "no answer") if body is None else Answer(body=body)
        if sub == "log":
            # What is there is older than whoever asks for the last seconds wants it.
            text = "" if "sinceSeconds" in query else self.logs.get(name, "")
            return Answer(body=text.encode())
        self.before(verb, kind.plural)
        return self._carried_out(verb, kind, namespace, name, asked.body, query)

    def _carried_out(
        self,
        verb: str,
        kind: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        query: dict[str, str],
    ) -> Answer:
        if verb == "list":
            labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
            found = self.model.list(kind, namespace, labels=labels, fields=fields)
            return Answer(body={"items": list(found), "metadata": {}})
        if verb == "get":
            one = self.model.get(kind, namespace, name)
            if one is None:
                return _status(404, "NotFound", f'{kind.plural} "{name}" not found')
            return Answer(body=one)
        if verb == "patch":
            return Answer(body=self.model.patch(kind, namespace, name, body))
        if verb == "create":
            return Answer(code=201, body=self.model.create(kind, body))
        raise AssertionError(verb)


def _verb(method: str, name: str, query: dict[str, str]) -> str:
    if method == "GET":
        return "get" if name else "list"
    return {"PATCH": "patch", "POST": "create", "DELETE": "delete"}[method]


def _status(code: int, reason: str, message: str) -> Answer:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return Answer(code=code, body=json.loads(json.dumps(body)))
