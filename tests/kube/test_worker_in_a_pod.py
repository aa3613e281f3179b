"""``headwater worker`` as a container runs it: variables, files and rights of the operator's pod.

The process is on this machine, and the test plays the operator and the kubelet; API server, rights,
token, Kafka and the worker are real.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import psutil
import pytest

from headwater import errors
from headwater.ids import TaskId
from headwater.model import podcontract
from headwater.model.duties import DescribeTopics, TopicsDescribed
from headwater.model.lifecycle import TaskState
from headwater.service.carrier import CarrierLostError
from headwater_operator.manifests.config import config_map
from headwater_operator.manifests.settings import Installation
from tests.kube.kubelet.cluster import python_image
from tests.kube.kubelet.environment import Sources, start_of
from tests.kube.workers import WORKER, WorkerResources
from tests.support.topologies import TOPIC_VARIABLE
from tests.support.waiting import wait_for
from tests.support.worker import Counting

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes.client import ApiClient

    from tests.kube.kubelet.environment import Start

pytestmark = [pytest.mark.usefixtures("crds"), pytest.mark.kafka, pytest.mark.timeout(1_800)]

T0, T1 = TaskId(0, 0), TaskId(0, 1)
TEXT = """
from tests.support.topologies import counts


def build(builder):
    counts(builder)
