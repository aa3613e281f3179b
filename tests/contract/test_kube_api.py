"""What the operator stands on when it talks to an API server: the model keeps the same promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kube_fakes import BINDINGS
from tests.support.kube_model import IN_USE, KubeModel

from headwater_operator.kube.api import CLAIMS, CONFIG_MAPS, LEASES, PODS, KubeApi, Manifest
from headwater_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Server:
    """An API server and a namespace in it that is the test's own."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    def config(self, name: str, data: dict[str, str], **metadata: object) -> Manifest:
        return {
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "data": data,
        }

    def data(self, name: str) -> dict[str, str]:
        found = self.api.get(CONFIG_MAPS, self.namespace, name)
        assert found is not None
        data: dict[str, str] = found["data"]
        return data


@pytest.fixture(
    params=["model", "model without copies", pytest.param("real", marks=pytest.mark.kube)]
)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param != "real":
        # The simulation does without copies.
        copies = request.param == "model"
        yield Server(KubeModel(protects_claims=True, copies=copies), "default")
        return
    from headwater_operator.kube.client import KubeClient

    client = KubeClient.from_environment(request.getfixturevalue("kubeconfig"))
    yield Server(client, request.getfixturevalue("namespace"))
    client.close()


def test_what_was_created_is_read_and_listed_by_its_labels(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {"k": "1"}, labels={"app": "x"}))
    server.api.create(CONFIG_MAPS, server.config("b", {"k": "2"}, labels={"app": "y"}))

    found = server.api.list(CONFIG_MAPS, server.namespace, labels="app=x")

    assert [(item["kind"], item["metadata"]["name"]) for item in found] == [("ConfigMap", "a")]
    assert server.data("b") == {"k": "2"}
    assert server.api.get(CONFIG_MAPS, server.namespace, "c") is None


def test_a_list_can_be_held_to_a_field(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {}))
    server.api.create(CONFIG_MAPS, server.config("b", {}))

    found = server.api.list(CONFIG_MAPS, server.namespace, fields="metadata.name=b")

    assert [item["metadata"]["name"] for item in found] == ["b"]


def test_a_name_can_be_created_once(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {}))

    with pytest.raises(AlreadyExistsError):
        server.api.create(CONFIG_MAPS, server.config("a", {}))


def test_a_replacement_of_something_older_is_refused(server: Server) -> None:
    first = server.api.create(CONFIG_MAPS, server.config("a", {"k": "1"}))
    second = server.api.replace(CONFIG_MAPS, {**first, "data": {"k": "2"}})

    with pytest.raises(ConflictError):
        server.api.replace(CONFIG_MAPS, {**first, "data": {"k": "3"}})

    assert server.data("a") == {"k": "2"}
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]


def test_a_replacement_of_nothing_is_refused(server: Server) -> None:
    first = server.api.create(CONFIG_MAPS, server.config("a", {}))
    server.api.delete(CONFIG_MAPS, server.namespace, "a")

    with pytest.raises(NotFoundError):
        server.api.replace(CONFIG_MAPS, first)


def test_applying_creates_then_changes_what_is_named_and_drops_what_is_no_longer(
    server: Server,
) -> None:
    server.api.apply(CONFIG_MAPS, server.config("a", {"ours": "1", "old": "1"}))
    theirs = [{"op": "add", "path": "/data/theirs", "value": "1"}]
    server.api.patch(CONFIG_MAPS, server.namespace, "a", theirs)

    server.api.apply(CONFIG_MAPS, server.config("a", {"ours": "2"}))

    assert "old" not in server.data("a")
    assert server.data("a")["ours"] == "2"


def test_applying_the_same_again_changes_nothing(server: Server) -> None:
    first = server.api.apply(CONFIG_MAPS, server.config("a", {"k": "1"}))
    second = server.api.apply(CONFIG_MAPS, server.config("a", {"k": "1"}))

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_applying_to_another_object_of_that_name_is_refused(server: Server) -> None:
    first = server.api.create(CONFIG_MAPS, server.config("a", {"k": "1"}))
    server.api.delete(CONFIG_MAPS, server.namespace, "a")
    uid = first["metadata"]["uid"]

    with pytest.raises((ConflictError, NotFoundError)):
        server.api.apply(CONFIG_MAPS, server.config("a", {"k": "2"}, uid=uid))
    assert server.api.get(CONFIG_MAPS, server.namespace, "a") is None
    server.api.create(CONFIG_MAPS, server.config("a", {"k": "3"}))
    with pytest.raises(ConflictError):
        server.api.apply(CONFIG_MAPS, server.config("a", {"k": "2"}, uid=uid))

    assert server.data("a") == {"k": "3"}


