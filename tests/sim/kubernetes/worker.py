"""A worker in a pod: the worker of the simulation, with the API server as its carrier.

What ``headwater.service.kube`` does in threads is here in line: read the StreamWorker when a watch
has told of a change or a while has passed, write the status, renew the Lease; end at once when the
StreamWorker is another one, or another process holds the Lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model.cluster import Lease, StoredTask, StreamWorker
from headwater.model.rollon import compared
from headwater.service.decide.actions import End
from headwater.service.decide.observations import FilesSeen, LeaseKept
from headwater.service.decide.reconcile import decide
from headwater.service.decide.report import status_of
from headwater.service.kube.manifests import holder_of, is_urgent, renewed, status_manifest
from headwater_operator.kube.api import LEASES, STREAM_WORKERS
from headwater_operator.kube.errors import ConflictError, NotFoundError
from tests.sim.kubernetes.secret import NAME
from tests.sim.kubernetes.world import NAMESPACE, KubeWorld, Volume
from tests.sim.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.cluster import WorkerSpec, WorkerStatus
    from headwater_operator.kube.api import Manifest
    from tests.sim.kubernetes.node import Machine
    from tests.sim.world import Disk, World

_RENEW_MS: Final = 5_000
_READ_AGAIN_MS: Final = 30_000
_NUMBERS_MS: Final = 10_000
_TICK_MS: Final = 120
_ANSWER_LOST: Final = 0.02


class PodWorker(Worker):
    """The main process of a worker, as the container of one pod."""

    world: KubeWorld

    def __init__(
        self, world: KubeWorld, name: str, machine: Machine, volume: Volume, revision: str
    ) -> None:
        self.machine = machine
        self.volume = volume
        self.revision = revision
        self.began = self.mounted = world.secret.content
        """What it was started from, and what its kubelet has brought since."""
        self.mounted_ms = 0
        self.uid = ""
        self.lost = ""
        self.news_ms = 0
        self.read_again_ms = 0
        self.lease: Manifest | None = None
        self.lease_was_of: str | None = None
        self.lease_is_ours = False
        self.renewed_ms = -_RENEW_MS
        self.written_ms = 0
        self.read: tuple[Manifest, WorkerSpec] | None = None
        super().__init__(world, name)

    def mount(self, world: World) -> Disk:
        return self.volume.attach(self)

    def tell(self) -> None:
        """Hear from a watch, sooner or later or never, that the StreamWorker has changed."""
        if self.world.rng.random() < 0.95:
            at_ms = self.world.now_ms + self.world.rng.choice((1, 20, 500))
            self.news_ms = min(self.news_ms or at_ms, at_ms)

    def is_cut_off(self) -> bool:
        world = self.world
        return world.is_api_down or self.machine.is_cut_off or world.is_cut_off(self.worker)

    def run(self) -> Iterator[int]:
        yield self.world.rng.randint(200, 1_500)
        while not self.lost:
            yield from self.keep_lease()
            while self.inbox:
                self.hear(self.inbox.popleft())
                yield 1
            self.notice_news()
            self.notice_files()
            self.table.stored = {
                task: StoredTask(task=task, offset_bucket=store.position)
                for task, store in self.disk.stores.items()
            }
            for action in decide(self.table, self.world.now_ms):
                yield from self.carry_out(action)
                if isinstance(action, End):
                    yield from self.report(is_last=True)
                    return
                if self.lost:
                    break
            yield from self.report()
            yield _TICK_MS
        self.world.note(f"{self.name} gives way: {self.lost}")

    def notice_news(self) -> None:
        """Read the StreamWorker if a watch has told of it, or none was read for a while."""
        now_ms = self.world.now_ms
        if (self.news_ms and now_ms >= self.news_ms) or now_ms >= self.read_again_ms:
            self.news_ms = 0
            self.read_again_ms = now_ms + _READ_AGAIN_MS
            self.table.must_read = True

    def notice_files(self) -> None:
        """See what the kubelet has brought, now and then."""
        world = self.world
        if not world.plan.watches or world.now_ms < self.mounted_ms:
            return
        self.mounted_ms = world.now_ms + world.secret.delay_ms()
        if not (world.is_api_down or self.machine.is_cut_off):
            self.mounted = world.secret.content
        found = compared(self.revision, {NAME: self.began}, {NAME: self.mounted})
        if found != self.table.roll_on:
            self.hear(FilesSeen(roll_on=found))

    def read_spec(self) -> WorkerSpec | None:
        found = self.world.find(STREAM_WORKERS, self.worker)
        if self.uid and (found is None or found["metadata"]["uid"] != self.uid):
            self.lost = "its StreamWorker is gone"
            return None
        if found is None:
            return None
        self.uid = found["metadata"]["uid"]
        stored = (found.get("status") or {}).get("incarnation", "")
        if self.reported is not None and stored != self.incarnation:
            self.reported = None
        if self.read is None or self.read[0] != found["spec"]:
            worker = StreamWorker.from_dict({**found, "status": {}})
            self.read = (found["spec"], worker.spec)
        return self.read[1]

    # -- Lease -----------------------------------------------------------------------------------

    def keep_lease(self) -> Iterator[int]:
        """Renew the Lease when it is time."""
        at_ms = self.world.now_ms
        if at_ms - self.renewed_ms < _RENEW_MS or self.is_cut_off():
            return
        found, self.lease = self.lease or self.world.find(LEASES, self.worker), None
        yield 1
        if found is None or self.is_cut_off() or not self.may_renew(found):
            return
        lease = Lease(worker=self.worker, holder=self.incarnation)
        manifest = renewed(found, lease, 1_700_000_000_000_000 + self.world.now_ms * 1000)
        try:
            self.lease = self.world.api.replace(LEASES, manifest)
        except (ConflictError, NotFoundError):
            return
        self.lease_is_ours = True
        self.renewed_ms = at_ms
        yield 1
        self.hear(LeaseKept(at_ms=at_ms))

    def may_renew(self, found: Manifest) -> bool:
        """Whether nobody else has taken our place."""
        holder = holder_of(found)
        if self.lease_was_of is None:
            self.lease_was_of = holder
        is_free = not self.lease_is_ours and holder == self.lease_was_of
        if holder in ("", self.incarnation) or is_free:
            return True
        self.lost = f"its Lease is held by {holder}"
        return False

    # -- status ----------------------------------------------------------------------------------

    def report(self, *, is_last: bool = False) -> Iterator[int]:
        status = status_of(self.table)
        if not (is_last or self.is_due(status)) or self.is_cut_off():
            return
        yield self.world.rng.choice((1, 1, 1, 200))
        if self.is_cut_off() or self.lost:
            return
        uid = self.uid or self.uid_now()
        body = status_manifest(self.worker, uid, status)
        body["metadata"]["namespace"] = NAMESPACE
        try:
            self.world.api.apply(STREAM_WORKERS, body, subresource="status")
        except (ConflictError, NotFoundError):
            self.table.must_read = True
            return
        yield 1
        if self.world.rng.random() > _ANSWER_LOST:
            self.reported, self.written_ms = status, self.world.now_ms

    def is_due(self, status: WorkerStatus) -> bool:
        """Whether a status is to be written now: numbers alone can wait."""
        if status == self.reported:
            return False
        waited_ms = self.world.now_ms - self.written_ms
        return is_urgent(self.reported, status) or waited_ms >= _NUMBERS_MS

    def uid_now(self) -> str:
        """The uid of the StreamWorker, whichever it is."""
        found = self.world.find(STREAM_WORKERS, self.worker)
        return "" if found is None else str(found["metadata"]["uid"])
