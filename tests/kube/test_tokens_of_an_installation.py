"""Who may do what, tried with the real tokens of the operator and of its workers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import (
    CoordinationV1Api,
    CoreV1Api,
    CustomObjectsApi,
    RbacAuthorizationV1Api,
)
from kubernetes.client.exceptions import ApiException

from headwater.model import podcontract
from tests.golden.chart import CHART
from tests.kube.definitions import GROUP, VERSION, WORKERS
from tests.kube.installed import (
    RELEASE,
    forget_apps,
    namespaces,
    operator_pod,
    programs,
    release,
    run_app,
    running_operator,
    workers,
)
from tests.kube.kubeconfig import client_with_token
from tests.kube.tokens import account_token, pod_token
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from tests.kube.fixtures import Command

_POLICY = "a worker may"


@dataclass(frozen=True)
class Installation:
    """An operator that runs the StreamApps of two namespaces.

    Attributes:
        admin: may do everything.
        home: where the operator lives, with the applications ``one`` and ``two``.
        other: where there is an application as well.
        outside: whose StreamApps it does not run.
        helm: works in ``home``.
    """

    admin: ApiClient
    home: str
    other: str
    outside: str
    helm: Command

    def workers(self, app: str, namespace: str = "") -> list[str]:
        """Names of the workers of an application."""
        return workers(self.admin, namespace or self.home, app)

    def worker(self, name: str) -> ApiClient:
        """A client with the token of a worker's pod."""
        return client_with_token(self.admin, pod_token(self.admin, self.home, name))

    def operator(self) -> ApiClient:
        """A client with the token of the operator's pod."""
        pod = operator_pod(self.admin, self.home).metadata.name
        return client_with_token(self.admin, pod_token(self.admin, self.home, pod))


