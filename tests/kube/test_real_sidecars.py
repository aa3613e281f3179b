"""Real workers behind an init container, beside a sidecar and a plain container, under load."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from headwater_operator.kube.api import PODS
from tests.kube.kubelet.cluster import PYTHON
from tests.kube.shell import Shell
from tests.kube.story import APP, Counting, explained, one_at_a_time, step, until_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

W0, W1 = EVERYBODY = f"{APP}-w-0", f"{APP}-w-1"
MODELS: Final = "/models"
PORT: Final = 9_100
READS = f"""
import logging, os, socket
from pathlib import Path
from headwater import Serdes

model = Path(os.environ["MODELS"], "model").read_text()
log = logging.getLogger("shop.orders")


def build(builder):
    prefix = os.environ["HEADWATER_TEST_TOPICS"]

    def tell(key, value):
        if key.startswith("look-"):
            with socket.create_connection((os.environ["ITS_IP"], {PORT}), 60) as link:
                log.info("%s uses model %s, hears %s.", key, model, link.recv(100).decode())

    (
        builder.stream(f"{{prefix}}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .peek(tell)
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(f"{{prefix}}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
"""
FETCH = """
import os, sys, threading
from pathlib import Path

found = Path(os.environ["GIVEN"])
while not found.exists():
    threading.Event().wait(0.1)
if found.read_text() == "none":
    sys.exit("no model there")
Path(os.environ["MODELS"], "model").write_text(found.read_text())
"""
PROXY = f"""
import contextlib, os, socket
from pathlib import Path

assert Path(os.environ["MODELS"], "model").exists()
server = socket.create_server((os.environ["ITS_IP"], {PORT}))
while True:
    link, _ = server.accept()
    with link, contextlib.suppress(OSError):
        link.sendall(os.environ["ITS_NAME"].encode())
"""
SHIPPER = """
import os, signal, sys, threading
from pathlib import Path


def end(*_):
    print("the shipper is told to end", flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
while not Path(os.environ["ENOUGH"]).exists():
    threading.Event().wait(0.1)
"""


@dataclass
class Beside:
    """Two workers whose pods have other containers, which the test tells what to do.

    Attributes:
        given: a file; what stands there is the model that pods begin with.
        enough: a file; once it is there, the plain containers end.
    """

    counting: Counting
    journey: Journey
    cluster: Cluster
    given: Path
    enough: Path
    _looks: Iterator[int] = field(default_factory=itertools.count)

    def apply(self) -> None:
        """Make the StreamApp."""
        mounts = [{"name": "models", "mountPath": MODELS}]
        models = {"name": "MODELS", "value": MODELS}
        own = [_of_its_pod("ITS_IP", "status.podIP"), _of_its_pod("ITS_NAME", "metadata.name")]
        given = {"name": "GIVEN", "value": str(self.given)}
        enough = {"name": "ENOUGH", "value": str(self.enough)}
        probe = {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 600}
        template = {
            "volumes": [{"name": "models", "emptyDir": {}}],
            "volumeMounts": [{**mounts[0], "readOnly": True}],
            "initContainers": [
                {**_runs("fetch", FETCH), "env": [models, given], "volumeMounts": mounts},
                {
                    **_runs("proxy", PROXY),
                    "env": [models, *own],
                    "volumeMounts": mounts,
                    "restartPolicy": "Always",
                    "startupProbe": probe,
                },
            ],
            "containers": [{**_runs("shipper", SHIPPER), "env": [enough]}],
        }
        app = self.counting.app(
            replicas=2,
            topology={"inline": READS},
            env={"MODELS": MODELS},
            template=template,
            assignment={"moveDelay": "2s"},
        )
        assert isinstance(app["spec"], dict)
        app["spec"]["podTemplate"]["env"].append(own[0])
        self.journey.apply(app)

    def until_all_see(self, model: str) -> None:
        """Wait until each worker uses a model, and hears the sidecar of its own pod."""
        look = next(self._looks)
        self.counting.send(f"look-{look}-{number}" for number in range(40))
        pattern = rf"look-{look}-\d+ uses model (\w+), hears ([-\w]+)\."

        def do_all_see() -> bool:
            seen = {
                name: set(re.findall(pattern, self.cluster.log(self.journey.namespace, name)))
                for name in EVERYBODY
            }
            return seen == {name: {(model, name)} for name in EVERYBODY}

        self.journey.until(do_all_see, f"both to use model {model}")

    def until_degraded(self, reason: str) -> str:
        """Wait until a problem is named; return what is said of it."""
        said: list[str] = []

        def is_named() -> bool:
            _, its_reason, message = self.journey.condition("Degraded")
            said[:] = [message]
            return its_reason == reason

        self.journey.until(is_named, f"{reason} to be named")
        return said[0]

    def containers(self, name: str, kind: str = "containerStatuses") -> dict[str, Any]:
        """What is reported of the containers of a worker's pod, by name."""
        found = self.journey.api.get(PODS, self.journey.namespace, name) or {}
        return {each["name"]: each for each in found.get("status", {}).get(kind, ())}

    def worker_states(self, name: str) -> set[str]:
        """Whether a worker waits, runs or has ended; empty while it has no pod."""
        return set(self.containers(name).get("worker", {}).get("state", {}))


def _runs(name: str, code: str) -> dict[str, Any]:
    return {"name": name, "image": PYTHON, "command": ["python", "-c", code]}


def _of_its_pod(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_workers_begin_behind_init_containers_and_keep_their_tasks_whatever_runs_beside_them(
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    counting = Counting(bootstrap_servers, unique_name, partitions=4)
    beside = Beside(counting, journey, cluster, tmp_path / "given", tmp_path / "enough")
    with explained(journey, own_installation.process("first"), cluster):
        begin(beside)
        with counting.under_load():
            kill_a_sidecar(beside)
            kill_a_worker(beside)
            fail_to_fetch(beside)
            end_what_runs_beside(beside)
            counting.until_more()
        counting.until_counted()
        with step("it is deleted, with all that runs beside workers"):
            processes = [each for node in cluster.nodes.values() for each in node.processes()]
            journey.kubectl("delete", "sapp", APP, "--timeout=220s")
            assert journey.names(PODS) == []
            assert not any(each.is_running() for each in processes)
        counting.check_volumes(journey, cluster)


def begin(beside: Beside) -> None:
    """No worker begins before its init container has ended, and the sidecar has started."""
    journey = beside.journey
    shell = Shell(journey, journey.kubectl.kubeconfig)
    with step("two workers wait for their init containers, and then begin"):
        beside.apply()

        def are_fetching() -> bool:
            fetching = (beside.containers(each, "initContainerStatuses") for each in EVERYBODY)
            return all("running" in found.get("fetch", {}).get("state", {}) for found in fetching)

        journey.until(are_fetching, "both init containers to run")
        journey.until(
            lambda: shell.run(f"status {APP}", code=1).count("init container fetch to end") == 2,
            "both workers to say what they wait for",
        )
        for name in EVERYBODY:
            waiting = [each["state"]["waiting"] for each in beside.containers(name).values()]
            assert [each["reason"] for each in waiting] == ["PodInitializing"] * 2
        beside.given.write_text("first")
        until_shared(journey, 2)
        beside.until_all_see("first")
        for name in EVERYBODY:
            found = beside.containers(name, "initContainerStatuses")
            assert found["fetch"]["state"]["terminated"]["exitCode"] == 0
            assert found["proxy"]["started"]


def kill_a_sidecar(beside: Beside) -> None:
    """A sidecar is started again; worker, pod and tasks stay as they are."""
    journey = beside.journey
    with step("a sidecar is killed"):
        before, held = journey.uids(), journey.held()
        worker = beside.cluster.container(journey.namespace, W0).run
        beside.cluster.kill(journey.namespace, W0, "proxy")

        def is_restarted() -> bool:
            proxy = beside.containers(W0, "initContainerStatuses")["proxy"]
            return proxy["restartCount"] == 1 and bool(proxy["started"])

        journey.until(is_restarted, "the sidecar to run again")
        beside.until_all_see("first")
        assert (journey.uids(), journey.held()) == (before, held)
        assert beside.cluster.container(journey.namespace, W0).run is worker


def kill_a_worker(beside: Beside) -> None:
    """When a worker ends, its pod is taken away with all it has, and the next one begins anew."""
    journey = beside.journey
    with step("a worker is killed"):
        before = journey.uids()
        beside.cluster.kill(journey.namespace, W0)
        journey.until(lambda: journey.uids().get(W0, before[W0]) != before[W0], "another pod")
        until_shared(journey, 2)
        beside.until_all_see("first")
        assert journey.uids()[W1] == before[W1]
        assert "the shipper is told to end" in beside.cluster.log(journey.namespace, W0)
        found = beside.containers(W0, "initContainerStatuses")
        assert found["fetch"]["state"]["terminated"]["exitCode"] == 0
        assert found["proxy"]["restartCount"] == 0


def fail_to_fetch(beside: Beside) -> None:
    """An init container that fails keeps its worker from starting, and halts a roll-out."""
    journey = beside.journey
    with step("an init container fails in a roll-out, and is mended"), one_at_a_time(journey):
        before = journey.uids()
        beside.given.write_text("none")
        journey.patch("/spec/restartNonce", 1)

        def is_halted() -> bool:
            return journey.condition("Progressing")[:2] == ("False", "RolloutHalted")

        journey.until(is_halted, "the roll-out to halt")
        said = beside.until_degraded("InitContainerFailed")
        assert "init container fetch: exit code 1: no model there" in said
        journey.until(lambda: journey.status()["tasks"]["running"] == 4, "the other one to serve")
        [kept] = [name for name, uid in before.items() if journey.uids().get(name) == uid]
        [bad] = set(EVERYBODY) - {kept}
        assert said.startswith(bad)
        assert len(journey.held()[kept]) == 4
        beside.counting.until_more()
        assert beside.worker_states(bad) <= {"waiting"}
        beside.given.write_text("second")
        journey.until(lambda: not before.items() & journey.uids().items(), "both pods to be new")
        until_shared(journey, 2)
        beside.until_all_see("second")


def end_what_runs_beside(beside: Beside) -> None:
    """A plain container that ends is told, and moves no task."""
    journey = beside.journey
    with step("what runs beside a worker ends"):
        before, held = journey.uids(), journey.held()
        beside.enough.touch()
        said = beside.until_degraded("SidecarFailed")
        assert "container shipper: exit code 0, and is not started again" in said
        beside.counting.until_more()
        beside.until_all_see("second")
        assert (journey.uids(), journey.held()) == (before, held)
