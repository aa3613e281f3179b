"""Objects of an API server as they were at one look at all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.kube_through import Through

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headwater_operator.kube.api import KubeApi, Manifest, Resource


class Looked(Through):
    """An API server whose reads of some kinds are answered by one look at all of them.

    Args:
        api: the API server.
        resources: those kinds.

    Attributes:
        resources: as given.
        seen: objects by plural of their kind, namespace and name.
    """

    def __init__(self, api: KubeApi, resources: Sequence[Resource]) -> None:
        super().__init__(api)
        self.resources = resources
        self.seen: dict[str, dict[str, dict[str, Manifest]]] = {
            resource.plural: {} for resource in resources
        }

    def look(self) -> None:
        """Read everything."""
        for resource in self.resources:
            self.put(resource.plural, self.api.list(resource, None))

    def put(self, plural: str, objects: Iterable[Manifest]) -> None:
        """These are all objects of a kind."""
        found: dict[str, dict[str, Manifest]] = {}
        for each in objects:
            metadata = each["metadata"]
            found.setdefault(metadata.get("namespace", ""), {})[metadata["name"]] = each
        self.seen[plural] = found

    def restless(self) -> set[str]:
        """Namespaces where something may have to be done."""
        return {namespace for namespaces in self.seen.values() for namespace in namespaces}

    def all(self, resource: Resource) -> Iterator[Manifest]:
        """What was seen of a kind."""
        for objects in self.seen[resource.plural].values():
            yield from objects.values()

    def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...]:
        assert (labels, fields) == ("", "")
        if namespace is None:
            return tuple(self.all(resource))
        return tuple(self.seen[resource.plural].get(namespace, {}).values())

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        return self.seen[resource.plural].get(namespace or "", {}).get(name)
