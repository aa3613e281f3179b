"""Signatures by the curve P-256 (FIPS 186-5, section 6.4.2), checked with the public key alone.

Points are in Jacobian coordinates: a division costs as much as the rest of an addition together.
"""

from __future__ import annotations

from typing import Final, TypeAlias

P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""How many points there are."""
_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    1,
)
_BITS: Final = 256

Point: TypeAlias = tuple[int, int, int]
_NOWHERE: Final[Point] = (1, 1, 0)
"""The point at infinity."""


def is_on_curve(x: int, y: int) -> bool:
    """Whether a point is one of the curve."""
    return 0 <= x < P and 0 <= y < P and (y * y - (x * x - 3) * x - _B) % P == 0


def is_signed(digest: int, r: int, s: int, x: int, y: int) -> bool:
    """Whether the owner of a key has signed a digest.

    Args:
        digest: of 256 bits.
        r: the first half of the signature.
        s: the second.
        x: of the key, which is a point of the curve.
        y: of the key.
    """
    if not (0 < r < N and 0 < s < N):
        return False
    inverse = pow(s, -1, N)
    found = sum_of_multiples(digest * inverse % N, r * inverse % N, (x, y, 1))
    if not found[2]:
        return False
    return found[0] * pow(found[2], -2, P) % P % N == r


def sum_of_multiples(first: int, second: int, key: Point) -> Point:
    """Return ``first`` times the base point and ``second`` times a key."""
    chosen = (_NOWHERE, _G, key, _added(_G, key))
    found = _NOWHERE
    for bit in range(_BITS - 1, -1, -1):
        found = _doubled(found)
        which = first >> bit & 1 | (second >> bit & 1) << 1
        if which:
            found = _added(found, chosen[which])
    return found


def _doubled(point: Point) -> Point:
    x, y, z = point
    if not z:
        return _NOWHERE
    delta, gamma = z * z % P, y * y % P
    beta = x * gamma % P
    alpha = 3 * (x - delta) * (x + delta) % P
    new_x = (alpha * alpha - 8 * beta) % P
    new_y = (alpha * (4 * beta - new_x) - 8 * gamma * gamma) % P
    return new_x, new_y, 2 * y * z % P


def _added(one: Point, other: Point) -> Point:
    x, y, z = one
    u, v, w = other
    if not z:
        return other
    if not w:
        return one
    zz, ww = z * z % P, w * w % P
    left, right = x * ww % P, u * zz % P
    up, down = y * w * ww % P, v * z * zz % P
    if left == right:
        return _doubled(one) if up == down else _NOWHERE
    run, rise = (right - left) % P, (down - up) % P
    square = run * run % P
    cube, middle = run * square % P, left * square % P
    new_x = (rise * rise - cube - 2 * middle) % P
    new_y = (rise * (middle - new_x) - up * cube) % P
    return new_x, new_y, run * z * w % P
