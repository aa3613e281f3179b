"""What the tests of real workers share: steps, a load that is counted, what workers say."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.model.cluster import Role
from headwater.model.lifecycle import TaskState
from headwater_operator.kube.api import CLAIMS, PODS, STREAM_WORKERS
from headwater_operator.observe.snapshot import read_worker
from tests.chaos.proof import counted_once_each, read_committed, stores_equal_their_changelogs
from tests.kube.kubelet.cluster import PYTHON
from tests.kube.kubelet.watching import CannotWatchError, Watching
from tests.support.counting import PREFIX_VARIABLE
from tests.support.local_cluster import Load, create_topics, read_counts, streamapp
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headwater.model.cluster import StreamWorker
    from headwater_operator.kube.api import Manifest
    from tests.kube.journey import Journey
    from tests.kube.kubelet.cluster import Cluster

APP: Final = "counting"
PATIENCE_S: Final = 300.0


@contextmanager
def step(what: str) -> Iterator[None]:
    """One step of a story: a failure in it says so, and how long it took is printed."""
    began = time.monotonic()
    try:
        yield
    except Exception as error:
        error.add_note(f"in the step: {what}")
        raise
    print(f"{what}: {time.monotonic() - began:.0f} s")


class Logged(Protocol):
    """Somebody who says what he does."""

    @property
    def log(self) -> str:
        """What he has said."""
        ...


@contextmanager
def explained(journey: Journey, operator: Logged, cluster: Cluster) -> Iterator[None]:
    """Let a failure show what everybody has said."""
    try:
        yield
    except Exception as error:
        names = sorted(journey.held())
        for name in names:
            error.add_note(f"== {name}\n{cluster.log(journey.namespace, name)[-6_000:]}")
        error.add_note(f"== operator\n{operator.log[-12_000:]}")
        raise


def until_shared(journey: Journey, count: int) -> None:
    """Wait until so many workers share the tasks, and nothing moves any more."""

    def is_shared() -> bool:
        # A worker that has just come counts as ready before it is given anything.
        holders = [name for name, tasks in journey.held().items() if tasks]
        return len(holders) == count == len(journey.names(PODS)) and journey.is_settled()

    journey.until(is_shared, f"{count} workers to share the tasks")


@contextmanager
def one_at_a_time(journey: Journey) -> Iterator[None]:
    """See that every worker gets another pod in the block, and that never two are away at once.

    One is away from when its pod is to end until its next one runs. Every change of a pod is seen,
    in its order.
    """
    path = f"/api/v1/namespaces/{journey.namespace}/pods"
    watching = Watching(journey.kubectl.kubeconfig, path, "")
    everybody, before = set(journey.names(PODS)), journey.uids()
    seen: set[frozenset[str]] = set()
    has_ended = threading.Event()

    def see(pods: Mapping[str, Manifest]) -> None:
        present = {
            pod["metadata"]["name"]
            for pod in pods.values()
            if pod.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        }
        seen.add(frozenset(everybody - present))

    def watch() -> None:
        while not has_ended.is_set():
            with suppress(CannotWatchError):
                watching.once(see)

    thread = threading.Thread(target=watch, name="watches who is away", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join(30)
        watching.close()
    assert seen == {frozenset(), *(frozenset([name]) for name in everybody)}, f"away: {seen}"
    assert journey.uids().keys() == before.keys()
    assert not set(journey.uids().values()) & set(before.values())


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a changelog."""

    offset: int
    size: int


