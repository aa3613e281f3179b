"""A worker's guard asks the API server for its keys, as the API server wants to be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.scripted_api import Answer, Asked, ScriptedApi
from tests.support.signed_tokens import ISSUER, OPERATOR, curve_key_set, signed
from tests.support.waiting import wait_for

from headwater.httpserver import Request
from headwater.model.streamapp_http import HttpAuthentication, Protected
from headwater.model.streamapp_kafka import SecretReference
from headwater.service.httpauth.guard import guard_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NEVER_S = 4_000_000_000
SECRET = SecretReference(name="callers")
KEYS = "/openid/v1/jwks"


def keys_of(asked: Asked) -> Answer:
    """What an API server answers: it sends its keys as what they are, or not at all."""
    kinds = {name.lower(): value for name, value in asked.headers.items()}
    if asked.path != KEYS or kinds["accept"] != "application/jwk-set+json":
        return Answer(code=406, body=b"406: Not Acceptable")
    return Answer(body=curve_key_set("curve"))


def head_of(token: bytes) -> bytes:
    return b"GET /tasks HTTP/1.1\r\nAuthorization: Bearer " + token


def test_the_keys_are_fetched_with_the_pods_own_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"exp": NEVER_S, "nbf": 0}
    operators = signed("curve", alg="ES256", **times)
    mine = signed("curve", alg="ES256", sub="system:serviceaccount:shop:worker", **times)
    with ScriptedApi(tmp_path, keys_of) as api:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", api.access.host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.access.port))
        (api.access.directory / "token").write_bytes(mine)
        guard = guard_of(
            HttpAuthentication(secret_ref=SECRET, protects=Protected.ALL),
            tmp_path / "none",
            operator=OPERATOR,
            namespace="shop",
            service_account=api.access.directory,
        )
        wait_for(
            lambda: guard(Request("/tasks"), head_of(operators)) is None,
            what=f"the keys of {ISSUER}",
        )

        refused = guard(Request("/tasks"), head_of(mine))

        assert refused is not None
        assert refused.status == 403
        assert {each.path for each in api.asked} == {KEYS}
        assert api.asked[0].headers["Authorization"] == f"Bearer {mine.decode()}"


def test_nobody_is_asked_where_the_state_alone_is_protected(tmp_path: Path) -> None:
    with ScriptedApi(tmp_path, keys_of) as api:
        guard = guard_of(
            HttpAuthentication(secret_ref=SECRET),
            tmp_path / "none",
            operator=OPERATOR,
            namespace="shop",
            service_account=api.access.directory,
        )

        assert guard(Request("/tasks"), head_of(b"")) is None
        refused = guard(Request("/state"), head_of(signed("curve", alg="ES256")))

        assert refused is not None
        assert refused.status == 401
        assert api.asked == []
