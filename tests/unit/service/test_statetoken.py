"""The token that callers of ``/state`` show is its user's alone, and stays the same."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from headwater.privatefiles import read_secret, token_file
from headwater.service.statetoken import state_token

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _on_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def test_a_token_is_kept_in_a_file_that_others_cannot_read(tmp_path: Path) -> None:
    token = state_token(tmp_path, "w-0")
    path = token_file(tmp_path, "w-0")
    assert len(token) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret(path) == state_token(tmp_path, "w-0") == token
    assert state_token(tmp_path, "w-1") != token


def test_a_token_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    token = state_token(tmp_path, "w-0")
    token_file(tmp_path, "w-0").chmod(0o640)
    fresh = state_token(tmp_path, "w-0")
    assert fresh != token
    assert read_secret(token_file(tmp_path, "w-0")) == fresh


def test_without_a_place_for_it_nobody_knows_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(state_token(tmp_path / "none", "w-0")) >= 40
    token_file(tmp_path, "w-1").symlink_to(tmp_path / "elsewhere")
    assert len(state_token(tmp_path, "w-1")) >= 40
    assert not (tmp_path / "elsewhere").exists()
    assert "nobody can ask for /state of w-0" in caplog.text
    assert "nobody can ask for /state of w-1" in caplog.text


def test_in_a_pod_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert state_token(tmp_path, "w-0") == ""
    assert list(tmp_path.iterdir()) == []
