"""How long nothing comes out when a worker, a machine or a task goes: the cluster's own delays.

    python -m benchmarks.takeover [--runs 3] [--state-mb 500] [--rows kill frozen move]

A real control plane, the real operator and real workers as processes, a real broker; machines are
those of the tests (``tests/kube/kubelet``). A count by key runs exactly-once with a commit every
100 ms under a steady load; one reader with ``read_committed`` notes when each task's outputs come.
Counted from the fault, or the longest silence of a task that was moved. Writes
``benchmarks/TAKEOVER.md``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.kube import programs
from tests.kube.control_plane import ControlPlane
from tests.kube.definitions import install
from tests.kube.fixtures import Command
from tests.kube.journey import Installation, Journey, fresh_namespace
from tests.kube.kubeconfig import client_for
from tests.kube.kubelet.cluster import PYTHON, Cluster, python_image
from tests.kube.story import APP, Counting, Workers, until_shared
from tests.support.waiting import wait_for

from benchmarks.report import measured, verdict
from headwater.local.broker import KafkaBroker
from headwater_operator.kube.api import STREAM_APPS
from headwater_operator.kube.client import KubeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.kube.players import Stage

TABLE: Final = Path(__file__).parent / "TAKEOVER.md"
LEASE_S: Final = 10
PARTITIONS: Final = 6
_RATE: Final = 600
_KEYS: Final = 6_000
_PATIENCE_S: Final = 120.0
_KEY_BYTES: Final = 200
_SURELY_S: Final = 0.5
"""So long after its beginning a fault has surely happened; nothing shorter can be told."""
_ROWS: Final = ("kill", "frozen", "move")
_SILENCES: Final = ("move", "drain")


class Watch:
    """Sends records at a steady rate, and notes when each partition's outputs come.

    Args:
        servers: the broker.
        prefix: of the topics.
    """

    def __init__(self, servers: str, prefix: str) -> None:
        self._servers = servers
        self._prefix = prefix
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._send, self._receive)]
        self.seen: list[list[tuple[float, float]]] = [[] for _ in range(PARTITIONS)]
        """By task: when an output came, and the timestamp of the record behind it."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "linger.ms": 1, "enable.idempotence": True}
        )
        began, sent = time.monotonic(), 0
        while not self._over.wait(0.005):
            while sent < (time.monotonic() - began) * _RATE:
                key = f"key-{sent % _KEYS}"
                number = _task_of(key.encode())
                producer.produce(f"{self._prefix}-in", b"v", key, partition=number)
                sent += 1
            producer.poll(0)
        producer.flush(30)

    def _receive(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "takeover",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        topic = f"{self._prefix}-out"
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in range(PARTITIONS)
        ]
        consumer.assign([TopicPartition(topic, number, end) for number, end in enumerate(ends)])
        while not self._over.is_set():
            first = consumer.poll(0.05)
            if first is None:
                continue
            for message in [first, *consumer.consume(5_000, 0)]:
                if message.error() is None:
                    number = _task_of(message.key() or b"")
                    self.seen[number].append((time.time(), message.timestamp()[1] / 1000))
        consumer.close()

    def first_after(self, moment: float, number: int) -> float | None:
        """Seconds from a moment until an output of something sent later came; ``None``: not yet."""
        later = (came for came, sent in self.seen[number] if sent > moment)
        came = next(later, None)
        return None if came is None else came - moment

    def silence(self, since: float, number: int) -> float:
        """The longest time without an output of a task since a moment."""
        times = [came for came, _ in self.seen[number] if came >= since]
        return max((b - a for a, b in pairwise(times)), default=0.0)


def _task_of(key: bytes) -> int:
    """The task that counts a key: outputs are partitioned anew, so only the key tells."""
    return int(key.rpartition(b"-")[2]) % PARTITIONS


@dataclass(frozen=True)
class Round:
    """One fault.

    Attributes:
        detected_s: until somebody else was granted the tasks.
        first_s: until the first output of any of them.
        last_s: until the first output of the last of them.
    """

    detected_s: float
    first_s: float
    last_s: float


