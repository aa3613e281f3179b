"""Tokens for callers of workers and a real API server: its keys, its tokens, its proxy to pods."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from headwater.httpserver import Answer, HttpServer
from headwater.model.podcontract import OPERATOR_AUDIENCE, TOKEN_HEADER
from headwater.model.streamapp_http import HttpAuthentication, Protected
from headwater.model.streamapp_kafka import SecretReference
from headwater.service.httpauth.guard import guard_of
from headwater.service.httpauth.judging import Known, Reason, judge
from headwater.service.httpauth.keys import KIND, PATH, KeyRing
from headwater.service.kube.client import Access, KubeClient
from headwater_operator.kube.client import KubeClient as UsersClient
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.control_plane import ControlPlane
    from tests.kube.fixtures import Command

pytestmark = pytest.mark.kube

MOST_S = 3_600 + 31
"""After so long, and what clocks may differ by, no token of the test holds."""


def test_the_operators_token_is_known_by_the_keys_of_the_api_server(
    control_plane: ControlPlane, namespace: str, kubectl: Command, tmp_path: Path
) -> None:
    access = in_a_pod(control_plane, kubectl, tmp_path)
    client = KubeClient(access, timeout_s=30)
    ring = KeyRing(lambda: client.get(PATH, "its keys", KIND), access.token)
    try:
        wait_for(lambda: ring.known, what="the keys, by the rights of any service account")
    finally:
        ring.close()
        client.drop()
    operator = f"system:serviceaccount:{namespace}:default"
    known = Known(
        secret="callers",
        operator=operator,
        issuer=ring.issuer,
        keys=ring.known,
        protects=Protected.ALL,
    )

    def reason(*options: str, after_s: float = 0, known: Known = known) -> Reason | None:
        token = kubectl("create", "token", "default", *options).strip().encode()
        refusal = judge(token, "/tasks", known, time.time() + after_s)
        return None if refusal is None else refusal.reason

    mine = f"--audience={OPERATOR_AUDIENCE}"
    assert reason(mine) is None
    assert reason(mine, after_s=MOST_S) is Reason.EXPIRED
    assert reason() is Reason.WRONG, "a token for the API server"
    kubectl("create", "serviceaccount", "other")
    token = kubectl("create", "token", "other", mine).strip().encode()
    refusal = judge(token, "/tasks", known, time.time())
    assert refusal is not None
    assert refusal.reason is Reason.FORBIDDEN


def test_a_token_gets_through_the_api_servers_proxy_by_its_own_header_alone(
    kubeconfig: Path, namespace: str, kubectl: Command, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("s3cret")
    asked = HttpAuthentication(secret_ref=SecretReference(name="callers"))
    guard = guard_of(asked, tmp_path, operator="", service_account=tmp_path)
    client = UsersClient.from_environment(kubeconfig)
    routes = {"/state": lambda _: Answer.text("all of it")}
    address = own_address()
    server = HttpServer(address, 0, routes, guard=guard)
    try:
        with pod_at(kubectl, address):
            at = namespace, "worker", server.port, "/state"
            assert client.ask_pod(*at)[0] == HTTPStatus.UNAUTHORIZED
            assert client.ask_pod(*at, headers={TOKEN_HEADER: "wrong"})[0] == 401
            assert client.ask_pod(*at, headers={TOKEN_HEADER: "s3cret"}) == (200, b"all of it\n")
        assert guard.counts() == {"missing": 1, "wrong": 1}
    finally:
        server.close()
        client.close()


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
    """An address of this machine to which the API server's proxy goes: not that of loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no address but those of loopback")
        return str(probe.getsockname()[0])


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
