"""Kubeconfigs, and clients of the official library that are made from them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml
from kubernetes import client, config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.pki import KeyPair

_NAME = "headwater-test"


def kubeconfig(
    server: str, authority: Path, *, user: KeyPair | None = None, token: str | None = None
) -> dict[str, Any]:
    """The document by which a program reaches ``server`` as a user or as a token's owner."""
    credentials: dict[str, str] = {}
    if user is not None:
        credentials["client-certificate-data"] = _encoded(user.certificate)
        credentials["client-key-data"] = _encoded(user.key)
    if token is not None:
        credentials["token"] = token
    cluster = {"server": server, "certificate-authority-data": _encoded(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": credentials}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }


def write_kubeconfig(path: Path, document: dict[str, Any]) -> Path:
    """Write a kubeconfig that only we can read."""
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def client_for(path: Path) -> client.ApiClient:
    """A client for a kubeconfig; never through a proxy that the environment may name."""
    settings = client.Configuration()
    config.load_kube_config(str(path), client_configuration=settings, persist_config=False)
    settings.proxy = None
    return client.ApiClient(settings)


def client_with_token(like: client.ApiClient, token: str) -> client.ApiClient:
    """A client for the same API server that shows a bearer token and no certificate."""
    settings = client.Configuration()
    settings.host = like.configuration.host
    settings.ssl_ca_cert = like.configuration.ssl_ca_cert
    settings.api_key["authorization"] = f"Bearer {token}"
    settings.proxy = None
    return client.ApiClient(settings)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
