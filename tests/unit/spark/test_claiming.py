"""A state directory of Spark's belongs to one application; an empty file is no claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.errors import ConfigError
from headwater.spark.turns.claiming import TASKS, claim

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_is_its_first_applications(tmp_path: Path) -> None:
    for _ in range(2):
        claim(tmp_path / "state", "orders")

    assert (tmp_path / "state" / "application").read_text() == "orders\n"
    with pytest.raises(ConfigError, match="stores of orders, not of others; give each"):
        claim(tmp_path / "state", "others")


@pytest.mark.parametrize("left", [b"", b"\n", b"\0" * 7, None])
def test_what_a_full_disk_has_left_of_the_name_is_written_anew(
    tmp_path: Path, left: bytes | None
) -> None:
    store = tmp_path / TASKS / "0_0" / "0" / "orders"
    store.mkdir(parents=True)
    (store.parent / "lock").touch()
    if left is not None:
        (tmp_path / "application").write_bytes(left)

    with pytest.raises(ConfigError, match="stores of orders, not of others"):
        claim(tmp_path, "others")
    claim(tmp_path, "orders")

    assert (tmp_path / "application").read_text() == "orders\n"
