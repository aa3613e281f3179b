"""What a driver of Spark may do, tried with a token of its account under the chart's policy."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from headwater.model.cluster import API_VERSION
from headwater.model.drivercontract import EXECUTOR, driver_account
from headwater.model.streamapp import KIND
from headwater_operator.kube.api import NAMESPACES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from headwater_operator.manifests.access import driver_role, role_binding, service_account
from headwater_operator.manifests.driver import executor_template
from headwater_operator.manifests.names import Owner, labels
from headwater_operator.manifests.settings import Installation
from tests.golden.test_driver import APP
from tests.kube.installed import namespaces, programs, release
from tests.kube.journey import fresh_namespace
from tests.kube.kubeconfig import client_with_token
from tests.kube.tokens import account_token
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from headwater_operator.kube.client import KubeClient

Manifest = dict[str, Any]

_OWN = "a driver may make and delete executors of its own application only: orders"


@pytest.fixture(scope="module")
def namespace(
    kube_api: ApiClient, admin: KubeClient, crds: None, kubeconfig: Path
) -> Iterator[str]:
    """A namespace with a driver's account, in which everything is allowed that a policy allows."""
    with namespaces(kube_api, 1) as [home]:
        helm, _ = programs(kubeconfig, home)
        made = fresh_namespace(admin, "driver")
        owner = Owner(name=APP.name, namespace=made, uid="u-1")
        account = driver_account(APP.name)
        for resource, manifest in (
            (SERVICE_ACCOUNTS, service_account(owner, account)),
            (ROLES, driver_role(owner)),
            (ROLE_BINDINGS, role_binding(owner, account)),
        ):
            del manifest["metadata"]["ownerReferences"]  # nobody of that name is there
            admin.create(resource, manifest)
        with release(helm):
            yield made
        admin.delete(NAMESPACES, None, made)


@pytest.fixture(scope="module")
def driver(kube_api: ApiClient, namespace: str) -> Iterator[CoreV1Api]:
    """The API as the driver uses it."""
    token = account_token(kube_api, namespace, driver_account(APP.name))
    api = CoreV1Api(client_with_token(kube_api, token))
    foreign = executor("foreign")
    foreign["metadata"]["labels"] = {}

    def is_refused() -> bool:
        # The API server learns of a policy a moment after it was made.
        return _OWN in refused(lambda: api.create_namespaced_pod(namespace, foreign, dry_run="All"))

    wait_for(is_refused, what="the policy to hold", every_s=0.5)
    yield api
    api.api_client.close()


def refused(call: Callable[[], object]) -> str:
    """Return why a call is refused; empty if it is not."""
    try:
        call()
    except ApiException as error:
        return str(error.body)
    return ""


def executor(name: str) -> Manifest:
    """An executor as Spark makes it of the template."""
    made = copy.deepcopy(executor_template(APP, Installation()))
    made["metadata"]["name"] = name
    made["spec"]["containers"][0] |= {"image": "shop/orders:1", "args": ["executor"]}
    return made


def test_a_driver_makes_executors_sees_them_and_deletes_them(
    driver: CoreV1Api, namespace: str
) -> None:
    for name in ("one", "two"):
        driver.create_namespaced_pod(namespace, executor(name))
    chosen = "app.kubernetes.io/component=executor"

    assert len(driver.list_namespaced_pod(namespace, label_selector=chosen).items) == 2
    driver.delete_namespaced_pod("one", namespace, grace_period_seconds=0)
    driver.delete_collection_namespaced_pod(
        namespace, label_selector=chosen, grace_period_seconds=0
    )
    assert driver.list_namespaced_pod(namespace, label_selector=chosen).items == []


def _with_label(name: str, value: str) -> Callable[[Manifest], object]:
    return lambda pod: pod["metadata"]["labels"].update({name: value})


def _with(**fields: object) -> Callable[[Manifest], object]:
    return lambda pod: pod["spec"].update(fields)


def _with_volume(**volume: object) -> Callable[[Manifest], object]:
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **volume})


def _secured(**fields: object) -> Callable[[Manifest], object]:
    return lambda pod: pod["spec"]["containers"][0]["securityContext"].update(fields)


