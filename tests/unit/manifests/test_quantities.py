"""Quantities of Kubernetes as numbers."""

from __future__ import annotations

import pytest

from headwater_operator.manifests.storage import bytes_of


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        (7, 7),
        ("7", 7),
        ("10Gi", 10 << 30),
        ("10G", 10**10),
        ("1.5Ti", 3 << 39),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("2500m", 3),
        ("1k", 1000),
        ("1Ki", 1024),
    ],
)
def test_a_quantity_is_so_many_bytes(quantity: str | int, number: int) -> None:
    assert bytes_of(quantity) == number
