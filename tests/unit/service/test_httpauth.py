"""Who may ask a worker by HTTP: tokens of a Secret that is replaced, and of the operator."""

from __future__ import annotations

import json
import logging
import resource
import socket
import urllib.error
import urllib.request
from collections import Counter
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.signed_tokens import (
    AUDIENCE,
    ISSUER,
    NOW_S,
    OPERATOR,
    curve_key_set,
    curve_signature,
    key_set,
    signed,
)
from tests.support.views import worker_view
from tests.support.waiting import wait_for

from headwater.httpserver import Answer, HandOver, HttpServer, Request
from headwater.model.streamapp_http import Protected
from headwater.service.carrier import CarrierUnavailableError
from headwater.service.http import serve
from headwater.service.httpauth import jwt, p256
from headwater.service.httpauth.guard import Guard
from headwater.service.httpauth.judging import Known, Reason, digest, judge
from headwater.service.httpauth.keys import KeyRing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from headwater.service.httpauth.jwt import PublicKey

KEYS = jwt.public_keys(key_set("one"))
KNOWN = Known(
    secret="callers",
    accepted=(digest(b"now"), digest(b"former")),
    replaced=frozenset({digest(b"long ago")}),
    operator=OPERATOR,
    audience=AUDIENCE,
    issuer=ISSUER,
    keys=KEYS,
    protects=Protected.ALL,
)


def reason(shown: bytes, path: str = "/tasks", known: Known = KNOWN) -> Reason | None:
    refusal = judge(shown, path, known, NOW_S)
    return None if refusal is None else refusal.reason


# ---- decisions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/state", "/state/counts/keys/a", "/metrics", "/tasks", "/"])
def test_both_tokens_of_the_secret_open_everything(path: str) -> None:
    assert reason(b"now", path) is None
    assert reason(b"former", path) is None
    assert reason(b"", path) is Reason.MISSING
    assert reason(b"no", path) is Reason.WRONG
    assert reason(b"long ago", path) is Reason.EXPIRED


@pytest.mark.parametrize("protects", list(Protected))
def test_probes_are_answered_whoever_asks(protects: Protected) -> None:
    known = Known(secret="callers", protects=protects)
    assert [reason(b"", path, known) for path in ("/healthz", "/readyz")] == [None, None]
    assert reason(b"", "/state", known) is Reason.MISSING


def test_the_state_alone_is_protected_unless_all_is_asked_for() -> None:
    known = Known(secret="callers", accepted=(digest(b"now"),))
    assert [reason(b"", path, known) for path in ("/metrics", "/tasks")] == [None, None]
    assert reason(b"", "/state/counts", known) is Reason.MISSING
    assert reason(signed(), "/state/counts", known) is Reason.WRONG, "the operator may not ask"


def test_a_secret_without_a_token_lets_nobody_in() -> None:
    refusal = judge(b"anything", "/state", Known(secret="callers"), NOW_S)
    assert refusal is not None
    assert (refusal.reason, refusal.status) == (Reason.WRONG, HTTPStatus.UNAUTHORIZED)
    assert "put one under its key token" in refusal.message


def test_the_operator_may_ask_for_progress_and_not_for_state() -> None:
    assert reason(signed(), "/tasks") is None
    assert reason(signed(), "/metrics") is None
    refusal = judge(signed(), "/state", KNOWN, NOW_S)
    assert refusal is not None
    assert (refusal.reason, refusal.status) == (Reason.FORBIDDEN, HTTPStatus.FORBIDDEN)