def _pod_secured(**fields: object) -> Callable[[Manifest], object]:
    return lambda pod: pod["spec"]["securityContext"].update(fields)


def _with_port(**fields: object) -> Callable[[Manifest], object]:
    port = {"containerPort": 8080, **fields}
    return lambda pod: pod["spec"]["containers"][0].setdefault("ports", []).append(port)


def _with_annotation(name: str, value: str) -> Callable[[Manifest], object]:
    return lambda pod: pod["metadata"].setdefault("annotations", {}).update({name: value})


def _unmasked(pod: Manifest) -> None:
    _with(hostUsers=False)(pod)  # without that the API server takes no such pod
    _secured(procMount="Unmasked")(pod)


def _profiles(of_pod: object, of_container: object) -> Callable[[Manifest], object]:
    """Give pod and container these profiles of seccomp; ``None`` takes one away."""

    def change(pod: Manifest) -> None:
        for where, profile in ((pod["spec"], of_pod), (pod["spec"]["containers"][0], of_container)):
            where["securityContext"].pop("seccompProfile", None)
            if profile is not None:
                where["securityContext"]["seccompProfile"] = profile

    return change


_DEFAULT = {"type": "RuntimeDefault"}
_LOCAL = {"type": "Localhost", "localhostProfile": "executors.json"}
_NONE = {"type": "Unconfined"}
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_TOKEN = {"sources": [{"serviceAccountToken": {"path": "token"}}]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_with_label("headwater.dev/app", "others"), _OWN),
        (_with_label("app.kubernetes.io/component", "worker"), _OWN),
        (_with(serviceAccountName="default"), "an executor has its driver's account"),
        (_with(automountServiceAccountToken=True), "an executor has its driver's account"),
        (_with_volume(hostPath={"path": "/"}), "neither a path of the node nor a token"),
        (_with_volume(projected=_TOKEN), "neither a path of the node nor a token"),
        (_with_volume(nfs={"server": "files", "path": "/"}), "no volume but those of a restricted"),
        (
            _with_volume(iscsi={"targetPortal": "disks:3260", "iqn": "iqn.2000-01.a:b", "lun": 0}),
            "no volume but those of a restricted",
        ),
        (_profiles(_DEFAULT, _NONE), "has a profile of seccomp"),
        (_profiles(_NONE, _DEFAULT), "has a profile of seccomp"),
        (_profiles(None, None), "has a profile of seccomp"),
        (_with(hostNetwork=True), "an executor shares nothing with its node"),
        (_with(hostPID=True), "an executor shares nothing with its node"),
        (_secured(privileged=True, allowPrivilegeEscalation=True), "containers are restricted"),
        (_with_port(hostPort=8080), "an executor shares nothing with its node"),
        (_unmasked, "sees /proc as the container runtime masks it"),
        (_pod_secured(sysctls=[{"name": "kernel.msgmax", "value": "1"}]), "of the kernel"),
        (_secured(seLinuxOptions={"type": "spc_t"}), "type of SELinux"),
        (_secured(seLinuxOptions={"user": "root"}), "type of SELinux"),
        (_pod_secured(seLinuxOptions={"type": "spc_t"}), "type of SELinux"),
        (_pod_secured(seLinuxOptions={"role": "sysadm_r"}), "type of SELinux"),
        (_secured(appArmorProfile=_NONE), "profile of AppArmor"),
        (_pod_secured(appArmorProfile=_NONE), "profile of AppArmor"),
        (_with_annotation(f"{_APPARMOR}{EXECUTOR}", "unconfined"), "profile of AppArmor"),
        (_secured(runAsNonRoot=False), "containers are restricted"),
        (_secured(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), "are restricted"),
    ],
)
def test_a_driver_makes_nothing_but_restricted_executors_of_its_own(
    driver: CoreV1Api, namespace: str, change: Callable[[Manifest], object], said: str
) -> None:
    pod = executor("another")
    change(pod)

    assert said in refused(lambda: driver.create_namespaced_pod(namespace, pod, dry_run="All"))


