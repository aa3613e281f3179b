"""Programs of the system's packages: one that is missing is named with what brings it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import debian

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("program", debian.PROGRAMS, ids=lambda each: each.names[0])
def test_a_missing_program_is_named_with_its_package(
    program: debian.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(debian.ProgramMissingError, match=f"package {program.package} .make caches"):
        debian.find(program)


def test_a_program_is_found_under_its_other_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "chromium-browser"
    other.write_text("")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.find(debian.CHROMIUM) == other


def test_what_cannot_be_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.main() == 1
    assert "the browser Chromium is missing" in capsys.readouterr().err