@pytest.mark.parametrize(
    ("shown", "expected", "says"),
    [
        (signed(exp=NOW_S - 31), Reason.EXPIRED, "expired at 1970-01-12T13:46:09+00:00"),
        (signed(nbf=NOW_S + 31), Reason.WRONG, "does not hold yet"),
        (signed(aud=["https://kubernetes.default.svc"]), Reason.WRONG, f"audience {AUDIENCE}"),
        (signed(aud=None), Reason.WRONG, f"audience {AUDIENCE}"),
        (signed(aud=[f"{AUDIENCE}-2"]), Reason.WRONG, f"audience {AUDIENCE}"),
        (signed(aud=["headwater.dev/workers"]), Reason.WRONG, f"audience {AUDIENCE}"),
        (signed(iss="https://elsewhere"), Reason.WRONG, "issuer 'https://elsewhere'"),
        (signed(exp=None), Reason.WRONG, "claims cannot be read"),
        (signed(by="two"), Reason.WRONG, "signature is wrong"),
        (signed(alg="none"), Reason.WRONG, "not signed with RS256 or ES256"),
        (signed(alg="HS256"), Reason.WRONG, "not signed with RS256 or ES256"),
        (signed().rpartition(b".")[0] + b".", Reason.WRONG, "signature is wrong"),
        (signed()[:-1], Reason.WRONG, "no JSON Web Token"),
        (b"eyJ.eyJ.x", Reason.WRONG, "no JSON Web Token"),
        (signed("two"), Reason.UNKNOWN_KEY, "try again"),
        (signed(alg="ES256", by="curve"), Reason.WRONG, "in another way than its key"),
        (signed(sub="system:serviceaccount:shop:reader"), Reason.FORBIDDEN, "is not the operator"),
    ],
)
def test_a_signed_token_that_is_not_the_operators_is_refused(
    shown: bytes, expected: Reason, says: str
) -> None:
    refusal = judge(shown, "/tasks", KNOWN, NOW_S)
    assert refusal is not None
    assert refusal.reason is expected
    assert says in refusal.message
    assert shown.decode() not in refusal.message


def test_claims_that_were_changed_do_not_fit_the_signature() -> None:
    head, _, rest = signed().partition(b".")
    claims = signed(sub="system:serviceaccount:shop:mallory").split(b".")[1]
    changed = head + b"." + claims + b"." + rest.partition(b".")[2]
    assert reason(changed) is Reason.WRONG


def test_clocks_may_differ_by_half_a_minute() -> None:
    assert reason(signed(exp=NOW_S - 29, nbf=NOW_S - 4_000)) is None
    assert reason(signed(nbf=NOW_S + 29)) is None


def test_a_key_that_the_api_server_does_not_have_is_wrong_and_not_waited_for() -> None:
    known = Known(
        secret="callers",
        operator=OPERATOR,
        audience=AUDIENCE,
        is_fresh=True,
        protects=Protected.ALL,
    )
    refusal = judge(signed("two"), "/tasks", known, NOW_S)
    assert refusal is not None
    assert (refusal.reason, refusal.is_passing) == (Reason.WRONG, False)


def test_keys_of_other_kinds_and_short_ones_are_passed_over() -> None:
    found = key_set("one")
    found["keys"] += [{"kty": "OKP", "kid": "o"}, {**found["keys"][0], "use": "enc", "kid": "x"}]
    [curve] = curve_key_set("curve")["keys"]
    found["keys"] += [{**curve, "crv": "P-384"}, {**curve, "y": curve["x"]}, {**curve, "x": "AA"}]
    found["keys"].append({**found["keys"][0], "n": "AQAB", "kid": "short"})
    assert jwt.public_keys(found) == KEYS
    for broken in ({}, {"keys": [1]}, {"keys": [{"kty": "RSA"}]}):
        with pytest.raises(jwt.InvalidTokenError):
            jwt.public_keys(broken)


CURVE = Known(
    secret="callers",
    operator=OPERATOR,
    audience=AUDIENCE,
    issuer=ISSUER,
    keys=jwt.public_keys(curve_key_set("curve", "other")),
    protects=Protected.ALL,
)