@pytest.mark.parametrize(
    "change",
    [
        _with_volume(emptyDir={}),
        _with_volume(configMap={"name": "models"}),
        _with_volume(secret={"secretName": "models"}),
        _with_volume(downwardAPI={}),
        _with_volume(projected={"sources": [{"secret": {"name": "models"}}]}),
        _with_volume(persistentVolumeClaim={"claimName": "models"}),
        _with_volume(csi={"driver": "models.example"}),
        _with_port(containerPort=7078),
        _secured(procMount="Default"),
        _pod_secured(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
        _secured(seLinuxOptions={"type": "container_t", "level": "s0:c1"}),
        _pod_secured(appArmorProfile=_DEFAULT),
        _profiles(_DEFAULT, None),
        _profiles(None, _DEFAULT),
        _profiles(_LOCAL, _LOCAL),
    ],
)
def test_an_executor_may_have_what_a_restricted_pod_may_have(
    driver: CoreV1Api, namespace: str, change: Callable[[Manifest], object]
) -> None:
    pod = executor("another")
    change(pod)

    assert refused(lambda: driver.create_namespaced_pod(namespace, pod, dry_run="All")) == ""


def test_a_driver_deletes_no_pod_of_others_one_by_one_or_all_at_once(
    kube_api: ApiClient, driver: CoreV1Api, namespace: str
) -> None:
    worker = executor("orders-w-0")
    worker["metadata"]["labels"] = labels("orders", worker="orders-w-0")
    admin = CoreV1Api(kube_api)
    admin.create_namespaced_pod(namespace, worker)

    assert _OWN in refused(lambda: driver.delete_namespaced_pod("orders-w-0", namespace))
    assert _OWN in refused(lambda: driver.delete_collection_namespaced_pod(namespace))

    assert admin.read_namespaced_pod("orders-w-0", namespace).metadata.deletion_timestamp is None
    admin.delete_namespaced_pod("orders-w-0", namespace, grace_period_seconds=0)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"kafka": {"config": {"sasl.password": "x", "client.id": "me"}}}, "sasl.password"),
        ({"kafka": {"config": {"ssl.key.password": "x"}}}, "ssl.key.password"),
        ({"kafka": {"config": {"ssl.keystore.password": "x"}}}, "ssl.keystore.password"),
        ({"kafka": {"config": {"ssl.key.pem": "x"}}}, "ssl.key.pem"),
        ({"kafka": {"config": {"sasl.jaas.config": "x"}}}, "sasl.jaas.config"),
        ({"config": {"producer.sasl.oauthbearer.client.secret": "x"}}, "client.secret"),
        ({"spark": {"config": {"spark.hadoop.fs.s3a.secret.key": "x"}}}, "fs.s3a.secret.key"),
        ({"spark": {"config": {"spark.hadoop.fs.s3a.session.token": "x"}}}, "session.token"),
        ({"kafka": {"config": {"sasl.username": "me", "ssl.key.location": "/k"}}}, ""),
        ({}, ""),
    ],
)
def test_a_password_in_a_streamapp_is_warned_of_and_taken(
    kube_api: ApiClient, driver: CoreV1Api, namespace: str, spec: dict[str, Any], said: str
) -> None:
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "shop"},
        "spec": {"topology": {"module": "shop:build"}, "image": "shop:1", **spec},
    }
    group, version = API_VERSION.split("/")
    call = CustomObjectsApi(kube_api).create_namespaced_custom_object_with_http_info

    def warned() -> str:
        headers = call(group, version, namespace, "streamapps", body, dry_run="All")[2]
        return str(headers.get("Warning", ""))

    if said:  # the API server learns of a policy a moment after it was made
        wait_for(lambda: said in warned(), what="the warning", timeout_s=60)
        assert "client.id" not in warned()
    else:
        assert "can read" not in warned()


def test_a_driver_may_do_nothing_else(driver: CoreV1Api, namespace: str) -> None:
    for call in (
        lambda: driver.list_namespaced_secret(namespace),
        lambda: driver.list_namespaced_config_map(namespace),
        lambda: driver.list_namespaced_service(namespace),
        lambda: driver.list_namespaced_persistent_volume_claim(namespace),
        lambda: driver.patch_namespaced_pod("any", namespace, {"metadata": {"labels": {}}}),
        lambda: driver.list_namespaced_pod("default"),
        lambda: driver.connect_post_namespaced_pod_exec("any", namespace, command=["sh"]),
    ):
        assert "is forbidden: User" in refused(call)
