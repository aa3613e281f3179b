"""Which workers a local cluster had, for whoever takes an application over from outside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.decide.cluster import make_app

from headwater.cli.formerly import worker_ids
from headwater.errors import SpecError
from headwater.model.cluster import StreamWorker, WorkerSpec

if TYPE_CHECKING:
    from pathlib import Path


def leave(home: Path, name: str, slots: tuple[int, ...]) -> Path:
    file = home / "apps" / "wc" / "workers" / name / "spec.json"
    file.parent.mkdir(parents=True)
    worker = StreamWorker(name=name, spec=WorkerSpec(app="wc", slots=slots))
    file.write_text(json.dumps(worker.to_dict()))
    return file


def test_every_slot_of_every_worker_is_named(tmp_path: Path) -> None:
    leave(tmp_path, "wc-w-0", (0, 1))
    leave(tmp_path, "wc-w-1", (0,))

    found = worker_ids(tmp_path, make_app(applicationId="words"))

    assert found == ("words-wc-w-0-0", "words-wc-w-0-1", "words-wc-w-1-0")


def test_there_may_have_been_no_cluster(tmp_path: Path) -> None:
    assert worker_ids(tmp_path, make_app()) == ()


def test_the_guarantee_of_today_does_not_say_how_they_ran(tmp_path: Path) -> None:
    leave(tmp_path, "wc-w-0", (0,))

    found = worker_ids(tmp_path, make_app(processingGuarantee="at_least_once"))

    assert found == ("wc-wc-w-0-0",)


def test_a_damaged_file_is_not_passed_over(tmp_path: Path) -> None:
    leave(tmp_path, "wc-w-0", (0,)).write_text("{")

    with pytest.raises(SpecError, match="which workers there were"):
        worker_ids(tmp_path, make_app())
