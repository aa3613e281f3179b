"""Murmur3 with 128 bits in plain Python: what the library that joins use is compared with."""

from __future__ import annotations

from typing import Final

_SEED: Final = 104_729
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_FIRST: Final = 0x87C3_7B91_1142_53D5
_SECOND: Final = 0x4CF5_AD43_2745_937F
_FIRST_ADDED: Final = 0x52DC_E729
_SECOND_ADDED: Final = 0x3849_5AB5
_FINAL_FIRST: Final = 0xFF51_AFD7_ED55_8CCD
_FINAL_SECOND: Final = 0xC4CE_B9FE_1A85_EC53


def murmur3_128(data: bytes) -> bytes:
    """Return the 128-bit murmur3 hash of ``data``, step by step as Kafka's ``Murmur3.hash128``."""
    first = second = _SEED
    length = len(data)
    whole = length & ~15
    read = int.from_bytes
    for at in range(0, whole, 16):
        block = read(data[at : at + 8], "little") * _FIRST & _MASK
        first ^= (block << 31 | block >> 33) * _SECOND & _MASK
        first = ((first << 27 | first >> 37) + second) * 5 + _FIRST_ADDED & _MASK
        block = read(data[at + 8 : at + 16], "little") * _SECOND & _MASK
        second ^= (block << 33 | block >> 31) * _FIRST & _MASK
        second = ((second << 31 | second >> 33) + first) * 5 + _SECOND_ADDED & _MASK
    if length > whole:
        if length > whole + 8:
            block = read(data[whole + 8 :], "little") * _SECOND & _MASK
            second ^= (block << 33 | block >> 31) * _FIRST & _MASK
        block = read(data[whole : whole + 8], "little") * _FIRST & _MASK
        first ^= (block << 31 | block >> 33) * _SECOND & _MASK
    first ^= length
    second ^= length
    first = first + second & _MASK
    second = second + first & _MASK
    first, second = _mixed(first), _mixed(second)
    first = first + second & _MASK
    return (first << 64 | (second + first & _MASK)).to_bytes(16)


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * _FINAL_FIRST & _MASK
    value = (value ^ value >> 33) * _FINAL_SECOND & _MASK
    return value ^ value >> 33