@dataclass
class Counting:
    """A StreamApp that counts records by key, exactly once, and puts out every update.

    Attributes:
        bootstrap_servers: where.
        prefix: of its topics; its application id.
        partitions: as many as it has tasks.
        records_per_s: under load.
    """

    bootstrap_servers: str
    prefix: str
    partitions: int = 6
    records_per_s: int = 300
    _sender: Load = field(init=False)

    def __post_init__(self) -> None:
        create_topics(self.bootstrap_servers, self.prefix, partitions=self.partitions)
        self._sender = self._load()

    def _load(self) -> Load:
        return Load(self.bootstrap_servers, self.prefix, records_per_s=self.records_per_s)

    def app(
        self,
        *,
        config: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        template: Mapping[str, object] | None = None,
        **spec: object,
    ) -> dict[str, object]:
        """The StreamApp.

        Args:
            config: settings besides those that are always made.
            env: variables of its workers.
            template: the rest of ``spec.podTemplate``.
            spec: the rest of ``spec``.
        """
        variables = {PREFIX_VARIABLE: self.prefix, **(env or {})}
        entries = [{"name": name, "value": value} for name, value in variables.items()]
        given: dict[str, object] = {"image": PYTHON, **spec}
        return streamapp(
            self.bootstrap_servers,
            self.prefix,
            config={
                # Every update is put out and logged, so each can be missed.
                "statestore.cache.max.bytes": 0,
                "commit.interval.ms": 200,
                **(config or {}),
            },
            podTemplate={"env": entries, **(template or {})},
            **given,
        )

    def send(self, keys: Iterable[str]) -> None:
        """Send one record of each key, and wait until the broker has them."""
        self._sender.feed(keys)
        self._sender.flush()

    def feed(self, keys: Iterable[str]) -> None:
        """Send one record of each key, and wait until each was counted exactly as often."""
        self._sender.feed(keys)
        self.until_counted()

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Send records all the time, until the block ends."""
        load = self._load()
        load.start()
        try:
            yield
        finally:
            load.stop()

    def until_more(self) -> None:
        """Wait until more is counted than now, under a load."""

        def counted() -> int:
            return sum(read_counts(self.bootstrap_servers, self.prefix).values())

        least = counted() + 500
        wait_for(
            lambda: counted() > least, what="more counts", timeout_s=2 * PATIENCE_S, every_s=0.5
        )

    def until_counted(self) -> None:
        """Wait until everything sent is counted; each update must have been put out once."""
        self._sender.flush()
        sent = self._sender.sent

        def is_counted() -> bool:
            counts = read_counts(self.bootstrap_servers, self.prefix)
            return all(counts.get(key, 0) >= number for key, number in sent.items())

        wait_for(is_counted, what="all records to be counted", timeout_s=PATIENCE_S, every_s=0.5)
        counted_once_each(self.bootstrap_servers, f"{self.prefix}-out", sent)

    def changelog(self) -> dict[str, list[Entry]]:
        """All committed records of the changelog, by task."""
        found: defaultdict[str, list[Entry]] = defaultdict(list)
        topic = f"{self.prefix}-counts-changelog"
        for number, offset, key, value, _ in read_committed(self.bootstrap_servers, topic):
            found[f"0_{number}"].append(Entry(offset, len(key or b"") + len(value or b"")))
        return found

    def check_volumes(self, journey: Journey, cluster: Cluster) -> None:
        """Check that every store on a volume holds its changelog, and one of each task all of it.

        No worker runs.
        """
        bound = [
            claim["spec"]["volumeName"] for claim in journey.api.list(CLAIMS, journey.namespace)
        ]
        volumes = [cluster.storage.path(name) for name in bound]
        compared = stores_equal_their_changelogs(
            self.bootstrap_servers, self.prefix, "counts", volumes
        )
        assert compared >= self.partitions


@dataclass(frozen=True, slots=True)
class Workers:
    """What the workers of a user's StreamApp say.

    Attributes:
        journey: the user.
    """

    journey: Journey

    def all(self) -> dict[str, StreamWorker]:
        """The StreamWorkers by name."""
        found = self.journey.api.list(STREAM_WORKERS, self.journey.namespace)
        return {each["metadata"]["name"]: read_worker(each) for each in found}

    def tasks(self, name: str) -> dict[str, Any]:
        """What a worker answers to ``/tasks``."""
        endpoint = self.all()[name].status.endpoint
        with urllib.request.urlopen(f"http://{endpoint}/tasks", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def running(self, names: Iterable[str]) -> dict[str, str]:
        """By task, which of these workers says that it processes it."""
        workers = self.all()
        return {
            str(task.task): name
            for name in names
            for task in workers[name].status.tasks
            if task.role is Role.ACTIVE and task.state is TaskState.RUNNING
        }

    def standbys(self) -> dict[str, str]:
        """By task, the worker that is to keep its standby."""
        return {
            str(task): name for name, worker in self.all().items() for task in worker.spec.standby
        }

    def are_copies_complete(self) -> bool:
        """Whether every standby that there is to be has read all of its changelogs."""
        read = {
            task["task"]
            for name in self.all()
            for task in self.tasks(name)["tasks"]
            if task["role"] == Role.STANDBY and task["remaining"] == 0
        }
        return read == set(self.journey.tasks())