def test_an_api_server_may_have_a_key_of_the_curve() -> None:
    token = signed("curve", alg="ES256")
    assert reason(token, known=CURVE) is None
    assert reason(signed("curve", alg="ES256", by="other"), known=CURVE) is Reason.WRONG
    assert reason(token[:-4], known=CURVE) is Reason.WRONG, "a signature that is too short"
    assert reason(signed("curve"), known=CURVE) is Reason.WRONG, "RS256 by a key of another kind"
    assert reason(signed("curve", alg="ES256", exp=NOW_S - 31), known=CURVE) is Reason.EXPIRED


@pytest.mark.parametrize("number", range(20))
def test_signatures_by_the_curve_are_those_of_the_library(number: int) -> None:
    name, message = f"key-{number}", f"message {number}".encode()
    [key] = jwt.public_keys(curve_key_set(name)).values()
    assert isinstance(key, jwt.CurveKey)
    signature = curve_signature(name, message)

    assert key.has_signed(message, signature)
    assert not key.has_signed(message + b".", signature)
    for at in (0, 31, 32, 63):
        changed = bytearray(signature)
        changed[at] ^= 1
        assert not key.has_signed(message, bytes(changed))
    zero, order = bytes(32), p256.N.to_bytes(32, "big")
    r, s = signature[:32], signature[32:]
    for half in (zero, order, b"\xff" * 32):
        assert not key.has_signed(message, half + s)
        assert not key.has_signed(message, r + half)
        assert not key.has_signed(message, half + half)
    again = (p256.N - int.from_bytes(s, "big")).to_bytes(32, "big")
    assert key.has_signed(message, r + again), "as the standard has it"


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, p256.N - 2), (p256.N, 5), (3, 0)])
def test_points_are_added_where_they_are_the_same_or_cancel_out(first: int, second: int) -> None:
    # The base point as the key: the sum is a multiple of it.
    base = ec.derive_private_key(1, ec.SECP256R1()).public_key().public_numbers()
    found = p256.sum_of_multiples(first, second, (base.x, base.y, 1))
    times = (first + second) % p256.N
    if not times:
        assert found[2] == 0
        return
    expected = ec.derive_private_key(times, ec.SECP256R1()).public_key().public_numbers()
    assert found[0] * pow(found[2], -2, p256.P) % p256.P == expected.x
    assert found[1] * pow(found[2], -3, p256.P) % p256.P == expected.y


# ---- the API server's keys -----------------------------------------------------------------------


def test_keys_are_read_again_when_asked_and_after_a_failure() -> None:
    answers: list[dict[str, Any]] = [{}, key_set("one"), key_set("two")]

    def fetch() -> Mapping[str, Any]:
        if not answers:
            raise CarrierUnavailableError("the API server is away")
        return answers.pop(0)

    ring = KeyRing(fetch, lambda: signed().decode(), pause_s=0.01)
    try:
        wait_for(lambda: set(ring.known) == {"one"}, what="the first keys")
        assert ring.issuer == ISSUER
        ring.ask()
        wait_for(lambda: set(ring.known) == {"two"}, what="the keys that follow")
        ring.ask()
        wait_for(lambda: not answers, what="a question that fails")
        assert set(ring.known) == {"two"}, "what is known is kept while the API server is away"
    finally:
        ring.close()


# ---- over HTTP -----------------------------------------------------------------------------------


class Heard:
    """Keys at hand, and how often they were asked for again."""

    def __init__(self) -> None:
        self.issuer = ISSUER
        self.known: Mapping[str, PublicKey] = KEYS
        self.read_at = float("-inf")
        self.asked = 0

    def ask(self) -> None:
        self.asked += 1


