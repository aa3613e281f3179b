"""The operator's calls to the API server: they take time, are lost, refused, or never answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater_operator.kube.api import EVENTS, LEASES, Manifest, Resource
from headwater_operator.kube.errors import ApiUnavailableError, ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.sim.kubernetes.operators import Operator

_TIMEOUT_MS = 5_000
_READS = {"get", "list"}


class Port:
    """The API server as one operator process reaches it."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.world = operator.world
        self.api = operator.world.api

    def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...]:
        def read() -> tuple[Manifest, ...]:
            return self.api.list(resource, namespace, labels=labels, fields=fields)

        found: tuple[Manifest, ...] = self.call("list", resource, "", read)
        return found

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        def read() -> Manifest | None:
            return self.api.get(resource, namespace, name)

        found: Manifest | None = self.call("get", resource, name, read)
        return found

    def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        name = manifest["metadata"]["name"]
        return self.write("create", resource, name, manifest, self.api.create)

    def replace(self, resource: Resource, manifest: Manifest) -> Manifest:
        name = manifest["metadata"]["name"]
        return self.write("update", resource, name, manifest, self.api.replace)

    def apply(self, resource: Resource, manifest: Manifest, *, subresource: str = "") -> Manifest:
        def act(resource: Resource, manifest: Manifest) -> Manifest:
            return self.api.apply(resource, manifest, subresource=subresource)

        verb = f"apply {subresource}".strip()
        return self.write(verb, resource, manifest["metadata"]["name"], manifest, act)

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
    ) -> Manifest:
        def act(resource: Resource, _: Manifest) -> Manifest:
            return self.api.patch(resource, namespace, name, operations)

        return self.write("patch", resource, name, {"operations": list(operations)}, act)

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
        def act() -> bool:
            self.operator.laws.before_write(self.operator, "delete", resource, name, {})
            return self.api.delete(
                resource,
                namespace,
                name,
                uid=uid,
                resource_version=resource_version,
                grace_s=grace_s,
            )

        existed: bool = self.call("delete", resource, name, act)
        return existed

    # -- inside ----------------------------------------------------------------------------------

    def write(
        self,
        verb: str,
        resource: Resource,
        name: str,
        manifest: Manifest,
        act: Callable[[Resource, Manifest], Manifest],
    ) -> Manifest:
        """Carry a write out."""
        laws = self.operator.laws

        def carry_out() -> Manifest:
            laws.before_write(self.operator, verb, resource, name, manifest)
            return act(resource, manifest)

        written: Manifest = self.call(verb, resource, name, carry_out)
        return written

    def call(self, verb: str, resource: Resource, name: str, act: Callable[[], Any]) -> Any:
        """Make one call, and let time pass around it."""
        world, part = self.world, self.world.running
        assert part is not None
        is_telling = resource.plural in (EVENTS.plural, LEASES.plural)
        is_write = verb not in _READS
        is_quiet = is_telling or not is_write
        if not is_quiet:
            part.at("about to write")
        if not is_quiet or world.rng.random() < 0.3:
            part.pause(world.rng.choice((1, 2, 5)))
        if world.is_api_down or self.operator.is_cut_off:
            part.pause(_TIMEOUT_MS)
            raise ApiUnavailableError(f"no answer to {verb} {resource.plural}")
        chance = world.rng.random()
        if chance < 0.003:
            raise ApiUnavailableError(f"too much to do for {verb} {resource.plural}")
        if chance < 0.01 and not is_quiet and verb.startswith(("patch", "apply")):
            raise ConflictError(f"{verb} {resource.plural} {name}: others write too much")
        result = act()
        self.operator.laws.after_call(self.operator, verb, resource, result)
        if is_quiet:
            return result
        world.note(f"{part.name}: {verb} {resource.plural} {name}")
        part.at("written")
        part.pause(world.rng.choice((1, 1, 30)))
        if chance > 0.99:
            raise ApiUnavailableError(f"the answer to {verb} {resource.plural} was lost")
        return result