@pytest.fixture(scope="module")
def installed(
    kube_api: ApiClient,
    crds: None,
    kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("operator")
    with namespaces(kube_api, 3) as [home, other, outside]:
        helm, _ = programs(kubeconfig, home)
        apps = {"one": home, "two": home, "three": other}
        with release(helm, f"--set=watchNamespaces={{{home},{other}}}"):
            found = Installation(kube_api, home, other, outside, helm)
            with running_operator(kube_api, home, directory) as log:
                for app, namespace in apps.items():
                    run_app(kube_api, namespace, app)
                wait_for(
                    lambda: all(len(found.workers(app, apps[app])) == 2 for app in apps),
                    what=f"the workers; see {log}",
                )
            policy_holds(found)
            yield found
        for namespace in (home, other):
            forget_apps(kube_api, namespace)


def policy_holds(found: Installation) -> None:
    """The API server learns of a policy a moment after it was made."""
    mine, other = found.workers("one")

    def is_refused() -> bool:
        try:
            write_status(found.worker(mine), found.home, other)
        except ApiException as error:
            return _POLICY in str(error.body)
        return False

    wait_for(is_refused, what="the policy to hold", every_s=0.5)


# -- what can be tried ----------------------------------------------------------------------------


def write_status(api: ApiClient, namespace: str, worker: str) -> None:
    CustomObjectsApi(api).patch_namespaced_custom_object_status(
        GROUP, VERSION, namespace, WORKERS, worker, {"status": {"acknowledgedEpoch": 1}}
    )


def write_lease(api: ApiClient, namespace: str, worker: str) -> None:
    leases = CoordinationV1Api(api)
    lease = leases.read_namespaced_lease(worker, namespace)
    lease.spec.holder_identity = "me"
    leases.replace_namespaced_lease(worker, namespace, lease)


def write_spec(api: ApiClient, namespace: str, worker: str) -> None:
    CustomObjectsApi(api).patch_namespaced_custom_object(
        GROUP, VERSION, namespace, WORKERS, worker, {"spec": {"drain": True}}
    )


def remove(api: ApiClient, namespace: str, worker: str) -> None:
    CustomObjectsApi(api).delete_namespaced_custom_object(
        GROUP, VERSION, namespace, WORKERS, worker
    )


def remove_lease(api: ApiClient, namespace: str, worker: str) -> None:
    CoordinationV1Api(api).delete_namespaced_lease(worker, namespace)


def refusal(attempt: Callable[[], object]) -> str:
    """What the API server says to an attempt that it must refuse."""
    with pytest.raises(ApiException, match=r"\(403\)") as caught:
        attempt()
    return str(caught.value.body)


# -- workers --------------------------------------------------------------------------------------


def test_a_worker_writes_its_own_status_and_lease(installed: Installation) -> None:
    mine, _ = installed.workers("one")
    api = installed.worker(mine)

    write_status(api, installed.home, mine)
    write_lease(api, installed.home, mine)

    lease = CoordinationV1Api(installed.admin).read_namespaced_lease(mine, installed.home)
    assert lease.spec.holder_identity == "me"


@pytest.mark.parametrize("app", ["one", "two"], ids=["of its application", "of another"])
@pytest.mark.parametrize("write", [write_status, write_lease])
def test_a_worker_writes_nothing_of_another(
    installed: Installation, app: str, write: Callable[[ApiClient, str, str], None]
) -> None:
    mine, other = installed.workers("one")[0], installed.workers(app)[-1]

    said = refusal(lambda: write(installed.worker(mine), installed.home, other))

    assert f"{mine} is not {other}" in said


@pytest.mark.parametrize("write", [write_spec, remove, remove_lease])
def test_a_worker_decides_nothing_about_itself(
    installed: Installation, write: Callable[[ApiClient, str, str], None]
) -> None:
    mine, _ = installed.workers("one")

    refusal(lambda: write(installed.worker(mine), installed.home, mine))


def test_a_worker_reads_no_secret_and_nothing_else_that_is_not_its_business(
    installed: Installation,
) -> None:
    mine, _ = installed.workers("one")
    core = CoreV1Api(installed.worker(mine))
    CoreV1Api(installed.admin).create_namespaced_secret(
        installed.home, {"metadata": {"name": "password"}, "stringData": {"password": "x"}}
    )

    refusal(lambda: core.read_namespaced_secret("password", installed.home))
    refusal(lambda: core.list_namespaced_secret(installed.home))
    refusal(lambda: core.list_namespaced_pod(installed.home))
    refusal(lambda: core.read_namespaced_config_map("kube-root-ca.crt", installed.home))
    refusal(core.list_node)


def test_a_worker_reaches_no_other_namespace(installed: Installation) -> None:
    mine, _ = installed.workers("one")
    api, [there, _] = installed.worker(mine), installed.workers("three", installed.other)

    refusal(lambda: write_status(api, installed.other, there))
    refusal(lambda: CoordinationV1Api(api).read_namespaced_lease(there, installed.other))
    refusal(
        lambda: CustomObjectsApi(api).list_namespaced_custom_object(
            GROUP, VERSION, installed.other, WORKERS
        )
    )


def test_a_token_that_is_bound_to_no_pod_writes_nothing(installed: Installation) -> None:
    mine, _ = installed.workers("one")
    account = podcontract.service_account("one")
    token = account_token(installed.admin, installed.home, account)

    said = refusal(
        lambda: write_status(client_with_token(installed.admin, token), installed.home, mine)
    )

    assert "bound to the worker's pod" in said


@contextmanager
def more_rights(installed: Installation, api: ApiClient, account: str) -> Iterator[None]:
    """Somebody means well and lets a worker's account do everything in its namespace.

    Its client's requests tell when the API server has learned of it, and when it has forgotten it.
    """
    rbac = RbacAuthorizationV1Api(installed.admin)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": installed.home}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    rbac.create_namespaced_role_binding(
        installed.home,
        {
            "metadata": {"name": "generous"},
            "roleRef": {**reference, "name": "cluster-admin"},
            "subjects": [subject],
        },
    )
    try:
        wait_for(lambda: _may_list(api, installed.home), what="the rights")
        yield
    finally:
        rbac.delete_namespaced_role_binding("generous", installed.home)
        wait_for(lambda: not _may_list(api, installed.home), what="the rights to be gone")


def test_whatever_rights_it_has_besides_a_worker_is_held_to_its_own(
    installed: Installation,
) -> None:
    mine, other = installed.workers("one")
    api = installed.worker(mine)

    with more_rights(installed, api, podcontract.service_account("one")):
        assert CoreV1Api(api).list_namespaced_pod(installed.home).items
        for attempt in (write_spec, remove, remove_lease):
            assert _POLICY in refusal(lambda attempt=attempt: attempt(api, installed.home, mine))
        assert _POLICY in refusal(lambda: write_lease(api, installed.home, other))
        write_status(api, installed.home, mine)


