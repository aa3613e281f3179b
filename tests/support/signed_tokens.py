"""Tokens as an API server signs them, made by a key of a test's own."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

ISSUER = "https://kubernetes.default.svc"
OPERATOR = "system:serviceaccount:headwater-system:headwater-operator-caller"
AUDIENCE = "headwater.dev/workers/shop"
NOW_S = 1_000_000.0


@cache
def key(name: str = "one") -> RSAPrivateKey:
    """A private key; another one by another name."""
    assert name
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


@cache
def curve_key(name: str) -> EllipticCurvePrivateKey:
    """A private key of the curve P-256; another one by another name."""
    assert name
    return ec.generate_private_key(ec.SECP256R1())


def curve_key_set(*names: str) -> dict[str, Any]:
    """What the API server answers if it has keys of the curve."""
    keys = []
    for name in names:
        numbers = curve_key(name).public_key().public_numbers()
        x, y = (_text(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
        keys.append({"kty": "EC", "crv": "P-256", "kid": name, "x": x, "y": y, "use": "sig"})
    return {"keys": keys}


def curve_signature(name: str, message: bytes) -> bytes:
    """A signature by the curve as a JSON Web Token has it."""
    halves = decode_dss_signature(curve_key(name).sign(message, ec.ECDSA(hashes.SHA256())))
    return b"".join(half.to_bytes(32, "big") for half in halves)


def key_set(*names: str) -> dict[str, Any]:
    """What the API server answers at ``/openid/v1/jwks``."""
    keys = []
    for name in names:
        numbers = key(name).public_key().public_numbers()
        modulus = numbers.n.to_bytes(256, "big")
        fields = {"n": _text(modulus), "e": _text(b"\1\0\1"), "kid": name, "kty": "RSA"}
        keys.append({**fields, "alg": "RS256", "use": "sig"})
    return {"keys": keys}


def signed(name: str = "one", *, alg: str = "RS256", by: str = "", **claims: Any) -> bytes:
    """A token of the operator, unless claims say otherwise.

    Args:
        name: of the key that it says it is signed with.
        alg: how it says it is signed.
        by: the key that it is signed with, if it is another one.
        claims: ``None`` leaves one out.
    """
    said = {
        "iss": ISSUER,
        "sub": OPERATOR,
        "aud": [AUDIENCE],
        "exp": int(NOW_S) + 3_600,
        "nbf": int(NOW_S) - 10,
        **claims,
    }
    said = {claim: value for claim, value in said.items() if value is not None}
    parts = [{"alg": alg, "kid": name}, said]
    head = ".".join(_text(json.dumps(part).encode()) for part in parts).encode()
    if alg == "ES256":
        signature = curve_signature(by or name, head)
    else:
        signature = key(by or name).sign(head, padding.PKCS1v15(), hashes.SHA256())
    return head + b"." + _text(signature).encode()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