def test_a_patch_whose_test_fails_changes_nothing(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {"epoch": "5", "k": "1"}))

    def write(epoch: str, value: str) -> None:
        server.api.patch(
            CONFIG_MAPS,
            server.namespace,
            "a",
            [
                {"op": "test", "path": "/data/epoch", "value": epoch},
                {"op": "replace", "path": "/data", "value": {"epoch": "6", "k": value}},
            ],
        )

    with pytest.raises(ConflictError):
        write("4", "2")
    assert server.data("a") == {"epoch": "5", "k": "1"}
    write("5", "2")
    assert server.data("a") == {"epoch": "6", "k": "2"}


def test_a_patch_of_a_path_that_leads_nowhere_is_a_conflict(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {"k": "1"}))

    with pytest.raises(ConflictError):
        server.api.patch(
            CONFIG_MAPS, server.namespace, "a", [{"op": "remove", "path": "/data/other"}]
        )
    with pytest.raises(ConflictError):
        server.api.patch(
            CONFIG_MAPS,
            server.namespace,
            "a",
            [{"op": "test", "path": "/data/other", "value": "1"}],
        )


def test_a_patch_of_nothing_says_so(server: Server) -> None:
    with pytest.raises(NotFoundError):
        server.api.patch(CONFIG_MAPS, server.namespace, "a", [{"op": "remove", "path": "/data"}])


def test_a_deletion_meant_for_another_object_of_that_name_is_refused(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {}))

    with pytest.raises(ConflictError):
        server.api.delete(
            CONFIG_MAPS, server.namespace, "a", uid="00000000-0000-0000-0000-000000000000"
        )
    with pytest.raises(ConflictError):
        server.api.delete(CONFIG_MAPS, server.namespace, "a", resource_version="99999999")

    assert server.api.delete(CONFIG_MAPS, server.namespace, "a")
    assert not server.api.delete(CONFIG_MAPS, server.namespace, "a")