@dataclass
class Bench:
    """A counting StreamApp with its user and its machines."""

    counting: Counting
    journey: Journey
    cluster: Cluster
    found: dict[str, list[Round]] = field(default_factory=dict)

    def begin(self) -> None:
        """Two workers, each with the other's standbys, all of them complete."""
        app = self.counting.app(
            replicas=2,
            config={"session.timeout.ms": LEASE_S * 1000, "commit.interval.ms": 100},
            assignment={"standbyReplicas": 1, "moveDelay": "1s"},
        )
        self.journey.apply(app)
        self.until_ready(2)

    def until_ready(self, workers: int) -> None:
        """Wait until nothing moves and every copy is complete."""
        until_shared(self.journey, workers)

        def is_covered() -> bool:
            ready = self.journey.condition("StandbysReady")[:2] == ("True", "CaughtUp")
            return ready and self.journey.is_settled()

        self.journey.until(is_covered, "standbys that could take over")

    def fault(self, watch: Watch, name: str, worker: str, strike: Callable[[], None]) -> None:
        """Do something to a worker, and note when its tasks' outputs come again."""
        tasks = self.journey.held()[worker]
        numbers = [int(task.partition("_")[2]) for task in tasks]
        moment = time.time()
        strike()
        # What is sent from then on nobody processes any more who did before.
        surely = moment + _SURELY_S

        def all_are_back() -> bool:
            return None not in [watch.first_after(surely, number) for number in numbers]

        def is_granted() -> bool:
            held = self.journey.held()
            others = {task for each, tasks in held.items() if each != worker for task in tasks}
            return set(tasks) <= others or all_are_back()

        wait_for(is_granted, what="the tasks to be granted", timeout_s=_PATIENCE_S, every_s=0.02)
        detected = time.time() - moment
        wait_for(all_are_back, what="outputs", timeout_s=_PATIENCE_S, every_s=0.02)
        late = surely - moment
        delays = [late + (watch.first_after(surely, number) or 0.0) for number in numbers]
        found = Round(detected, min(delays), max(delays))
        print(f"{name}: {found}", flush=True)
        self.found.setdefault(name, []).append(found)

    def kill(self, watch: Watch) -> None:
        """The processes of a container end by SIGKILL."""
        worker = min(self.journey.held())
        namespace = self.journey.namespace
        self.fault(watch, "kill", worker, lambda: self.cluster.kill(namespace, worker))
        self.until_ready(2)

    def frozen(self, watch: Watch) -> None:
        """A machine stops in its tracks, and goes on later."""
        worker = min(self.journey.held())
        node = self.cluster.node_of(self.journey.namespace, worker)
        self.fault(watch, "frozen", worker, node.freeze)
        node.thaw()
        self.until_ready(2)

    def move(self, watch: Watch) -> None:
        """A third worker comes and takes tasks whose state it has read before; then it leaves."""
        with self.scaled(watch, "move"):
            self.journey.scale(3)
            until_shared(self.journey, 3)
        self.until_ready(3)
        with self.scaled(watch, "drain"):
            self.journey.scale(2)
            self.until_ready(2)

    @contextmanager
    def scaled(self, watch: Watch, name: str) -> Iterator[None]:
        """Note the longest silence of the tasks that are elsewhere afterwards."""
        before = self.journey.held()
        moment = time.time()
        yield
        time.sleep(2)
        moved = [
            int(task.partition("_")[2])
            for worker, tasks in self.journey.held().items()
            for task in tasks
            if task not in before.get(worker, [])
        ]
        silences = [watch.silence(moment, number) for number in moved]
        found = Round(0.0, min(silences), max(silences))
        print(f"{name}: {len(moved)} tasks, {found}", flush=True)
        self.found.setdefault(name, []).append(found)

    def fill(self, megabytes: int) -> None:
        """Have state of a size: that many bytes of keys, each counted once."""
        keys = megabytes * 1_000_000 // (_KEY_BYTES + 16)
        producer = Producer(
            {
                "bootstrap.servers": self.counting.bootstrap_servers,
                "linger.ms": 50,
                "batch.size": 500_000,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
            }
        )
        topic = f"{self.counting.prefix}-in"
        for number in range(keys):
            if number % 100_000 == 0:
                print(f"  state: {number:,} of {keys:,} keys", flush=True)
                producer.flush()
            key = f"{number:0{_KEY_BYTES}d}"
            producer.produce(topic, b"v", key, partition=_task_of(key.encode()))
            producer.poll(0)
        producer.flush()
        talk = Workers(self.journey)

        def is_read() -> bool:
            return self._lag() == 0 and talk.are_copies_complete()

        wait_for(is_read, what="the state to be built", timeout_s=900, every_s=1)

    def _lag(self) -> int:
        consumer = Consumer(
            {
                "bootstrap.servers": self.counting.bootstrap_servers,
                "group.id": self.counting.prefix,
            }
        )
        partitions = [
            TopicPartition(f"{self.counting.prefix}-in", number) for number in range(PARTITIONS)
        ]
        done = {each.partition: each.offset for each in consumer.committed(partitions, timeout=30)}
        lag = sum(
            consumer.get_watermark_offsets(each, timeout=30)[1] - max(0, done[each.partition])
            for each in partitions
        )
        consumer.close()
        return int(lag)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--state-mb", type=int, default=500)
    parser.add_argument("--rows", nargs="*", choices=_ROWS, default=list(_ROWS))
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-t-")))
        servers = stack.enter_context(KafkaBroker()).bootstrap_servers
        control_plane = stack.enter_context(ControlPlane())
        client = stack.enter_context(client_for(control_plane.admin_kubeconfig))
        install(client)
        admin = KubeClient.from_environment(control_plane.admin_kubeconfig)
        stack.callback(admin.close)
        images = {PYTHON: python_image()}
        cluster = stack.enter_context(Cluster(control_plane, admin, directory / "c", images))
        found: dict[str, list[Round]] = {}
        for rows, state_mb in (
            ([row for row in options.rows if row != "move"], 0),
            ([row for row in options.rows if row == "move"], options.state_mb),
        ):
            if rows:
                bench = stack.enter_context(_App(servers, admin, client, control_plane, cluster))
                found |= _measure(bench, rows, options.runs, state_mb)
                _end(bench)
    TABLE.write_text(_page(found, options.state_mb))
    print(TABLE.read_text())
    return 0