class Place:
    """A worker's HTTP service with the files of a Secret and two clocks."""

    def __init__(self, directory: Path, protects: Protected) -> None:
        self.directory = directory
        self.now_s = NOW_S
        self.steady_s = 0.0
        self.keys = Heard()
        self.write(token="first")
        known = Known(secret="callers", operator=OPERATOR, audience=AUDIENCE, protects=protects)
        self.guard = Guard(
            known, directory, self.keys, clock=lambda: self.now_s, steady=lambda: self.steady_s
        )

    def write(self, **files: str) -> None:
        """Replace the Secret, as the kubelet does: files that are not named go."""
        wanted = {name.replace("_", "-"): text for name, text in files.items()}
        for path in self.directory.iterdir():
            if path.name not in wanted:
                path.unlink()
        for name, text in wanted.items():
            fresh = self.directory / f".{name}"
            fresh.write_text(text)
            fresh.rename(self.directory / name)

    def later(self) -> None:
        """Let as much time pass as it takes until files are looked at again."""
        self.steady_s += 1.0

    def ask(self, path: str, token: str = "", **headers: str) -> tuple[int, str, str]:
        """Return status, body and the header WWW-Authenticate."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                return answer.status, answer.read().decode(), ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.headers["WWW-Authenticate"] or ""

    @contextmanager
    def served(self) -> Iterator[Place]:
        passed_on = HttpServer(None, 0, {})

        def take(caller: socket.socket, _: str, request: Request) -> bool:
            passed_on.adopt(caller.dup(), Answer.text(f"state {request.path}"))
            return True

        server = serve(
            "127.0.0.1",
            0,
            worker_view,
            lambda: worker_view().at_ms,
            queries=HandOver("/state", take),
            guard=self.guard,
        )
        self.port = server.port
        try:
            yield self
        finally:
            server.close()
            passed_on.close()


@pytest.fixture
def everything(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path, Protected.ALL).served() as place:
        yield place


@pytest.fixture
def state_only(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path, Protected.STATE).served() as place:
        yield place


def test_state_is_handed_over_to_callers_with_the_token_alone(state_only: Place) -> None:
    status, body, how = state_only.ask("/state/counts/keys/a")
    assert (status, how) == (401, 'Bearer realm="headwater"')
    assert json.loads(body)["error"] == "UNAUTHORIZED"
    assert "the key token of the Secret callers" in json.loads(body)["message"]

    status, body, how = state_only.ask("/state/counts/keys/a", "firstx")
    assert (status, how) == (401, 'Bearer realm="headwater", error="invalid_token"')
    assert "this token is wrong" in body
    assert "firstx" not in body

    assert state_only.ask("/state/counts/keys/a", "first")[:2] == (
        200,
        "state /state/counts/keys/a\n",
    )
    assert state_only.ask("/state", **{"Headwater-Token": "first"})[0] == 200, "by the API server"
    for path in ("/metrics", "/tasks", "/healthz", "/readyz"):
        assert state_only.ask(path)[0] == 200
    assert +Counter(state_only.guard.counts()) == {"missing": 1, "wrong": 1}


@pytest.mark.parametrize("path", ["//state", "/%73tate", "/state%2fx", "/./state", "/STATE"])
def test_no_other_spelling_of_a_path_gets_to_the_state(state_only: Place, path: str) -> None:
    assert "state /" not in state_only.ask(path)[1]


def test_a_token_is_replaced_without_another_process(everything: Place) -> None:
    everything.write(token="second", token_previous="first")
    everything.later()
    assert everything.ask("/metrics", "second")[0] == 200
    assert everything.ask("/metrics", "first")[0] == 200, "the former one holds meanwhile"

    everything.write(token="second")
    everything.later()
    assert everything.ask("/metrics", "second")[0] == 200
    status, body, _ = everything.ask("/metrics", "first")
    assert status == 401
    assert "this token was replaced and has expired: read the key token of the Secret" in body
    assert +Counter(everything.guard.counts()) == {"expired": 1}

    everything.write(token="first")
    everything.later()
    assert everything.ask("/metrics", "first")[0] == 200, "it may come back"
    assert everything.ask("/metrics", "second")[0] == 401


def test_every_reason_is_counted_from_0_on(everything: Place) -> None:
    assert everything.guard.counts() == {each.value: 0 for each in Reason}


def test_files_are_looked_at_once_a_second_at_most(everything: Place) -> None:
    everything.write(token="second")
    assert everything.ask("/tasks", "first")[0] == 200
    everything.later()
    assert everything.ask("/tasks", "first")[0] == 401


def test_a_secret_that_is_emptied_closes_the_door(
    everything: Place, caplog: pytest.LogCaptureFixture
) -> None:
    everything.write(token="  \n")
    everything.later()
    with caplog.at_level(logging.WARNING):
        assert everything.ask("/tasks", "other")[0] == 401
    assert "the Secret callers holds no token" in caplog.text
    assert everything.ask("/healthz")[0] == 200


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    """Take every further file from this process: ``open`` fails with EMFILE, ``stat`` does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_that_cannot_be_read_once_locks_nobody_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path, Protected.ALL)

    def is_let_in(token: str) -> bool:
        place.later()
        head = f"GET /tasks HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        return place.guard(Request("/tasks"), head.encode()) is None

    place.write(token="second")
    with caplog.at_level(logging.WARNING), no_file_can_be_opened():
        assert is_let_in("first"), "what was known counts meanwhile"
        assert is_let_in("first")
    assert caplog.text.count("the Secret callers cannot be read, and will be tried again") == 1

    assert is_let_in("second"), "the files are read though they have not changed since"
    assert not is_let_in("first")

    place.write(token_previous="second")
    assert is_let_in("second"), "a file that is gone is none that cannot be read"


