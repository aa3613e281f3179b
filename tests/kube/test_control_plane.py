"""What the private control plane promises to the tests that stand on it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psutil
import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.kube.kubeconfig import client_for, client_with_token
from tests.kube.programs import KUBERNETES
from tests.kube.tokens import account_token, pod_token
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.kube.control_plane import ControlPlane
    from tests.kube.fixtures import Command


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "headwater-test/none:1"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def _refused(status: int) -> Any:
    return pytest.raises(ApiException, match=rf"\({status}\)")


def test_the_programs_are_of_the_pinned_version(kube_api: ApiClient, kubectl: Command) -> None:
    version = json.loads(kubectl("version", "--output=json"))

    assert client.VersionApi(kube_api).get_code().git_version == f"v{KUBERNETES.version}"
    assert version["clientVersion"]["gitVersion"] == f"v{KUBERNETES.version}"


def test_helm_reaches_the_cluster(helm: Command) -> None:
    assert json.loads(helm("list", "--output=json")) == []


def test_an_account_may_do_what_its_role_says_and_nothing_else(
    kube_api: ApiClient, namespace: str, kubectl: Command
) -> None:
    core = client.CoreV1Api(client_with_token(kube_api, account_token(kube_api, namespace)))
    with _refused(403):
        core.list_namespaced_pod(namespace)

    kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    kubectl("create", "rolebinding", "r", "--role=reader", f"--serviceaccount={namespace}:default")

    def may_list() -> bool:
        try:
            return core.list_namespaced_pod(namespace).items == []
        except ApiException:
            return False

    wait_for(may_list, what="the role")
    with _refused(403):
        core.list_namespaced_secret(namespace)
    with _refused(403):
        core.list_namespaced_pod("default")


def test_a_pods_token_names_the_pod_and_dies_with_it(kube_api: ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(kube_api)
    pod = core.create_namespaced_pod(namespace, _pod("one"))
    # Two, since the API server remembers for seconds that a token was good.
    tokens = [pod_token(kube_api, namespace, "one") for _ in range(2)]

    def review(token: str) -> Any:
        body = {"spec": {"token": token}}
        return client.AuthenticationV1Api(kube_api).create_token_review(body).status

    said = review(tokens[0])
    assert said.authenticated
    assert said.user.username == f"system:serviceaccount:{namespace}:default"
    assert said.user.extra["authentication.kubernetes.io/pod-name"] == ["one"]
    assert said.user.extra["authentication.kubernetes.io/pod-uid"] == [pod.metadata.uid]

    core.delete_namespaced_pod("one", namespace, grace_period_seconds=0)
    wait_for(lambda: not review(tokens[1]).authenticated, what="the token to be worth nothing")


def test_an_admission_policy_holds_a_pod_to_its_own_object(
    kube_api: ApiClient, namespace: str, kubectl: Command
) -> None:
    name = f"own-{namespace}"
    policy = f"""
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicy
        metadata: {{name: {name}}}
        spec:
          failurePolicy: Fail
          matchConstraints:
            resourceRules:
            - {{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps]}}
          validations:
          - expression: >-
              request.userInfo.extra['authentication.kubernetes.io/pod-name'][0]
              == object.metadata.name
            message: "not your own"
        ---
        apiVersion: admissionregistration.k8s.io/v1
        kind: ValidatingAdmissionPolicyBinding
        metadata: {{name: {name}}}
        spec:
          policyName: {name}
          validationActions: [Deny]
          matchResources:
            namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
            objectSelector: {{matchLabels: {{guarded: "yes"}}}}
    """
    kubectl("apply", "--filename=-", stdin=textwrap.dedent(policy))
    kubectl("create", "role", "w", "--verb=patch", "--resource=configmaps")
    kubectl("create", "rolebinding", "w", "--role=w", f"--serviceaccount={namespace}:default")
    core = client.CoreV1Api(kube_api)
    for each in ("mine", "yours"):
        body = {"metadata": {"name": each, "labels": {"guarded": "yes"}}}
        core.create_namespaced_config_map(namespace, body)
    core.create_namespaced_pod(namespace, _pod("mine"))
    pod = client.CoreV1Api(client_with_token(kube_api, pod_token(kube_api, namespace, "mine")))

    def refusal() -> str:
        try:
            pod.patch_namespaced_config_map("yours", namespace, {"data": {"at": uuid4().hex}})
        except ApiException as error:
            return str(error.body)
        return ""

    try:
        wait_for(lambda: "not your own" in refusal(), what="the policy to hold")
        own = pod.patch_namespaced_config_map("mine", namespace, {"data": {"a": "b"}})
        assert own.data == {"a": "b"}
    finally:
        kubectl("delete", f"validatingadmissionpolicy/{name}")
        kubectl("delete", f"validatingadmissionpolicybinding/{name}")


def test_a_restricted_namespace_refuses_a_pod_that_asks_for_more(
    kube_api: ApiClient, namespace: str
) -> None:
    core = client.CoreV1Api(kube_api)
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.patch_namespace(namespace, {"metadata": {"labels": enforce}})

    def refusal() -> ApiException | None:
        # The API server may still know the namespace without its label.
        try:
            core.create_namespaced_pod(namespace, _pod("root"), dry_run="All")
        except ApiException as error:
            return error
        return None

    refused = wait_for(refusal, what="the refusal")
    assert refused.status == 403
    assert "violates PodSecurity" in str(refused)
    with _refused(403):
        core.create_namespaced_pod(namespace, _pod("root"))


def test_a_node_may_change_itself_only(control_plane: ControlPlane, kube_api: ApiClient) -> None:
    names = [f"node-{uuid4().hex[:6]}" for _ in range(2)]
    paths = [control_plane.user_kubeconfig(f"system:node:{n}", ["system:nodes"]) for n in names]
    admin = client.CoreV1Api(kube_api)
    try:
        with client_for(paths[0]) as first, client_for(paths[1]) as second:
            client.CoreV1Api(first).create_node({"metadata": {"name": names[0]}})
            client.CoreV1Api(second).create_node({"metadata": {"name": names[1]}})
            label = {"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}}}

            assert client.CoreV1Api(first).patch_node(names[0], label).metadata.name == names[0]
            with _refused(403):
                client.CoreV1Api(first).patch_node(names[1], label)
            with _refused(403):
                client.CoreV1Api(first).list_namespaced_secret("default")
    finally:
        for name in names:
            admin.delete_node(name)


def test_a_dependent_goes_with_its_owner(kube_api: ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(kube_api)
    owner = core.create_namespaced_config_map(namespace, {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner.metadata.uid,
    }
    core.create_namespaced_secret(
        namespace, {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    )

    core.delete_namespaced_config_map("owner", namespace)

    wait_for(lambda: core.list_namespaced_secret(namespace).items == [], what="the collector")


def test_a_deleted_namespace_takes_everything_with_it(kube_api: ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(kube_api)
    core.create_namespaced_pod(namespace, _pod("left"))

    core.delete_namespace(namespace)

    def is_gone() -> bool:
        return namespace not in {item.metadata.name for item in core.list_namespace().items}

    wait_for(is_gone, what="the namespace to go")


def test_a_restarted_api_server_keeps_its_data(
    control_plane: ControlPlane, kube_api: ApiClient, namespace: str
) -> None:
    core = client.CoreV1Api(kube_api)
    before = core.create_namespaced_config_map(namespace, {"metadata": {"name": "kept"}})

    control_plane.restart_api_server()

    after = core.read_namespaced_config_map("kept", namespace)
    assert after.metadata.uid == before.metadata.uid


def test_a_watch_from_a_compacted_revision_is_answered_410(
    control_plane: ControlPlane, kube_api: ApiClient, namespace: str
) -> None:
    core = client.CoreV1Api(kube_api)
    old = core.create_namespaced_config_map(namespace, {"metadata": {"name": "first"}})
    for number in range(3):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": f"more-{number}"}})

    control_plane.compact()
    control_plane.restart_api_server()

    with _refused(410):
        for _ in watch.Watch().stream(
            core.list_namespaced_config_map,
            namespace,
            resource_version=old.metadata.resource_version,
            timeout_seconds=10,
        ):
            pass


_OWNER = """
    import sys
    from tests.kube.control_plane import ControlPlane
    running = ControlPlane().start()
    print(running.directory, flush=True)
    sys.stdin.read()
"""


@pytest.mark.kube
def test_a_control_plane_dies_with_its_owner() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_OWNER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        directory = owner.stdout.readline().strip()
        assert directory

        def programs() -> list[int]:
            return [
                process.pid
                for process in psutil.process_iter(["cmdline"])
                if any(directory in word for word in process.info["cmdline"] or ())
            ]

        assert len(programs()) >= 4
        owner.kill()
        wait_for(lambda: programs() == [], what="the control plane to end")
