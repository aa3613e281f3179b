"""What a worker tells of mounted Secrets and ConfigMaps that spec.upgrade.rollOn names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.model.podcontract import ENV_ROLL_ON
from headwater.model.rollon import RollOn, RollOnKind, RollOnStatus
from headwater.service.changedfiles import LOOK_MS, ChangedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DB = RollOn(kind=RollOnKind.SECRET, name="db")
RATES = RollOn(kind=RollOnKind.CONFIG_MAP, name="rates")


class Kubelet:
    """Writes a volume as the kubelet does: a directory of its time, and links to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._writes = 0
        directory.mkdir()

    def write(self, files: Mapping[str, str]) -> None:
        self._writes += 1
        fresh = self.directory / f"..2026_01_01_00_00_00.{self._writes}"
        fresh.mkdir()
        for name, text in files.items():
            (fresh / name).write_text(text)
        link = self.directory / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.directory / "..data")
        for name in files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        for path in self.directory.iterdir():
            if not path.name.startswith("..") and path.name not in files:
                path.unlink()


class Looking:
    """Looks whenever a look is due."""

    def __init__(self, files: ChangedFiles) -> None:
        self._files = files
        self._now_ms = 0

    def look(self) -> list[RollOnStatus | None]:
        self._now_ms += LOOK_MS
        return [seen.roll_on for seen in self._files.look(self._now_ms)]


@pytest.fixture
def db(tmp_path: Path) -> Kubelet:
    kubelet = Kubelet(tmp_path / "db")
    kubelet.write({"password": "first", ".dockerconfigjson": "{}"})
    return kubelet


def looking(*kubelets: Kubelet) -> Looking:
    environment = {f"{ENV_ROLL_ON}{n}": str(each.directory) for n, each in enumerate(kubelets)}
    return Looking(ChangedFiles.of((DB, RATES), environment, "3f2a9c1b7e-1"))


def changed(*names: str) -> list[RollOnStatus | None]:
    return [RollOnStatus(revision="3f2a9c1b7e-1", changed=names)]


def missing(*names: str) -> list[RollOnStatus | None]:
    return [RollOnStatus(revision="3f2a9c1b7e-1", missing=names)]


@pytest.mark.parametrize(
    "files",
    [
        {"password": "other", ".dockerconfigjson": "{}"},
        {"password": "first", ".dockerconfigjson": "{} "},
        {"password": "first"},
        {"password": "first", ".dockerconfigjson": "{}", "more": ""},
        {"pass": "first", ".dockerconfigjson": "{}"},
    ],
)
def test_another_content_is_told_once_by_the_name_of_its_object(
    db: Kubelet, files: Mapping[str, str]
) -> None:
    worker = looking(db)
    assert worker.look() == []

    db.write(files)

    assert worker.look() == changed("Secret db")
    assert worker.look() == []


def test_the_same_content_written_again_is_no_change(db: Kubelet) -> None:
    worker = looking(db)

    db.write({"password": "first", ".dockerconfigjson": "{}"})

    assert worker.look() == []


def test_a_change_that_is_taken_back_is_none(db: Kubelet) -> None:
    worker = looking(db)
    db.write({"password": "other"})
    assert worker.look() == changed("Secret db")

    db.write({"password": "first", ".dockerconfigjson": "{}"})

    assert worker.look() == [None]


def test_what_is_deleted_is_missing_and_has_not_changed(db: Kubelet) -> None:
    worker = looking(db)

    db.write({})

    assert worker.look() == missing("Secret db")


def test_what_was_missing_when_the_process_began_has_changed_once_it_is_there(
    tmp_path: Path,
) -> None:
    rates = Kubelet(tmp_path / "rates")
    worker = looking(rates)
    assert worker.look() == missing("Secret db")

    rates.write({"eur": "1"})

    assert worker.look() == changed("Secret db")


def test_each_object_is_told_by_itself(db: Kubelet, tmp_path: Path) -> None:
    rates = Kubelet(tmp_path / "rates")
    rates.write({"eur": "1"})
    worker = looking(db, rates)

    rates.write({"eur": "2"})
    assert worker.look() == changed("ConfigMap rates")

    db.write({"password": "other"})
    assert worker.look() == changed("ConfigMap rates", "Secret db")


def test_a_status_tells_nothing_of_contents_and_two_processes_share_no_digest(db: Kubelet) -> None:
    environment = {f"{ENV_ROLL_ON}0": str(db.directory)}
    one, two = (ChangedFiles.of((DB,), environment, "r") for _ in range(2))

    assert one._first != two._first


def test_without_mounts_nothing_is_looked_at() -> None:
    assert Looking(ChangedFiles.of((DB,), {}, "r")).look() == []
    assert Looking(ChangedFiles.of((), {}, "r")).look() == []
