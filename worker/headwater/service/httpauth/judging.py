"""Whether a caller may have what it asks for. Pure: no clock, no file, no network.

Tokens are kept as digests, which take the same time to compare whatever was shown.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from headwater.model.podcontract import TOKEN_FILE, TOKEN_HEADER
from headwater.model.streamapp_http import Protected
from headwater.service.httpauth import jwt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.service.httpauth.jwt import Claims, PublicKey

PROBES: Final = ("/healthz", "/readyz")
STATE_PREFIX: Final = "/state"
FOR_OPERATOR: Final = ("/metrics", "/tasks")
"""What the operator may ask for; it has nothing to do with what stores hold."""
_SKEW_S: Final = 30.0
"""Clocks of two nodes may differ by so much."""


class Reason(StrEnum):
    """Why a caller is refused, as the label of a metric."""

    MISSING = "missing"
    WRONG = "wrong"
    EXPIRED = "expired"
    FORBIDDEN = "forbidden"
    UNKNOWN_KEY = "unknown_key"


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a refused caller is told.

    Attributes:
        reason: for the metric.
        message: for the caller, with the next step.
        is_passing: whether the same token may soon be accepted.
    """

    reason: Reason
    message: str
    is_passing: bool = False

    @property
    def status(self) -> HTTPStatus:
        """The status of the answer."""
        if self.is_passing:
            return HTTPStatus.SERVICE_UNAVAILABLE
        is_known = self.reason is Reason.FORBIDDEN
        return HTTPStatus.FORBIDDEN if is_known else HTTPStatus.UNAUTHORIZED


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of tokens.

    Attributes:
        secret: the Secret's name, for messages.
        accepted: digests of the tokens that it holds.
        replaced: digests of tokens that it has held before.
        operator: the user name of the operator's tokens; empty if it may not ask.
        audience: whom such a token has to be for.
        issuer: who signs tokens of service accounts.
        keys: the issuer's public keys by id.
        is_fresh: whether these are all that it has now.
        protects: what is answered to callers with a token alone.
    """

    secret: str
    accepted: tuple[bytes, ...] = ()
    replaced: frozenset[bytes] = frozenset()
    operator: str = ""
    audience: str = ""
    issuer: str = ""
    keys: Mapping[str, PublicKey] = field(default_factory=dict)
    is_fresh: bool = False
    protects: Protected = Protected.STATE


def digest(token: bytes) -> bytes:
    """Return what is kept of a token."""
    return hashlib.sha256(token).digest()


def is_protected(path: str, protects: Protected) -> bool:
    """Whether a path asks for a token."""
    if path in PROBES:
        return False
    return protects is Protected.ALL or path.startswith(STATE_PREFIX)


def judge(shown: bytes, path: str, known: Known, now_s: float) -> Refusal | None:
    """Return why a caller may not have what it asks for; ``None`` if it may.

    Args:
        shown: its token; empty if it has shown none.
        path: what it asks for.
        known: of tokens.
        now_s: seconds since the epoch.
    """
    if not is_protected(path, known.protects):
        return None
    if not shown:
        return Refusal(
            Reason.MISSING,
            f"{path} is for callers with a token: send the header 'Authorization: Bearer TOKEN', "
            f"or '{TOKEN_HEADER}: TOKEN' through the API server, with what the key {TOKEN_FILE} "
            f"of the Secret {known.secret} holds",
        )
    mine = digest(shown)
    # No early end: how long it takes says nothing of which token it is.
    if sum(hmac.compare_digest(mine, each) for each in known.accepted):
        return None
    if known.operator and jwt.looks_like_one(shown):
        return _judge_signed(shown, path, known, now_s)
    return _not_in_secret(mine, known)


def _not_in_secret(mine: bytes, known: Known) -> Refusal:
    """Return why a token that the Secret does not hold is refused."""
    if mine in known.replaced:
        return Refusal(
            Reason.EXPIRED,
            f"this token was replaced and has expired: read the key {TOKEN_FILE} of the Secret "
            f"{known.secret} again",
        )
    if not known.accepted:
        return Refusal(
            Reason.WRONG,
            f"the Secret {known.secret} holds no token, so nobody is let in: put one under its "
            f"key {TOKEN_FILE}",
        )
    return Refusal(
        Reason.WRONG,
        f"this token is wrong: send what the key {TOKEN_FILE} of the Secret {known.secret} holds; "
        "a new one reaches a pod up to two minutes late",
    )


def _judge_signed(shown: bytes, path: str, known: Known, now_s: float) -> Refusal | None:
    """Judge a token of a service account."""
    try:
        key = known.keys.get(jwt.key_id(shown))
        if key is None and known.is_fresh:
            text = "this token is wrong: the API server has no key that it is signed with"
            return Refusal(Reason.WRONG, f"{text}; show one that it has signed")
        if key is None:
            return Refusal(
                Reason.UNKNOWN_KEY,
                "the key that this token is signed with is not known here yet: the API server is "
                "asked for its keys; try again",
                is_passing=True,
            )
        jwt.check_signature(shown, key)
        claims = jwt.read(shown)
    except jwt.InvalidTokenError as error:
        text = f"this token is wrong: {error}; show one that the API server has signed"
        return Refusal(Reason.WRONG, text)
    return _judge_claims(claims, path, known, now_s)


def _judge_claims(claims: Claims, path: str, known: Known, now_s: float) -> Refusal | None:
    wrong = _wrong_about(claims, known, now_s)
    if wrong:
        return Refusal(Reason.WRONG, f"this token {wrong}")
    if claims.expires_s + _SKEW_S < now_s:
        at = datetime.fromtimestamp(claims.expires_s, UTC).isoformat(timespec="seconds")
        return Refusal(
            Reason.EXPIRED,
            f"this token expired at {at}: read the file that the kubelet renews, or ask for "
            "another one",
        )
    use = f"use the token of the Secret {known.secret}"
    if claims.subject != known.operator:
        text = f"{claims.subject!r:.200} is not the operator of this worker, {known.operator}"
        return Refusal(Reason.FORBIDDEN, f"{text}: {use}")
    if path not in FOR_OPERATOR:
        text = f"the operator may ask for {' and '.join(FOR_OPERATOR)} only"
        return Refusal(Reason.FORBIDDEN, f"{text}: {use}")
    return None


def _wrong_about(claims: Claims, known: Known, now_s: float) -> str:
    """Return what is wrong about a token that the API server has signed; empty if nothing is."""
    if claims.issuer != known.issuer:
        return (
            f"is of the issuer {claims.issuer!r:.200}, and not of this cluster's: ask this cluster "
            "for one"
        )
    if known.audience not in claims.audiences:
        return f"is not for the audience {known.audience}: ask for one that is"
    if claims.begins_s - _SKEW_S > now_s:
        return "does not hold yet: compare the nodes' clocks"
    return ""
