"""An API server reached through something that makes the way longer, or worse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater_operator.kube.api import KubeApi, Manifest, Resource


class Deletion(TypedDict, total=False):
    """What may be said about a deletion."""

    uid: str
    resource_version: str
    grace_s: int | None


class Through:
    """Hands every call on; subclasses change single calls, or all of them in ``call``.

    Args:
        api: the API server.
    """

    def __init__(self, api: KubeApi) -> None:
        self.api = api

    def call(
        self,
        verb: str,
        resource: Resource,
        name: str,
        written: Manifest | None,
        act: Callable[[], Any],
    ) -> Any:
        """Carry out one call.

        Args:
            verb: what is done.
            resource: to which kind.
            name: to which object; empty for all.
            written: what is written; ``None`` for a call that reads.
            act: does it.
        """
        del verb, resource, name, written
        return act()

    def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...]:
        found: tuple[Manifest, ...] = self.call(
            "list",
            resource,
            "",
            None,
            lambda: self.api.list(resource, namespace, labels=labels, fields=fields),
        )
        return found

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        found: Manifest | None = self.call(
            "get", resource, name, None, lambda: self.api.get(resource, namespace, name)
        )
        return found

    def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        return self._written(
            "create", resource, manifest, lambda: self.api.create(resource, manifest)
        )

    def replace(self, resource: Resource, manifest: Manifest) -> Manifest:
        return self._written(
            "update", resource, manifest, lambda: self.api.replace(resource, manifest)
        )

    def apply(self, resource: Resource, manifest: Manifest, *, subresource: str = "") -> Manifest:
        return self._written(
            f"apply {subresource}".strip(),
            resource,
            manifest,
            lambda: self.api.apply(resource, manifest, subresource=subresource),
        )

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
    ) -> Manifest:
        written: Manifest = self.call(
            "patch",
            resource,
            name,
            {"operations": list(operations)},
            lambda: self.api.patch(resource, namespace, name, operations),
        )
        return written

    def delete(
        self, resource: Resource, namespace: str | None, name: str, **options: Unpack[Deletion]
    ) -> bool:
        existed: bool = self.call(
            "delete",
            resource,
            name,
            {},
            lambda: self.api.delete(resource, namespace, name, **options),
        )
        return existed

    def _written(
        self, verb: str, resource: Resource, manifest: Manifest, act: Callable[[], Manifest]
    ) -> Manifest:
        written: Manifest = self.call(verb, resource, manifest["metadata"]["name"], manifest, act)
        return written