def test_how_many_tokens_are_accepted_stands_in_the_log(
    everything: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for files in ({"token": "second", "token_previous": "first"}, {"token": "second"}):
            everything.write(**files)
            everything.later()
            assert everything.ask("/tasks", "second")[0] == 200
    told = [each.message for each in caplog.records if "show other tokens" in each.message]
    assert [each.rpartition(": ")[2] for each in told] == ["2 accepted", "1 accepted"]


def test_the_operators_token_expires_and_is_renewed(everything: Place) -> None:
    token = signed().decode()
    assert everything.ask("/tasks", token)[0] == 200
    status, body, _ = everything.ask("/state", token)
    assert status == 403
    assert "may ask for /metrics and /tasks only" in body

    everything.now_s += 3_600 + 31
    status, body, how = everything.ask("/tasks", token)
    assert (status, "invalid_token" in how) == (401, True)
    assert "expired at" in body
    assert everything.ask("/tasks", signed(exp=NOW_S + 9_000).decode())[0] == 200
    assert +Counter(everything.guard.counts()) == {"forbidden": 1, "expired": 1}


def test_a_new_key_of_the_api_server_is_asked_for(everything: Place) -> None:
    status, body, _ = everything.ask("/tasks", signed("two").decode())
    assert (status, everything.keys.asked) == (503, 1)
    assert "try again" in body
    everything.keys.known = jwt.public_keys(key_set("two"))
    assert everything.ask("/tasks", signed("two").decode())[0] == 200
    everything.keys.read_at = everything.steady_s
    assert everything.ask("/tasks", signed("one").decode())[0] == 401, "it has given this one up"
    assert everything.keys.asked == 1


def test_tokens_are_in_no_log(everything: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        everything.write(token="second", token_previous="first")
        everything.later()
        for token in ("second", "first", "wrong-one", signed("two").decode()):
            everything.ask("/tasks", token)
    told = caplog.text
    assert "show other tokens from now on" in told
    assert not [each for each in ("second", "wrong-one", "eyJ") if each in told]


def test_a_guard_that_breaks_lets_nobody_in() -> None:
    def broken(_: object, __: bytes) -> Answer | None:
        raise LookupError("planted")

    server = HttpServer("127.0.0.1", 0, {"/tasks": lambda _: Answer.text("secret")}, guard=broken)
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as caller:
            caller.sendall(b"GET /tasks HTTP/1.1\r\n\r\n")
            answer = b"".join(iter(lambda: caller.recv(4_096), b""))
    finally:
        server.close()
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in answer
