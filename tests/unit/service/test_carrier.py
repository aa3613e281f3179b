"""The file carrier: what a control loop on this machine and a worker read of each other."""

import json
from pathlib import Path

import pytest

from headwater.errors import InstanceRunningError
from headwater.ids import TaskId
from headwater.model.cluster import Lease, StreamWorker, WorkerSpec, WorkerStatus
from headwater.service.carrier import (
    CarrierUnavailableError,
    FileCarrier,
    MemoryCarrier,
    replace_json,
)


def write_spec(directory: Path, spec: WorkerSpec) -> None:
    replace_json(directory / "spec.json", StreamWorker(name="w-0", spec=spec).to_dict())


def test_a_worker_without_a_spec_reads_none(tmp_path: Path) -> None:
    assert FileCarrier(tmp_path, "w-0").read() is None


def test_the_spec_that_the_control_loop_wrote_is_read_back(tmp_path: Path) -> None:
    spec = WorkerSpec(
        app="orders", epoch=7, incarnation="abc", active=(TaskId(0, 1),), slots=(0, 1)
    )
    write_spec(tmp_path, spec)

    assert FileCarrier(tmp_path, "w-0").read() == spec


def test_a_replaced_spec_is_noticed_once(tmp_path: Path) -> None:
    carrier = FileCarrier(tmp_path, "w-0")
    write_spec(tmp_path, WorkerSpec(app="orders", epoch=1))
    assert carrier.has_changed()

    carrier.read()
    assert not carrier.has_changed()

    write_spec(tmp_path, WorkerSpec(app="orders", epoch=2))
    assert carrier.has_changed()


@pytest.mark.parametrize("text", ["{", '{"kind": "Pod"}', "[]"])
def test_a_damaged_spec_means_wait_not_an_empty_assignment(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.json").write_text(text)

    with pytest.raises(CarrierUnavailableError, match=r"spec\.json"):
        FileCarrier(tmp_path, "w-0").read()


def test_status_and_lease_are_read_back_by_the_shared_codecs(tmp_path: Path) -> None:
    carrier = FileCarrier(tmp_path, "w-0")
    status = WorkerStatus(incarnation="abc", acknowledged_epoch=4)
    lease = Lease(worker="w-0", holder="abc", renewals=9)

    carrier.write_status(status)
    carrier.renew(lease)

    read = json.loads((tmp_path / "status.json").read_text())
    assert StreamWorker.from_dict({**read, "spec": {"app": "orders"}}).status == status
    assert Lease.from_dict(json.loads((tmp_path / "lease.json").read_text())) == lease


def test_a_lease_that_cannot_be_written_is_an_error_of_the_carrier(tmp_path: Path) -> None:
    directory = tmp_path / "w-0"
    carrier = FileCarrier(directory, "w-0")
    (directory / "worker.lock").unlink()
    directory.rmdir()

    with pytest.raises(CarrierUnavailableError, match=r"lease\.json"):
        carrier.renew(Lease(worker="w-0", holder="abc"))


def test_a_second_process_of_the_same_worker_is_refused(tmp_path: Path) -> None:
    first = FileCarrier(tmp_path, "w-0")

    with pytest.raises(InstanceRunningError, match="already running as process"):
        FileCarrier(tmp_path, "w-0", lock_timeout_s=0.2)

    first.close()
    FileCarrier(tmp_path, "w-0").close()


def test_the_memory_carrier_gives_every_change_a_greater_epoch() -> None:
    carrier = MemoryCarrier()

    first = carrier.set_spec(app="orders", incarnation="abc")
    second = carrier.set_spec(active=(TaskId(0, 0),))

    assert second.epoch > first.epoch
    assert carrier.read() == second
    assert not carrier.has_changed()