class _App:
    """A StreamApp in a namespace with an operator of its own."""

    def __init__(
        self,
        servers: str,
        admin: KubeClient,
        client: Any,
        control_plane: ControlPlane,
        cluster: Cluster,
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="headwater-t-")
        namespace = fresh_namespace(admin, "takeover")
        kubectl = Command(programs.find("kubectl"), control_plane.admin_kubeconfig, namespace)
        self._installation = Installation(
            admin,
            client,
            control_plane,
            Path(self._directory.name),
            namespace,
            watched=namespace,
            lease_s=15,
        )
        journey = Journey(
            admin, namespace, kubectl, cast("Stage", cluster), app=APP, patience_s=300.0
        )
        counting = Counting(servers, f"takeover-{uuid4().hex[:8]}", PARTITIONS)
        self._bench = Bench(counting, journey, cluster)

    def __enter__(self) -> Bench:
        self._installation.install()
        self._installation.process("only")
        self._bench.begin()
        return self._bench

    def __exit__(self, *_: object) -> None:
        self._installation.uninstall()
        self._directory.cleanup()


def _measure(
    bench: Bench, rows: Sequence[str], runs: int, state_mb: int
) -> Mapping[str, list[Round]]:
    if state_mb:
        bench.fill(state_mb)
    servers, prefix = bench.counting.bootstrap_servers, bench.counting.prefix
    with Watch(servers, prefix) as watch:
        time.sleep(3)
        for _ in range(runs):
            for row in rows:
                step: Callable[[Watch], None] = getattr(bench, row)
                step(watch)
    return bench.found


def _end(bench: Bench) -> None:
    journey = bench.journey
    journey.kubectl("delete", "sapp", APP, "--timeout=180s")
    assert journey.api.list(STREAM_APPS, journey.namespace) == ()


def _lines(found: Mapping[str, list[Round]], state_mb: int) -> Iterator[str]:
    """The rows: what, found, each round, goal, floor, verdict."""
    lease = f"Lease ({LEASE_S} s)"
    table = {
        "kill": ("container killed, standby warm: until the first output", 0, 3.0, 8.0),
        "frozen": (f"machine frozen, standby warm: beyond its {lease}", LEASE_S, 3.0, 8.0),
        "move": (f"task moved, {state_mb} MB of state: longest silence", 0, 0.5, 2.0),
        "drain": ("the same when its worker leaves, scale 3 to 2", 0, 0.5, 2.0),
    }
    for row, (what, lease_s, goal, floor) in table.items():
        rounds = found.get(row, [])
        if not rounds:
            continue
        values = [(each.last_s if row in _SILENCES else each.first_s) - lease_s for each in rounds]
        value = statistics.median(values)
        each = ", ".join(f"{one:.2f}" for one in values)
        detected = statistics.median(one.detected_s for one in rounds)
        last = statistics.median(one.last_s for one in rounds) - lease_s
        others = ("", "") if row in _SILENCES else (f"{last:.2f} s", f"{detected:.2f} s")
        cells = [what, f"**{value:.2f} s** ({each})", *others, f"{goal:g} s", f"{floor:g} s"]
        yield f"| {' | '.join([*cells, verdict(value, goal, floor)])} |"


def _page(found: Mapping[str, list[Round]], state_mb: int) -> str:
    lines = [
        "# How long nothing comes out",
        "",
        "Written by `python -m benchmarks.takeover`: a real control plane, operator, workers and",
        "broker, all on these cores; machines are processes. Exactly-once, a commit every 100 ms,",
        f"{_RATE} records/s over {PARTITIONS} tasks on two workers, one standby each. The clock",
        "starts at the fault and ends when a `read_committed` reader has the first output of a",
        "record sent more than 0.5 s after it. Medians, with every round.",
        "",
        f"Machine: {measured()}.",
        "",
        "| what | first output | last task's | granted, from the fault | goal | floor | verdict |",
        "|---|---|---|---|---|---|---|",
        *_lines(found, state_mb),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
