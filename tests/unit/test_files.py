"""Small files are replaced as a whole, and nothing is left behind when that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_and_has_the_mode_that_was_asked_for(tmp_path: Path, sync: bool) -> None:
    file = tmp_path / "told"
    file.write_text("a longer text that was there before")

    replace_file(file, "né\n", mode=0o600, sync=sync)

    assert file.read_text(encoding="utf-8") == "né\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["told"]


def test_what_cannot_be_replaced_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()

    with pytest.raises(OSError, match="told"):
        replace_file(tmp_path / "told", "text")
    with pytest.raises(UnicodeEncodeError):
        replace_file(tmp_path / "other", "\udc80")

    assert [path.name for path in tmp_path.iterdir()] == ["told"]
