"""What the operator stands on when it talks to an API server: the model keeps the same promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kube_model import KubeModel

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


@pytest.fixture(params=["model", pytest.param("real", marks=pytest.mark.kube)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "model":
        yield Server(KubeModel(), "default")
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


def pod(server: Server, name: str) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": server.namespace},
        # No scheduler of this name: the pod stays where it is.
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none:1"}]},
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