def test_an_object_with_a_finalizer_stays_until_that_is_taken_out(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {}, finalizers=["headwater.dev/test"]))

    server.api.delete(CONFIG_MAPS, server.namespace, "a")

    found = server.api.get(CONFIG_MAPS, server.namespace, "a")
    assert found is not None
    assert found["metadata"]["deletionTimestamp"]
    server.api.patch(
        CONFIG_MAPS,
        server.namespace,
        "a",
        [
            {"op": "test", "path": "/metadata/finalizers/0", "value": "headwater.dev/test"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
        ],
    )
    assert server.api.get(CONFIG_MAPS, server.namespace, "a") is None


def test_a_pod_that_no_node_runs_goes_at_once(server: Server) -> None:
    server.api.create(PODS, pod(server, "p"))

    server.api.delete(PODS, server.namespace, "p")

    assert server.api.get(PODS, server.namespace, "p") is None


def test_the_status_is_written_apart_from_the_rest(server: Server) -> None:
    server.api.create(CLAIMS, claim(server, "c"))
    status = {"metadata": {"name": "c", "namespace": server.namespace}}

    server.api.apply(CLAIMS, {**status, "status": {"phase": "Lost"}}, subresource="status")
    again = server.api.apply(CLAIMS, claim(server, "c", label="new"))

    assert again["status"]["phase"] == "Lost"
    assert again["metadata"]["labels"]["is"] == "new"


def test_a_status_of_nothing_cannot_be_written(server: Server) -> None:
    with pytest.raises(NotFoundError):
        server.api.apply(
            CLAIMS,
            {"metadata": {"name": "c", "namespace": server.namespace}, "status": {}},
            subresource="status",
        )


def test_nothing_can_be_created_in_a_namespace_that_is_not_there(server: Server) -> None:
    lease = {"metadata": {"name": "l", "namespace": "nowhere"}, "spec": {}}

    with pytest.raises(NotFoundError):
        server.api.create(LEASES, lease)


def test_what_was_written_is_in_the_next_list_and_what_was_deleted_is_not(server: Server) -> None:
    names = [f"c-{number}" for number in range(10)]
    for name in names:
        server.api.create(CONFIG_MAPS, server.config(name, {}, labels={"of": "list"}))
        found = server.api.list(CONFIG_MAPS, server.namespace, labels="of=list")
        assert name in {each["metadata"]["name"] for each in found}

    for name in names:
        server.api.delete(CONFIG_MAPS, server.namespace, name)
        found = server.api.list(CONFIG_MAPS, server.namespace, labels="of=list")
        assert name not in {each["metadata"]["name"] for each in found}


def test_what_was_read_stays_what_it_was(server: Server) -> None:
    server.api.create(CONFIG_MAPS, server.config("a", {"k": "1"}, finalizers=["headwater.dev/a"]))
    (read,) = server.api.list(CONFIG_MAPS, server.namespace, fields="metadata.name=a")

    server.api.patch(CONFIG_MAPS, server.namespace, "a", [replaced("/data/k", "2")])
    server.api.delete(CONFIG_MAPS, server.namespace, "a")

    assert read["data"] == {"k": "1"}
    assert "deletionTimestamp" not in read["metadata"]
    server.api.patch(CONFIG_MAPS, server.namespace, "a", [replaced("/metadata/finalizers", [])])


def test_every_change_has_a_version_of_its_own_and_a_change_of_nothing_has_none(
    server: Server,
) -> None:
    first = server.api.create(CONFIG_MAPS, server.config("a", {"k": "1"}))
    same = server.api.patch(CONFIG_MAPS, server.namespace, "a", [replaced("/data/k", "1")])
    second = server.api.patch(CONFIG_MAPS, server.namespace, "a", [replaced("/data/k", "2")])

    versions = [each["metadata"]["resourceVersion"] for each in (first, same, second)]
    assert versions[0] == versions[1]
    assert versions[1] != versions[2]


def test_a_patch_can_be_held_to_a_version(server: Server) -> None:
    first = server.api.create(CONFIG_MAPS, server.config("a", {"k": "1"}))
    server.api.patch(CONFIG_MAPS, server.namespace, "a", [replaced("/data/k", "2")])
    tested = {"op": "test", "path": "/metadata/resourceVersion"}
    tested["value"] = first["metadata"]["resourceVersion"]

    with pytest.raises(ConflictError):
        server.api.patch(CONFIG_MAPS, server.namespace, "a", [tested, replaced("/data/k", "3")])

    assert server.data("a") == {"k": "2"}


def test_deletion_of_what_is_held_is_seen_at_once_and_asked_for_once(server: Server) -> None:
    made = server.api.create(CONFIG_MAPS, server.config("a", {}, finalizers=["headwater.dev/test"]))

    assert server.api.delete(CONFIG_MAPS, server.namespace, "a", uid=made["metadata"]["uid"])
    first = server.api.get(CONFIG_MAPS, server.namespace, "a")
    assert server.api.delete(CONFIG_MAPS, server.namespace, "a")
    second = server.api.get(CONFIG_MAPS, server.namespace, "a")

    assert first is not None
    assert second is not None
    assert first["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert first["metadata"]["deletionTimestamp"] == second["metadata"]["deletionTimestamp"]
    with pytest.raises(AlreadyExistsError):
        server.api.create(CONFIG_MAPS, server.config("a", {}))
    server.api.patch(CONFIG_MAPS, server.namespace, "a", [replaced("/metadata/finalizers", [])])


def test_a_pod_is_given_to_one_node_and_once(server: Server) -> None:
    server.api.create(PODS, pod(server, "p"))
    bind(server, "p", "node-1")

    with pytest.raises(ConflictError):
        bind(server, "p", "node-2")

    found = server.api.get(PODS, server.namespace, "p")
    assert found is not None
    assert found["spec"]["nodeName"] == "node-1"
    server.api.delete(PODS, server.namespace, "p", grace_s=0)


def test_a_pod_on_a_node_stays_until_its_kubelet_lets_go_and_a_shorter_grace_counts(
    server: Server,
) -> None:
    server.api.create(PODS, pod(server, "p"))
    bind(server, "p", "node-1")

    graces = []
    for grace_s in (None, 5, 20):
        server.api.delete(PODS, server.namespace, "p", grace_s=grace_s)
        found = server.api.get(PODS, server.namespace, "p")
        assert found is not None
        assert "deletionTimestamp" in found["metadata"]
        graces.append(found["metadata"]["deletionGracePeriodSeconds"])
    named = {"name": "p", "namespace": server.namespace}
    running = {"metadata": named, "status": {"phase": "Running"}}
    server.api.apply(PODS, running, subresource="status")
    assert server.api.get(PODS, server.namespace, "p") is not None, "whatever is written meanwhile"
    server.api.delete(PODS, server.namespace, "p", grace_s=0)

    assert graces == [90, 5, 5]
    assert server.api.get(PODS, server.namespace, "p") is None


def test_a_claim_is_held_for_as_long_as_a_pod_may_use_it(server: Server) -> None:
    made = server.api.create(CLAIMS, claim(server, "c"))

    assert IN_USE in made["metadata"]["finalizers"]


def replaced(path: str, value: object) -> Manifest:
    return {"op": "replace", "path": path, "value": value}


def bind(server: Server, name: str, node: str) -> None:
    """Be the scheduler."""
    metadata = {"name": name, "namespace": server.namespace}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    server.api.create(BINDINGS, {"metadata": metadata, "target": target})


def pod(server: Server, name: str) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": server.namespace},
        # No scheduler of this name: the pod stays where it is.
        "spec": {
            "schedulerName": "nobody",
            "terminationGracePeriodSeconds": 90,
            "containers": [{"name": "c", "image": "none:1"}],
        },
    }


def claim(server: Server, name: str, label: str = "old") -> Manifest:
    return {
        "metadata": {"name": name, "namespace": server.namespace, "labels": {"is": label}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
