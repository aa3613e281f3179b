"""Tokens of service accounts as the API server signs them: JSON Web Tokens (RFC 7519).

It signs with RSA (RS256) as a rule, and with the curve P-256 (ES256) where it was given such a key.

A signature is checked with the public key alone, so nothing here is secret, and nothing has to
take the same time for every input. A message padded for RSA is made anew and compared as a whole
(RFC 8017, section 8.2.2), so no parser reads what a forger may have written.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from headwater.service.httpauth import p256

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX: Final = bytes.fromhex("3031300d060960864801650304020105000420")
"""The DER of DigestInfo for SHA-256."""
_HALF: Final = 32
"""Bytes of each half of a signature by the curve (RFC 7518, section 3.4)."""
_LEAST_BITS: Final = 2_048
_MOST_BITS: Final = 8_192
_PARTS: Final = 3


class InvalidTokenError(Exception):
    """A token is not one that the API server has signed; the message says why."""


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A key for RS256: ``modulus`` and ``exponent``."""

    modulus: int
    exponent: int

    algorithm: ClassVar[str] = "RS256"

    def has_signed(self, signed: bytes, signature: bytes) -> bool:
        """Whether its owner has signed this."""
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != size or number >= self.modulus:
            return False
        found = pow(number, self.exponent, self.modulus).to_bytes(size, "big")
        digest = _PREFIX + hashlib.sha256(signed).digest()
        return found == b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest


@dataclass(frozen=True, slots=True)
class CurveKey:
    """A key for ES256: a point of the curve P-256."""

    x: int
    y: int

    algorithm: ClassVar[str] = "ES256"

    def has_signed(self, signed: bytes, signature: bytes) -> bool:
        """Whether its owner has signed this."""
        if len(signature) != 2 * _HALF:
            return False
        halves = signature[:_HALF], signature[_HALF:]
        r, s = (int.from_bytes(half, "big") for half in halves)
        digest = int.from_bytes(hashlib.sha256(signed).digest(), "big")
        return p256.is_signed(digest, r, s, self.x, self.y)


PublicKey: TypeAlias = RsaKey | CurveKey
_ALGORITHMS: Final = (RsaKey.algorithm, CurveKey.algorithm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says.

    Attributes:
        issuer: who has signed it.
        subject: whose it is: ``system:serviceaccount:<namespace>:<name>``.
        audiences: whom it is for.
        expires_s: it ends then, in seconds since the epoch.
        begins_s: it holds from then on.
    """

    issuer: str
    subject: str
    audiences: frozenset[str] = field(default_factory=frozenset)
    expires_s: float
    begins_s: float


def looks_like_one(token: bytes) -> bool:
    """Whether it is written as a JSON Web Token."""
    return token.startswith(b"eyJ") and token.count(b".") == _PARTS - 1


def key_id(token: bytes) -> str:
    """Return the id of the key that a token says it is signed with.

    Raises:
        InvalidTokenError: it is none, or is signed in a way that is not known here.
    """
    header = _object(token.split(b".")[0])
    if header.get("alg") not in _ALGORITHMS:
        raise InvalidTokenError(f"it is not signed with {' or '.join(_ALGORITHMS)}")
    return str(header.get("kid", ""))


def read(token: bytes) -> Claims:
    """Return what a token says, whoever may have signed it.

    Raises:
        InvalidTokenError: it is none.
    """
    parts = token.split(b".")
    if len(parts) != _PARTS:
        raise InvalidTokenError("it is no JSON Web Token")
    said = _object(parts[1])
    audience = said.get("aud", [])
    audiences = [audience] if isinstance(audience, str) else audience
    try:
        return Claims(
            issuer=str(said["iss"]),
            subject=str(said["sub"]),
            audiences=frozenset(map(str, audiences)),
            expires_s=float(said["exp"]),
            begins_s=float(said.get("nbf", said.get("iat", 0))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidTokenError(f"its claims cannot be read ({type(error).__name__})") from None


@lru_cache(maxsize=16)
def check_signature(token: bytes, key: PublicKey) -> None:
    """Make sure that the owner of a key has signed a token.

    Which tokens are right is remembered: the operator shows the same one for an hour.

    Raises:
        InvalidTokenError: he has not.
    """
    signed, _, written = token.rpartition(b".")
    if _object(token.split(b".")[0]).get("alg") != key.algorithm:
        raise InvalidTokenError("it is signed in another way than its key is made for")
    if not key.has_signed(signed, _bytes(written)):
        raise InvalidTokenError("its signature is wrong")


def public_keys(document: Mapping[str, Any]) -> dict[str, PublicKey]:
    """Return the usable keys of a JSON Web Key Set (RFC 7517) by their ids.

    Raises:
        InvalidTokenError: the set cannot be read.
    """
    found: dict[str, PublicKey] = {}
    try:
        for each in document["keys"]:
            key = _public_key(each) if each.get("use", "sig") == "sig" else None
            if key is not None:
                found[str(each.get("kid", ""))] = key
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidTokenError(f"no set of keys ({type(error).__name__})") from None
    return found


def _public_key(fields: Mapping[str, Any]) -> PublicKey | None:
    """Return a key; ``None`` for one of another kind or strength."""

    def number(name: str) -> int:
        return int.from_bytes(_bytes(fields[name].encode()), "big")

    if fields.get("kty") == "RSA":
        rsa = RsaKey(number("n"), number("e"))
        is_strong = _LEAST_BITS <= rsa.modulus.bit_length() <= _MOST_BITS and rsa.exponent > 1
        return rsa if is_strong else None
    if fields.get("kty") == "EC" and fields.get("crv") == "P-256":
        curve = CurveKey(number("x"), number("y"))
        return curve if p256.is_on_curve(curve.x, curve.y) else None
    return None


def _object(part: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(_bytes(part))
    except (ValueError, RecursionError):
        raise InvalidTokenError("it is no JSON Web Token") from None
    if not isinstance(found, dict):
        raise InvalidTokenError("it is no JSON Web Token")
    return found


def _bytes(part: bytes) -> bytes:
    try:
        return base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidTokenError("it is no JSON Web Token") from None
