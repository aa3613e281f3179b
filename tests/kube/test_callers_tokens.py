"""Tokens for callers of workers and a real API server: its keys, its tokens, its proxy to pods."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING

import psutil
import pytest
from kubernetes.client import AuthenticationV1Api
from kubernetes.client.exceptions import ApiException

from headwater.httpserver import Answer, HttpServer
from headwater.model.podcontract import TOKEN_HEADER, operator_audience
from headwater.model.streamapp_http import HttpAuthentication, Protected
from headwater.model.streamapp_kafka import SecretReference
from headwater.service.httpauth.guard import guard_of
from headwater.service.httpauth.judging import Known, Reason, judge
from headwater.service.httpauth.keys import KIND, PATH, KeyRing
from headwater.service.kube.client import Access, KubeClient
from headwater_operator.kube.caller_tokens import CallerTokens
from headwater_operator.kube.client import KubeClient as UsersClient
from headwater_operator.manifests.permissions import caller_rules
from tests.kube.kubeconfig import client_with_token, write_kubeconfig
from tests.kube.kubeconfig import kubeconfig as kubeconfig_of
from tests.kube.kubelet.network import Network
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from tests.kube.control_plane import ControlPlane
    from tests.kube.fixtures import Command

pytestmark = pytest.mark.kube

RBAC = "rbac.authorization.k8s.io/v1"

MOST_S = 3_600 + 31
"""After so long, and what clocks may differ by, no token of the test holds."""


class Asked:
    """Workers of a namespace, as they judge callers with the API server's own keys."""

    def __init__(self, namespace: str, caller: str, ring: KeyRing) -> None:
        self._known = Known(
            secret="callers",
            operator=caller,
            audience=operator_audience(namespace),
            issuer=ring.issuer,
            keys=ring.known,
            protects=Protected.ALL,
        )

    def reason(self, token: str, after_s: float = 0) -> Reason | None:
        """Why they refuse a token; ``None`` if they let its holder in."""
        refusal = judge(token.encode(), "/tasks", self._known, time.time() + after_s)
        return None if refusal is None else refusal.reason


@pytest.fixture
def ring(control_plane: ControlPlane, kubectl: Command, tmp_path: Path) -> Iterator[KeyRing]:
    """The keys, by the rights of any service account."""
    access = in_a_pod(control_plane, kubectl, tmp_path)
    client = KubeClient(access, timeout_s=30)
    found = KeyRing(lambda: client.get(PATH, "its keys", KIND), access.token)
    try:
        wait_for(lambda: found.known, what="the keys")
        yield found
    finally:
        found.close()
        client.drop()


@pytest.fixture
def operator(
    control_plane: ControlPlane, namespace: str, kubectl: Command, tmp_path: Path
) -> Iterator[UsersClient]:
    """An operator's client, whose rights are those that the chart gives for this and no others."""
    for account in ("operator", "caller"):
        kubectl("create", "serviceaccount", account)
    role = {"kind": "Role", "apiVersion": RBAC, "metadata": {"name": "tokens"}}
    kubectl("create", "--filename=-", stdin=json.dumps(role | {"rules": caller_rules("caller")}))
    subject = f"--serviceaccount={namespace}:operator"
    kubectl("create", "rolebinding", "tokens", "--role=tokens", subject)
    token = kubectl("create", "token", "operator").strip()
    server, authority = control_plane.server, control_plane.ca_certificate
    document = kubeconfig_of(server, authority, token=token)
    client = UsersClient.from_environment(write_kubeconfig(tmp_path / "operator", document))
    yield client
    client.close()


def test_a_token_that_workers_of_one_namespace_keep_opens_no_other(
    kube_api: ApiClient,
    namespace: str,
    operator: UsersClient,
    ring: KeyRing,
    kubectl: Command,
) -> None:
    caller = f"system:serviceaccount:{namespace}:caller"
    tokens = CallerTokens(operator, caller)
    shop, other = (Asked(name, caller, ring) for name in ("shop", "other"))
    # The API server learns of a role a moment after it was made.
    mine = wait_for(lambda: CallerTokens(operator, caller).of("shop"), what="the right")

    assert shop.reason(mine) is None
    assert other.reason(mine) is Reason.WRONG
    assert shop.reason(tokens.of("other")) is Reason.WRONG
    assert other.reason(tokens.of("other")) is None
    assert shop.reason(mine, after_s=MOST_S) is Reason.EXPIRED

    audience = f"--audience={operator_audience('shop')}"
    own = kubectl("create", "token", "operator", audience).strip()
    assert shop.reason(own) is Reason.FORBIDDEN, "of another account"
    general = kubectl("create", "token", "caller").strip()
    assert shop.reason(general) is Reason.WRONG, "a token for the API server"
    stranger = AuthenticationV1Api(client_with_token(kube_api, mine))
    with pytest.raises(ApiException, match=r"\(401\)"):
        stranger.create_self_subject_review({})


