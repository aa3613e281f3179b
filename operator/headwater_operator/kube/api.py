"""The port to the API server: which kinds of objects there are, and the calls that are made.

Objects are plain JSON values (a :data:`Manifest`): what is needed of them is read at the edge, in
``observe``, and turned into values there. Every read is live. Nothing is ever read, changed in
memory and written back: a write states all the fields that are its business, or what it expects to
find.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from headwater.model.cluster import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Manifest: TypeAlias = dict[str, Any]
"""An object as JSON values."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object.

    Attributes:
        api_version: ``group/version``, or ``v1``.
        kind: as in manifests.
        plural: as in addresses.
        is_namespaced: whether its objects live in namespaces.
    """

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool = True

    @property
    def counted_as(self) -> str:
        """The plural without the name of an object, as of a subresource: for metrics."""
        plural, *rest = self.plural.split("/")
        return f"{plural}/{rest[-1]}" if rest else plural

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the address of an object, or of the list when no name is given.

        Args:
            namespace: ``None``: of all namespaces, or a kind that lives in none.
            name: of the object.
            subresource: ``status``, for example.
        """
        root = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        space = f"/namespaces/{namespace}" if namespace is not None and self.is_namespaced else ""
        parts = [root + space, self.plural, name, subresource]
        return "/".join(part for part in parts if part)


STREAM_APPS: Final = Resource(API_VERSION, "StreamApp", "streamapps")
STREAM_WORKERS: Final = Resource(API_VERSION, "StreamWorker", "streamworkers")
STREAM_ACTIONS: Final = Resource(API_VERSION, "StreamAction", "streamactions")
STREAM_IMAGE_CATALOGS: Final = Resource(API_VERSION, "StreamImageCatalog", "streamimagecatalogs")
VOLUME_SNAPSHOTS: Final = Resource(
    "snapshot.storage.k8s.io/v1", "VolumeSnapshot", "volumesnapshots"
)
"""Not every cluster has them."""
JOBS: Final = Resource("batch/v1", "Job", "jobs")
LEASES: Final = Resource("coordination.k8s.io/v1", "Lease", "leases")
PODS: Final = Resource("v1", "Pod", "pods")
CLAIMS: Final = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
CONFIG_MAPS: Final = Resource("v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNTS: Final = Resource("v1", "ServiceAccount", "serviceaccounts")
ROLES: Final = Resource("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
BUDGETS: Final = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICIES: Final = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
SERVICES: Final = Resource("v1", "Service", "services")
EVENTS: Final = Resource("v1", "Event", "events")
NAMESPACES: Final = Resource("v1", "Namespace", "namespaces", is_namespaced=False)
NODES: Final = Resource("v1", "Node", "nodes", is_namespaced=False)
VOLUMES: Final = Resource("v1", "PersistentVolume", "persistentvolumes", is_namespaced=False)

FIELD_MANAGER: Final = "headwater-operator"
"""The name under which the operator owns fields (server-side apply)."""


class KubeApi(Protocol):
    """The API server. Calls may come from several threads.

    Every call raises a :class:`~headwater_operator.kube.errors.KubeApiError` if it is refused or
    not answered in time; then it may still have been carried out.
    """

    def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...]:
        """Return all objects of a kind, as stored at this moment.

        Args:
            resource: the kind.
            namespace: ``None`` for all namespaces.
            labels: a label selector.
            fields: a field selector.
        """
        ...

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        """Return one object as stored at this moment; ``None`` if it does not exist."""
        ...

    def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Store a new object.

        Raises:
            AlreadyExistsError: one of that name exists.
        """
        ...

    def replace(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Store an object in place of the one with the same ``metadata.resourceVersion``.

        Raises:
            ConflictError: it has changed since, or its ``metadata.uid`` is another.
            NotFoundError: it does not exist.
        """
        ...

    def apply(self, resource: Resource, manifest: Manifest, *, subresource: str = "") -> Manifest:
        """Make the fields in ``manifest`` so, and those applied earlier and left out now go away.

        Server-side apply with force: the fields are the operator's, whoever wrote them last. An
        object that does not exist is created, unless a ``metadata.uid`` or a subresource is given.

        Raises:
            ConflictError: ``metadata.uid`` or ``metadata.resourceVersion`` is given and another.
            NotFoundError: a subresource of an object that does not exist.
        """
        ...

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
    ) -> Manifest:
        """Carry out a JSON patch (RFC 6902), all of it or, if a ``test`` fails, nothing.

        Raises:
            ConflictError: a ``test`` failed, or a path does not exist.
            NotFoundError: the object does not exist.
        """
        ...

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
        """Ask for the deletion of an object; what depends on it goes in the background.

        Args:
            resource: the kind.
            namespace: where it lives.
            name: of the object.
            uid: if given, only that very object is deleted, not a later one of the same name.
            resource_version: if given, only if it has not changed since.
            grace_s: how long a pod may take to end; ``None``: as the pod itself says.

        Returns:
            whether it existed.

        Raises:
            ConflictError: uid or resource version is another.
        """
        ...
