"""What a worker relies on in its carrier, whichever it is: files, or the Kubernetes API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
from tests.kube.workers import WORKER, WorkerResources
from tests.support.waiting import wait_for

from headwater.ids import TaskId
from headwater.model.cluster import Lease, StreamWorker, TaskStatus, WorkerSpec, WorkerStatus
from headwater.model.lifecycle import TaskState
from headwater.service.carrier import Carrier, CarrierUnavailableError, FileCarrier, replace_json
from headwater.service.clock import boot_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

T0 = TaskId(0, 0)
SPEC = WorkerSpec(app="orders", epoch=7, incarnation="abc", active=(T0,), slots=(0, 1))


class World(Protocol):
    """The control loop's side of a carrier."""

    def carrier(self) -> Carrier: ...

    def write(self, spec: WorkerSpec) -> None: ...

    @property
    def status(self) -> WorkerStatus: ...

    @property
    def lease(self) -> Lease | None: ...


class Files:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def carrier(self) -> Carrier:
        return FileCarrier(self._directory, WORKER)

    def write(self, spec: WorkerSpec) -> None:
        resource = StreamWorker(name=WORKER, spec=spec).to_dict()
        replace_json(self._directory / "spec.json", resource)

    @property
    def status(self) -> WorkerStatus:
        return self._read("status.json").status

    @property
    def lease(self) -> Lease | None:
        import json

        path = self._directory / "lease.json"
        return Lease.from_dict(json.loads(path.read_text())) if path.exists() else None

    def _read(self, name: str) -> StreamWorker:
        import json

        path = self._directory / name
        if not path.exists():
            return StreamWorker(name=WORKER, spec=WorkerSpec(app="orders"))
        document = json.loads(path.read_text())
        return StreamWorker.from_dict({**document, "spec": {"app": "orders"}})


class Cluster:
    def __init__(self, resources: WorkerResources) -> None:
        self.resources = resources
        resources.create_pod()
        self._exists = False

    def carrier(self) -> Carrier:
        return self.resources.carrier()

    def write(self, spec: WorkerSpec) -> None:
        if not self._exists:
            self.resources.create(spec)
            self._exists = True
        else:
            self.resources.write(**{name: getattr(spec, name) for name in spec.__slots__})

    @property
    def status(self) -> WorkerStatus:
        return self.resources.status

    @property
    def lease(self) -> Lease | None:
        return self.resources.lease