def test_a_token_is_renewed_in_time_and_held_while_it_cannot_be(
    namespace: str, operator: UsersClient, kubectl: Command, caplog: pytest.LogCaptureFixture
) -> None:
    now_ms = 0
    caller = f"system:serviceaccount:{namespace}:caller"
    wait_for(lambda: CallerTokens(operator, caller).of("shop"), what="the right")
    tokens = CallerTokens(operator, caller, now_ms=lambda: now_ms)
    first = tokens.of("shop")
    now_ms = 44 * 60_000
    assert tokens.of("shop") == first
    now_ms = 46 * 60_000
    second = tokens.of("shop")
    assert second != first

    kubectl("delete", "rolebinding", "tokens")

    def is_forbidden() -> bool:
        caplog.clear()
        return CallerTokens(operator, caller).of("other") == ""

    wait_for(is_forbidden, what="the right to be gone")
    assert "workers of other cannot be shown a token" in caplog.text
    assert "cannot create resource" in caplog.text
    now_ms = (46 + 59) * 60_000
    assert tokens.of("shop") == second, "it still holds"
    now_ms = (46 + 61) * 60_000
    assert tokens.of("shop") == ""


def test_the_operator_makes_tokens_of_no_other_account(
    namespace: str, operator: UsersClient, caplog: pytest.LogCaptureFixture
) -> None:
    caller = f"system:serviceaccount:{namespace}:caller"
    wait_for(lambda: CallerTokens(operator, caller).of("shop"), what="the right")

    for account in ("operator", "default"):
        caplog.clear()
        assert CallerTokens(operator, f"system:serviceaccount:{namespace}:{account}").of("a") == ""
        assert "cannot create resource" in caplog.text


def test_a_token_gets_through_the_api_servers_proxy_by_its_own_header_alone(
    kubeconfig: Path, namespace: str, kubectl: Command, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("s3cret")
    asked = HttpAuthentication(secret_ref=SecretReference(name="callers"))
    guard = guard_of(asked, tmp_path, operator="", namespace="", service_account=tmp_path)
    client = UsersClient.from_environment(kubeconfig)
    routes = {"/state": lambda _: Answer.text("all of it")}
    with closing(Network()) as network, closing(client):
        address = own_address() if network.is_loopback else network.address(1)
        with (
            closing(HttpServer(address, 0, routes, guard=guard)) as server,
            pod_at(kubectl, address),
        ):
            at = namespace, "worker", server.port, "/state"
            assert client.ask_pod(*at)[0] == HTTPStatus.UNAUTHORIZED
            assert client.ask_pod(*at, headers={TOKEN_HEADER: "wrong"})[0] == 401
            assert client.ask_pod(*at, headers={TOKEN_HEADER: "s3cret"}) == (200, b"all of it\n")
        assert +Counter(guard.counts()) == {"missing": 1, "wrong": 1}


def in_a_pod(control_plane: ControlPlane, kubectl: Command, directory: Path) -> Access:
    """The access of a service account without any rights of its own."""
    view = kubectl(
        "config", "view", "--raw", "--minify", "-ojsonpath={.clusters[0].cluster.server}"
    )
    host, _, port = view.removeprefix("https://").rpartition(":")
    (directory / "token").write_text(kubectl("create", "token", "default").strip())
    authorities = kubectl("get", "configmap", "kube-root-ca.crt", r"-ojsonpath={.data.ca\.crt}")
    (directory / "ca.crt").write_text(authorities)
    return Access(host=host, port=int(port), directory=directory)


def own_address() -> str:
    """An address that this machine has anyway and to which the proxy goes: none of loopback."""
    found = [each.address for part in psutil.net_if_addrs().values() for each in part]
    for text in found:
        with suppress(ValueError):
            address = ip_address(text)
            if address.version == 4 and not (address.is_loopback or address.is_link_local):
                return text
    pytest.fail(
        f"the API server's proxy goes to no address of loopback, and this machine has no other "
        f"({', '.join(found)}), nor can this process make a network device: run it as root with "
        "/dev/net/tun, or give the machine an address: ip address add 192.0.2.1/32 dev lo"
    )


@contextmanager
def pod_at(kubectl: Command, address: str) -> Iterator[None]:
    """A pod that the API server believes to be at an address."""
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  automountServiceAccountToken: false
  nodeName: nowhere
  containers: [{name: worker, image: none}]
"""
    kubectl("create", "--filename=-", stdin=pod)
    status = f'{{"status": {{"phase": "Running", "podIP": "{address}"}}}}'
    options = ("--subresource=status", "--type=merge", f"--patch={status}")
    kubectl("patch", "pod", "worker", *options)
    try:
        yield
    finally:
        kubectl("delete", "pod", "worker", "--force", "--grace-period=0")
