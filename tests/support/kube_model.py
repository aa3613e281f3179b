"""An API server in memory: the port of ``headwater_operator.kube`` for tests and simulations.

It keeps the rules the operator stands on: resource versions and uids, preconditions, server-side
apply by field owner, JSON patch with tests, the status subresource, finalizers, graceful deletion
of pods that run on a node, terminating namespaces. Of schemas it knows the one default that a
StreamApp's status has. The contract suite
``tests/contract/test_kube_api.py`` holds it and a real API server to the same behaviour.
"""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING, Any

from headwater_operator.kube.api import CLAIMS, PODS, STREAM_APPS, Manifest, Resource
from headwater_operator.kube.errors import (
    AlreadyExistsError,
    ApiUnavailableError,
    ConflictError,
    ForbiddenError,
    KubeApiError,
    NotFoundError,
)
from headwater_operator.spec.definitions import stream_app_definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

_Key = tuple[str, str, str]

_WITH_STATUS = {
    "streamapps",
    "streamworkers",
    "streamactions",
    "pods",
    "persistentvolumeclaims",
    "volumesnapshots",
    "jobs",
}
_FIXED = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""What nobody changes by writing an object."""
_UNSEEN = stream_app_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
    "status"
]["default"]
"""The status of a StreamApp that nobody has written one for."""
_TERMINAL = {"Succeeded", "Failed"}
IN_USE = "kubernetes.io/pvc-protection"
"""The finalizer of every claim: it goes once no pod uses the claim."""


class KubeModel:
    """One API server.

    Args:
        namespaces: that there are.
        protects_claims: a new claim gets the finalizer that holds it for as long as a pod uses it;
            somebody has to take that out again.
        rng: uids are made from it; by default they are never the same again.
        copies: what is read is a copy; without, it is to be looked at only. What is stored is never
            changed but replaced, so it stays what it was at that moment.

    Attributes:
        on_call: called with verb, plural and name before every call; may raise to fail it.
        calls: verb and plural of every call so far, as rules of RBAC name them.
        on_change: called with plural and object after every change, as a watch would tell.
    """

    def __init__(
        self,
        namespaces: Sequence[str] = ("default",),
        *,
        protects_claims: bool = False,
        rng: Random | None = None,
        copies: bool = True,
    ) -> None:
        self._read: Callable[[Any], Any] = _copied if copies else lambda stored: stored
        self._protects_claims = protects_claims
        self._rng = rng
        self._objects: dict[str, dict[_Key, Manifest]] = {}
        self._owned: dict[_Key, dict[str, Any]] = {}
        self._versions = itertools.count(1)
        self._times = itertools.count(1)
        self._terminating: set[str] = set()
        self._namespaces = set(namespaces)
        self.on_call: Callable[[str, str, str], None] = lambda *_: None
        self.calls: list[tuple[str, str]] = []
        self.on_change: Callable[[str, Manifest], None] = lambda *_: None

    # -- the port --------------------------------------------------------------------------------

    def list(
        self, resource: Resource, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> tuple[Manifest, ...]:
        self._called("list", resource, "")
        wanted = [term.partition("=") for term in labels.split(",") if term]
        paths = [term.partition("=") for term in fields.split(",") if term]
        return tuple(
            self._read(found)
            for (_, space, _), found in sorted(self._of(resource.plural).items())
            if namespace in (None, space)
            and all(_matches(found, name, separator, value) for name, separator, value in wanted)
            and all(_field(found, path) == value for path, _, value in paths)
        )

    def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
        self._called("get", resource, name)
        found: Manifest | None = self._read(self._find(_key(resource, namespace, name)))
        return found

    def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        self._called("create", resource, name)
        if resource.plural == "bindings":
            key, pod = self._existing(PODS, metadata["namespace"], name)
            if pod["spec"].get("nodeName"):
                raise ConflictError(f"pod {name} is already assigned to a node")
            bound = {**pod["spec"], "nodeName": manifest["target"]["name"]}
            return self._store(PODS, key, pod, {**_copied(pod), "spec": bound}, "")
        return self._create(resource, {**manifest, "metadata": {**metadata, "name": name}})

    def replace(self, resource: Resource, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        self._called("update", resource, metadata["name"])
        key, stored = self._existing(resource, metadata.get("namespace"), metadata["name"])
        _expect(stored, metadata.get("uid", ""), metadata.get("resourceVersion", ""))
        return self._store(resource, key, stored, _copied(manifest), "")

    def apply(self, resource: Resource, manifest: Manifest, *, subresource: str = "") -> Manifest:
        metadata = manifest["metadata"]
        self._called("apply", resource, metadata["name"], subresource)
        key = _key(resource, metadata.get("namespace"), metadata["name"])
        stored = self._find(key)
        if stored is None:
            if subresource or metadata.get("uid") or metadata.get("resourceVersion"):
                raise NotFoundError(f"{resource.plural} {metadata['name']!r} not found")
            created = self._create(resource, manifest)
            self._owned[key] = {"": _copied(manifest)}
            return created
        _expect(stored, metadata.get("uid", ""), metadata.get("resourceVersion", ""))
        before = self._owned.setdefault(key, {}).get(subresource, {})
        merged = _merged(stored, manifest, before)
        self._owned[key][subresource] = _copied(manifest)
        return self._store(resource, key, stored, merged, subresource)

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
    ) -> Manifest:
        self._called("patch", resource, name)
        key, stored = self._existing(resource, namespace, name)
        changed = _copied(stored)
        for operation in operations:
            _patch(changed, operation)
        return self._store(resource, key, stored, changed, "")

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
        self._called("delete", resource, name)
        key = _key(resource, namespace, name)
        stored = self._find(key)
        if stored is None:
            return False
        _expect(stored, uid, resource_version)
        before = stored["metadata"]
        metadata = dict(before)
        is_waited_for = bool(metadata.get("finalizers"))
        if resource.plural == "pods":
            is_terminal = stored.get("status", {}).get("phase") in _TERMINAL
            runs = bool(stored.get("spec", {}).get("nodeName")) and not is_terminal
            is_waited_for = is_waited_for or (runs and grace_s != 0)
            own_s = stored.get("spec", {}).get("terminationGracePeriodSeconds", 30)
            asked_s = own_s if grace_s is None else grace_s
            known_s = metadata.get("deletionGracePeriodSeconds", asked_s)
            metadata["deletionGracePeriodSeconds"] = min(known_s, asked_s) if runs else 0
        if not is_waited_for:
            self._remove(key)
            return True
        metadata.setdefault("deletionTimestamp", self._time())
        if metadata != before:
            metadata["resourceVersion"] = str(next(self._versions))
            self._of(key[0])[key] = {**stored, "metadata": metadata}
            self.on_change(resource.plural, self._of(key[0])[key])
        return True

    def peek(self, resource: Resource, namespace: str | None) -> Sequence[Manifest]:
        """Return what is stored, not a copy of it: to be looked at only."""
        found = sorted(self._of(resource.plural).items())
        return [each for (_, space, _), each in found if namespace in (None, space)]

    # -- what others do --------------------------------------------------------------------------

    def set_status(self, resource: Resource, namespace: str, name: str, status: Manifest) -> None:
        """Write a status as its own writer (a kubelet, a worker) does."""
        key, stored = self._existing(resource, namespace, name)
        changed = {**_copied(stored), "status": _copied(status)}
        self._store(resource, key, stored, changed, "status")

    def remove_pod(self, namespace: str, name: str) -> None:
        """Be the kubelet that has seen a pod's containers end after its deletion."""
        self._remove(("pods", namespace, name))

    def terminate_namespace(self, namespace: str) -> None:
        """Delete a namespace: nothing can be created in it, and everything in it is deleted."""
        self._terminating.add(namespace)
        for plural, space, name in [key for objects in self._objects.values() for key in objects]:
            if space == namespace:
                resource = Resource("v1", "", plural)
                self.delete(resource, namespace, name)

    def collect_garbage(self) -> None:
        """Delete what only had owners that are gone, as the garbage collector does."""
        while True:
            uids = {found["metadata"]["uid"] for _, found in self._all()}
            orphans = [
                key
                for key, found in self._all()
                if (owners := found["metadata"].get("ownerReferences"))
                and not any(owner["uid"] in uids for owner in owners)
                and "deletionTimestamp" not in found["metadata"]
            ]
            if not orphans:
                return
            for plural, namespace, name in orphans:
                self.delete(Resource("v1", "", plural), namespace, name)

    # -- inside ----------------------------------------------------------------------------------

    def _called(self, verb: str, resource: Resource, name: str, subresource: str = "") -> None:
        self.on_call(verb, resource.plural, name)
        path = f"{resource.plural}/{subresource}" if subresource else resource.plural
        self.calls.append((verb, path))

    def _existing(
        self, resource: Resource, namespace: str | None, name: str
    ) -> tuple[_Key, Manifest]:
        key = _key(resource, namespace, name)
        found = self._find(key)
        if found is None:
            raise NotFoundError(f"{resource.plural} {name!r} not found")
        return key, found

    def _of(self, plural: str) -> dict[_Key, Manifest]:
        return self._objects.setdefault(plural, {})

    def _find(self, key: _Key) -> Manifest | None:
        return self._of(key[0]).get(key)

    def _all(self) -> Iterator[tuple[_Key, Manifest]]:
        for objects in self._objects.values():
            yield from objects.items()

    def _create(self, resource: Resource, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace")
        key = _key(resource, namespace, metadata["name"])
        if self._find(key) is not None:
            raise AlreadyExistsError(f"{resource.plural} {metadata['name']!r} already exists")
        if resource.is_namespaced and namespace not in self._namespaces:
            raise NotFoundError(f"namespaces {namespace!r} not found")
        if namespace in self._terminating:
            raise ForbiddenError(
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated"
            )
        created = _copied(manifest)
        created["apiVersion"], created["kind"] = resource.api_version, resource.kind
        if resource.plural in _WITH_STATUS:
            created.pop("status", None)
        if resource.plural == STREAM_APPS.plural:
            created["status"] = _copied(_UNSEEN)
        created["metadata"] |= {
            "uid": self._uid(),
            "resourceVersion": str(next(self._versions)),
            "creationTimestamp": self._time(),
            "generation": 1,
        }
        if self._protects_claims and resource.plural == CLAIMS.plural:
            created["metadata"]["finalizers"] = [*metadata.get("finalizers", ()), IN_USE]
        self._of(key[0])[key] = created
        self.on_change(resource.plural, created)
        read: Manifest = self._read(created)
        return read

    def _store(
        self,
        resource: Resource,
        key: _Key,
        stored: Manifest,
        wanted: Manifest,
        subresource: str,
    ) -> Manifest:
        if subresource:
            wanted = {**_copied(stored), subresource: wanted.get(subresource, {})}
        elif resource.plural in _WITH_STATUS:
            wanted.pop("status", None)
            if "status" in stored:
                wanted["status"] = _copied(stored["status"])
        for name in _FIXED:
            wanted["metadata"].pop(name, None)
            if name in stored["metadata"]:
                wanted["metadata"][name] = stored["metadata"][name]
        if wanted != stored:
            wanted["metadata"]["resourceVersion"] = str(next(self._versions))
            if wanted.get("spec") != stored.get("spec"):
                wanted["metadata"]["generation"] += 1
            self._of(key[0])[key] = wanted
            self.on_change(resource.plural, wanted)
        metadata = wanted["metadata"]
        has_time_left = metadata.get("deletionGracePeriodSeconds", 0) > 0  # a pod on a node
        is_going = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        if is_going and not has_time_left:
            self._remove(key)
        read: Manifest = self._read(wanted)
        return read

    def _remove(self, key: _Key) -> None:
        gone = self._of(key[0]).pop(key, None)
        self._owned.pop(key, None)
        if gone is not None:
            self.on_change(key[0], gone)

    def _uid(self) -> str:
        bits = self._rng.getrandbits(128) if self._rng is not None else None
        return str(uuid.uuid4() if bits is None else uuid.UUID(int=bits, version=4))

    def _time(self) -> str:
        seconds = next(self._times)
        return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def _copied(value: Any) -> Any:
    """Copy JSON values; the general way is ten times slower."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def unavailable(*_: object) -> None:
    """For ``on_call``: the API server does not answer."""
    raise ApiUnavailableError("the API server does not answer")


def _key(resource: Resource, namespace: str | None, name: str) -> _Key:
    return resource.plural, (namespace or "") if resource.is_namespaced else "", name


def _matches(found: Manifest, name: str, separator: str, value: str) -> bool:
    labels = found["metadata"].get("labels") or {}
    return labels.get(name) == value if separator else name in labels


def _field(found: Manifest, path: str) -> object:
    value: Any = found
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _expect(stored: Manifest, uid: str, resource_version: str) -> None:
    metadata = stored["metadata"]
    if uid and uid != metadata["uid"]:
        raise ConflictError(f"the uid is {metadata['uid']}, not {uid}")
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise ConflictError("the object has been modified")


def _merged(stored: Any, wanted: Any, before: Any) -> Any:
    """Server-side apply of one owner: set what is wanted, drop what it applied before."""
    if not isinstance(wanted, dict) or not isinstance(stored, dict):
        return _copied(wanted)
    before = before if isinstance(before, dict) else {}
    merged = {
        name: _copied(value)
        for name, value in stored.items()
        if name in wanted or name not in before
    }
    for name, value in wanted.items():
        merged[name] = _merged(stored.get(name), value, before.get(name))
    return merged


def _patch(target: Any, operation: Mapping[str, Any]) -> None:
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    ]
    for part in parents:
        target = _at(target, part)
    match operation["op"]:
        case "test":
            if _at(target, last) != operation["value"]:
                raise ConflictError(f"testing path {operation['path']} failed")
        case "replace":
            _at(target, last)
            _put(target, last, operation["value"])
        case "add" if isinstance(target, list):
            target.insert(len(target) if last == "-" else int(last), operation["value"])
        case "add":
            _put(target, last, operation["value"])
        case "remove":
            _at(target, last)
            del target[int(last) if isinstance(target, list) else last]
        case other:
            raise KubeApiError(f"unknown operation {other!r}")


def _at(target: Any, part: str) -> Any:
    try:
        return target[int(part)] if isinstance(target, list) else target[part]
    except (KeyError, IndexError, TypeError) as error:
        raise ConflictError(f"the path has no {part!r}") from error


def _put(target: Any, part: str, value: Any) -> None:
    target[int(part) if isinstance(target, list) else part] = _copied(value)