@pytest.fixture(params=["files", pytest.param("kubernetes", marks=pytest.mark.kube)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "files":
        return Files(tmp_path)
    request.getfixturevalue("crds")
    api = request.getfixturevalue("kube_api")
    return Cluster(WorkerResources(api, request.getfixturevalue("namespace"), tmp_path))


@pytest.fixture
def carrier(world: World) -> Iterator[Carrier]:
    made = world.carrier()
    yield made
    made.close()


def renewed_at(carrier: Carrier, lease: Lease) -> int:
    """Ask until the carrier tells of a renewal."""

    def told() -> int | None:
        try:
            return carrier.renew(lease)
        except CarrierUnavailableError:  # of an earlier try, or the server was slow
            return None

    return wait_for(told, what="a renewal", every_s=0.01)


def has_read_all(carrier: Carrier) -> bool:
    """Read if there seems to be news, as the worker does; a carrier may say so wrongly."""
    if carrier.has_changed():
        carrier.read()
        return False
    return True


def test_without_a_streamworker_there_is_nothing_to_read(carrier: Carrier) -> None:
    assert carrier.read() is None


def test_what_the_control_loop_wrote_is_read_back_at_once(world: World, carrier: Carrier) -> None:
    world.write(SPEC)
    assert carrier.read() == SPEC

    again = WorkerSpec(app="orders", epoch=8, slots=(0, 1, 2))
    world.write(again)
    assert carrier.read() == again


def test_a_change_is_noticed_until_it_is_read(world: World, carrier: Carrier) -> None:
    world.write(SPEC)
    wait_for(carrier.has_changed, what="the first spec to be noticed")
    wait_for(lambda: has_read_all(carrier), what="nothing new")

    world.write(WorkerSpec(app="orders", epoch=8, slots=(0, 1)))

    wait_for(carrier.has_changed, what="the change to be noticed")
    read = carrier.read()
    assert read is not None
    assert read.epoch == 8
    wait_for(lambda: has_read_all(carrier), what="nothing new")


def test_the_newest_status_is_what_the_control_loop_reads_in_the_end(
    world: World, carrier: Carrier
) -> None:
    world.write(SPEC)
    carrier.read()
    newest = WorkerStatus(
        incarnation="abc",
        acknowledged_epoch=7,
        tasks=(TaskStatus(task=T0, state=TaskState.RUNNING),),
    )

    carrier.write_status(WorkerStatus(incarnation="abc"))
    carrier.write_status(newest)

    wait_for(lambda: world.status == newest, what="the status")
    # What is there no more is not left standing.
    bare = WorkerStatus(incarnation="abc", acknowledged_epoch=8)
    carrier.write_status(bare)
    wait_for(lambda: world.status == bare, what="the status without tasks")


def test_a_status_is_written_before_the_carrier_is_closed(world: World) -> None:
    world.write(SPEC)
    carrier = world.carrier()
    last = WorkerStatus(incarnation="abc", acknowledged_epoch=7)

    carrier.write_status(WorkerStatus(incarnation="abc"))
    carrier.write_status(last)
    carrier.close()

    assert world.status == last


def test_a_status_may_be_all_a_process_ever_says(world: World) -> None:
    """It could not import its topology, say; it never read its spec."""
    world.write(SPEC)
    carrier = world.carrier()
    odd = WorkerStatus(
        incarnation="abc", endpoint="é \U0001f600 \x7f\x85\u2028\ufeff \x00\x1f \\ \" ' : #"
    )

    carrier.write_status(odd)
    carrier.close()

    assert world.status == odd


def test_every_renewal_is_told_once_and_shows_in_the_lease(world: World, carrier: Carrier) -> None:
    world.write(SPEC)
    began_ms = boot_ms()
    first_ms = renewed_at(carrier, Lease(worker=WORKER, holder="abc", renewals=1))
    first = world.lease
    assert first is not None
    assert (first.worker, first.holder, first.duration_ms) == (WORKER, "abc", 30_000)
    assert began_ms <= first_ms <= boot_ms()

    short = Lease(worker=WORKER, holder="abc", duration_ms=3_000, renewals=2)
    second_ms = renewed_at(carrier, short)

    assert second_ms >= first_ms
    second = world.lease
    assert second is not None
    assert second.renewals > first.renewals


def test_a_lease_that_is_not_there_is_no_news(world: World) -> None:
    """Neither a renewal nor a reason to end: who makes it may be late."""
    carrier = world.carrier()
    if isinstance(world, Cluster):
        refused: list[str] = []

        def is_refused() -> bool:
            try:
                return carrier.renew(Lease(worker=WORKER, holder="abc")) is not None
            except CarrierUnavailableError as error:
                refused.append(str(error))
                return True

        wait_for(is_refused, what="the refusal")
        assert "there is no Lease orders-w-0" in refused[0]
        world.write(SPEC)
    renewed_at(carrier, Lease(worker=WORKER, holder="abc"))
    carrier.close()


def test_the_next_process_of_a_worker_takes_over(world: World) -> None:
    world.write(SPEC)
    for holder in ("abc", "def"):
        carrier = world.carrier()
        renewed_at(carrier, Lease(worker=WORKER, holder=holder))
        carrier.write_status(WorkerStatus(incarnation=holder))
        carrier.close()

        assert world.lease is not None
        assert world.lease.holder == world.status.incarnation == holder
