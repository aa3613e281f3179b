"""Objects of an API server as its watches tell of them: for fleets too large to be listed often."""

from __future__ import annotations

import json
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlencode

from urllib3.exceptions import HTTPError

from tests.kube.looked import Looked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubernetes.client import ApiClient

    from headwater_operator.kube.api import KubeApi, Resource

_WATCH_S: Final = 3_000
_AGAIN_S: Final = 1.0
_OFTEN_S: Final = 10.0
"""So often a namespace is looked at although nothing has changed there."""


class Watched(Looked):
    """What is read comes from watches; usable as a context manager.

    Args:
        api: the API server.
        client: likewise, for the watches.
        resources: which kinds are watched.
    """

    def __init__(self, api: KubeApi, client: ApiClient, resources: Sequence[Resource]) -> None:
        super().__init__(api, resources)
        self._client = client
        self._events: SimpleQueue[tuple[str, str, Any]] = SimpleQueue()
        self._over = threading.Event()
        self._listed = {resource.plural: threading.Event() for resource in resources}
        self._looked_at: dict[str, float] = {}
        self._changed: set[str] = set()

    def __enter__(self) -> Self:
        for resource in self.resources:
            name = f"watch of {resource.plural}"
            threading.Thread(target=self._watch, args=(resource,), name=name, daemon=True).start()
        for listed in self._listed.values():
            assert listed.wait(60), "the API server does not list what is to be watched"
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()  # the threads end with the API server, or with the process

    def look(self) -> None:
        """Take in what the watches have told since the last look."""
        while True:
            try:
                plural, kind, told = self._events.get_nowait()
            except Empty:
                return
            if kind == "LISTED":
                self._changed |= self.seen[plural].keys()
                self.put(plural, told)
                self._changed |= self.seen[plural].keys()
                continue
            metadata = told["metadata"]
            namespace = metadata.get("namespace", "")
            self._changed.add(namespace)
            objects = self.seen[plural].setdefault(namespace, {})
            if kind == "DELETED":
                objects.pop(metadata["name"], None)
            else:
                objects[metadata["name"]] = told

    def restless(self) -> set[str]:
        """Namespaces where something has changed, or that nobody has looked at for a while."""
        now = time.monotonic()
        found, self._changed = self._changed, set()
        for namespaces in self.seen.values():
            found |= {n for n in namespaces if now - self._looked_at.get(n, 0.0) > _OFTEN_S}
        self._looked_at.update(dict.fromkeys(found, now))
        return found

    def _watch(self, resource: Resource) -> None:
        while not self._over.is_set():
            try:
                version = self._list(resource)
                for event in self._stream(resource, version):
                    if event["type"] == "ERROR":
                        break
                    if event["type"] != "BOOKMARK":
                        self._events.put((resource.plural, event["type"], event["object"]))
            except (HTTPError, OSError, ValueError):
                self._over.wait(_AGAIN_S)

    def _list(self, resource: Resource) -> str:
        with self._asked(resource) as answer:
            document = json.loads(answer.read())
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        items = [{**kind, **item} for item in document["items"]]
        self._events.put((resource.plural, "LISTED", items))
        self._listed[resource.plural].set()
        return str(document["metadata"]["resourceVersion"])

    def _stream(self, resource: Resource, version: str) -> Iterator[Any]:
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(_WATCH_S)}
        rest = b""
        with self._asked(resource, **query) as answer:
            for part in answer.stream(65_536, decode_content=True):
                *lines, rest = (rest + part).split(b"\n")
                yield from map(json.loads, lines)

    def _asked(self, resource: Resource, **query: str) -> Any:
        address = f"{self._client.configuration.host}{resource.path(None)}?{urlencode(query)}"
        pool = self._client.rest_client.pool_manager
        return pool.request("GET", address, preload_content=False, timeout=None)