"""


class Pod:
    """A pod whose only container is a process of this machine; the test is its kubelet."""

    def __init__(self, resources: WorkerResources, log: Path) -> None:
        self.resources = resources
        self.log = log
        self.manifest = resources.create_pod()
        self._mount()
        self.process: subprocess.Popen[bytes] | None = None

    def _mount(self) -> None:
        container = self.manifest["spec"]["containers"][0]
        for mount in container["volumeMounts"]:
            self.resources.path_of(mount["mountPath"]).mkdir(parents=True, exist_ok=True)
        made = config_map(self.resources.app, self.resources.owner, "r1", Installation())
        files = made["data"]
        for name, text in files.items():
            (self.resources.path_of(podcontract.STREAMAPP_DIR) / name).write_text(text)

    def start(self) -> Self:
        start = self._start()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                # `headwater`, wherever this Python has it.
                [sys.executable, "-m", "headwater.cli.main", *start.command[1:]],
                env=start.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def _start(self) -> Start:
        """Its command and variables, as the kubelet would make them."""
        [container] = self.manifest["spec"]["containers"]
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        # All of 127/8 is this machine; the port is the same in every pod.
        address = f"127.{secrets.randbelow(200) + 10}.{secrets.randbelow(250) + 1}.1"
        sources = Sources(
            pod={**self.manifest, "status": {"podIP": address}},
            mounts={path: self.resources.path_of(path) for path in paths},
            config_map=lambda _name: None,
            secret=lambda _name: None,
        )
        server = urlsplit(self.resources.api.configuration.host)
        told = {
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        return start_of(container, python_image(), sources, told)

    def exit_code(self) -> int:
        assert self.process is not None
        return self.process.wait(180)

    def terminate(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.exit_code()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        # Shown only of a test that has failed.
        if self.log.exists():
            sys.stdout.write(self.log.read_text(errors="replace")[-20_000:])


class Setting:
    """One application with one worker, and its topics."""

    def __init__(self, api: ApiClient, namespace: str, directory: Path, counting: Counting) -> None:
        self.counting = counting
        self.directory = directory
        self._place = (api, namespace, directory / "root")

    def pod(self, **spec: Any) -> Pod:
        """Return a pod of the StreamApp with these fields, not started yet."""
        fields = {
            "applicationId": self.counting.application_id,
            "topology": {"inline": TEXT},
            "threadsPerWorker": 2,
            "processingGuarantee": "exactly_once_v2",
            "kafka": {"bootstrapServers": self.counting.bootstrap_servers},
            "config": {"commit.interval.ms": 100},
            "podTemplate": {"env": [{"name": TOPIC_VARIABLE, "value": self.counting.topic}]},
            **spec,
        }
        resources = WorkerResources(*self._place, fields)
        resources.create()
        return Pod(resources, self.directory / "worker.log")


@pytest.fixture
def setting(
    kube_api: ApiClient, namespace: str, tmp_path: Path, bootstrap_servers: str, unique_name: str
) -> Setting:
    return Setting(kube_api, namespace, tmp_path, Counting(bootstrap_servers, unique_name))


def incarnation(resources: WorkerResources) -> str:
    return wait_for(lambda: resources.status.incarnation, what="the first report")


def grant(resources: WorkerResources, *tasks: TaskId, **changes: Any) -> None:
    """Grant tasks to the process that reports; wait until they run under the new epoch."""
    spec = resources.write(
        incarnation=incarnation(resources), active=tasks, slots=(0, 1), **changes
    )

    def runs() -> bool:
        status = resources.status
        running = {held.task for held in status.tasks if held.state is TaskState.RUNNING}
        return status.acknowledged_epoch == spec.epoch and running == status.held == {*tasks}

    wait_for(runs, what=f"{tasks} to run")


def test_a_worker_lives_in_a_pod_from_its_first_report_to_its_release(setting: Setting) -> None:
    counting = setting.counting
    with setting.pod() as pod:
        resources = pod.resources
        pod.start()
        mine = incarnation(resources)
        wait_for(lambda: resources.lease, what="the Lease to be taken")
        first = resources.lease
        assert first is not None
        assert first.holder == mine
        status = resources.status
        assert status.topology is not None
        assert len(status.topology.subtopologies) == 1
        with urllib.request.urlopen(f"http://{status.endpoint}/healthz", timeout=60) as answer:
            assert answer.status == 200

        grant(resources, T0, T1)
        counting.send(300)
        wait_for(counting.all_counted, what="all counts")
        resources.write(duties=(DescribeTopics(id="d", epoch=1, topics=(counting.topic,)),))
        wait_for(lambda: resources.status.duty_results, what="the duty to be done")
        assert isinstance(resources.status.duty_results[0], TopicsDescribed)
        wait_for(
            lambda: (lease := resources.lease) and lease.renewals > first.renewals,
            what="another renewal",
        )

        grant(resources, T0, revoking=(T1,), duties=())
        released = resources.status.released
        assert [task.task for task in released] == [T1]
        assert sum(each.offset for each in released[0].offsets) == 150

        assert pod.terminate() == 0
        last = resources.status
        assert (last.incarnation, last.tasks, last.error) == (mine, (), None)
        assert {stored.task for stored in last.stored} == {T0, T1}
        assert counting.committed() == {0: 150, 1: 150}
        token = (resources.token_dir / podcontract.TOKEN_FILE).read_text()
        assert token not in pod.log.read_text()
        written = {path.relative_to(resources.root).parts[0] for path in resources.root.rglob("*")}
        assert written == {"etc", "tmp", "var"}


def test_a_worker_whose_streamworker_is_deleted_ends_without_committing(setting: Setting) -> None:
    counting = setting.counting
    # Nothing is committed before the end, unless the worker does it on the way out.
    with setting.pod(config={"commit.interval.ms": 3_600_000}) as pod:
        resources = pod.resources
        pod.start()
        grant(resources, T0, T1)
        # A task of a group without offsets commits where it begins, a moment after it runs.
        begun = {0: 0, 1: 0}
        wait_for(lambda: counting.committed() == begun, what="the commit of where tasks begin")
        counting.send(300)
        threads = psutil.Process(pod.process.pid).children() if pod.process is not None else []

        resources.workers.delete(WORKER)

        assert pod.exit_code() == CarrierLostError.exit_code
        assert f"error: StreamWorker {WORKER} was deleted" in pod.log.read_text()
        wait_for(lambda: not any(map(psutil.Process.is_running, threads)), what="its threads' end")
        assert counting.committed() == begun
        assert counting.counted() == {}


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (
            {"inline": "import no_such_package"},
            "No module named 'no_such_package' (<spec.topology>",
        ),
        ({"module": "no_such_module:build"}, "There is no module 'no_such_module'"),
    ],
    ids=["text", "module"],
)
def test_why_a_topology_cannot_be_imported_reaches_the_status(
    setting: Setting, topology: dict[str, str], words: str
) -> None:
    with setting.pod(topology=topology) as pod:
        pod.start()

        assert pod.exit_code() == errors.ImportPathError.exit_code
        error = pod.resources.status.error
        assert error is not None
        assert error.error == "ImportPathError"
        assert words in error.message
        # What Kubernetes shows of a pod that has ended is the end of its log.
        assert pod.log.read_text().splitlines()[-1] == f"error: {error.message}"