def _may_list(api: ApiClient, namespace: str) -> bool:
    try:
        CoreV1Api(api).list_namespaced_pod(namespace)
    except ApiException:
        return False
    return True


def test_without_the_policy_a_worker_would_write_what_is_anothers(
    installed: Installation,
) -> None:
    mine, other = installed.workers("two")
    api = installed.worker(mine)

    def upgrade(is_there: str) -> None:
        chosen = f"--set=admissionPolicy.create={is_there}"
        installed.helm("upgrade", RELEASE, str(CHART), "--reuse-values", chosen)

    refused: list[str] = []

    def is_taken() -> bool:
        try:
            write_status(api, installed.home, other)
        except ApiException as error:
            refused[:] = [str(error.body)]
            return False
        return True

    upgrade("false")
    try:
        wait_for(is_taken, what="the write", every_s=0.5)
    except AssertionError as error:
        # Such as the policy of another release, which holds in every namespace.
        raise AssertionError(f"{error}; refused: {refused}") from error
    finally:
        upgrade("true")
        policy_holds(installed)


# -- the operator ---------------------------------------------------------------------------------


def test_the_operator_reads_no_secret(installed: Installation) -> None:
    core = CoreV1Api(installed.operator())
    for namespace in (installed.home, installed.other, "kube-system"):
        refusal(lambda namespace=namespace: core.list_namespaced_secret(namespace))
        refusal(lambda namespace=namespace: core.read_namespaced_secret("any", namespace))
    refusal(core.list_secret_for_all_namespaces)


def test_the_operator_reaches_no_namespace_but_its_own(installed: Installation) -> None:
    api = installed.operator()

    refusal(lambda: CoreV1Api(api).list_namespaced_pod(installed.outside))
    refusal(lambda: CoreV1Api(api).list_pod_for_all_namespaces())
    refusal(
        lambda: CustomObjectsApi(api).list_namespaced_custom_object(
            GROUP, VERSION, installed.outside, "streamapps"
        )
    )


def test_the_operator_grants_nobody_more_than_it_may_itself(installed: Installation) -> None:
    rbac = RbacAuthorizationV1Api(installed.operator())
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    role: dict[str, Any] = {"metadata": {"name": "spy"}, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": installed.home}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    binding = {
        "metadata": {"name": "spy"},
        "roleRef": {**reference, "name": "cluster-admin"},
        "subjects": [subject],
    }

    said = refusal(lambda: rbac.create_namespaced_role(installed.home, role))
    refusal(lambda: rbac.create_namespaced_role_binding(installed.home, binding))
    refusal(lambda: rbac.create_cluster_role(role))

    assert "is attempting to grant RBAC permissions not currently held" in said


# -- people ---------------------------------------------------------------------------------------


def test_who_may_edit_a_namespace_may_run_applications_and_write_no_workers(
    installed: Installation,
) -> None:
    kubectl = programs_of(installed)

    def may(verb: str, what: str, role: str) -> str:
        kind, _, part = what.partition("/")
        options = [f"--as=system:serviceaccount:{installed.home}:{role}", f"--subresource={part}"]
        return kubectl.run("auth", "can-i", verb, kind, *options).stdout.strip()

    for role in ("edit", "view"):
        kubectl("create", "serviceaccount", role)
        account = f"--serviceaccount={installed.home}:{role}"
        kubectl("create", "rolebinding", role, f"--clusterrole={role}", account)

    wait_for(lambda: may("create", "streamapps", "edit") == "yes", what="the aggregated role")
    assert may("update", "streamapps/scale", "edit") == "yes"
    assert may("list", "streamworkers", "edit") == "yes"
    assert may("patch", "streamworkers", "edit") == "no"
    assert may("patch", "streamapps/status", "edit") == "no"
    assert may("create", "streamactions", "edit") == "yes"
    assert may("patch", "streamactions/status", "edit") == "no"
    wait_for(lambda: may("list", "streamapps", "view") == "yes", what="the aggregated role")
    assert may("create", "streamapps", "view") == "no"
    assert may("list", "streamactions", "view") == "yes"
    assert may("create", "streamactions", "view") == "no"


def programs_of(installed: Installation) -> Command:
    return programs(installed.helm.kubeconfig, installed.home)[1]
