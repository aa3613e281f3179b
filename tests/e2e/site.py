"""The cluster as its user sees it: Helm, kubectl, a namespace of his own, and what he waits for."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import pytest

from tests.e2e.settings import chart_values, image_bytes
from tests.golden.chart import CHART
from tests.kube import programs
from tests.kube.fixtures import Command
from tests.support.kube_fakes import condition_in
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from types import TracebackType

    from tests.e2e.settings import Settings

Manifest = dict[str, Any]

APP = "word-count"
DRIVER = f"{APP}-driver"
SOURCE = "word-count-topology"
SIZE = "1Gi"
"""Of a worker's volume."""
RELEASE = "headwater"
CRDS = CHART.parents[1] / "crds"
EXAMPLE = CHART.parents[1] / "examples" / APP.replace("-", "_") / "streamapp.yaml"
PATIENCE_S = 900
"""Machines and networks are what they are: nothing here says how fast anything is."""
_MINE = f"headwater.dev/app={APP}"
_WORKERS = f"{_MINE},app.kubernetes.io/component=worker"
# They come and go by themselves.
_OTHERS = ("events", "endpoints", "endpointslices", "pods.metrics")
_OF_THE_CLUSTER = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,validatingwebhookconfigurations,"
    "mutatingwebhookconfigurations,customresourcedefinitions"
)


class Site:
    """A namespace on a cluster, and the tools of its user.

    Attributes:
        namespace: of operator and application; its name is like no other.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.namespace = f"headwater-e2e-{uuid4().hex[:6]}"
        config = Path(settings.kubeconfig)
        self.kubectl = Command(_program("kubectl"), config, self.namespace, PATIENCE_S + 60)
        self.helm = Command(_program("helm"), config, self.namespace, PATIENCE_S + 60)
        self.before: set[str] = set()

    def __enter__(self) -> Self:
        """Make the namespace."""
        there = self.kubectl("get", "crd", "--output=name").split()
        if mine := [name for name in there if name.endswith(".headwater.dev")]:
            pytest.exit(
                f"{', '.join(mine)} are on this cluster already. The journey installs Headwater "
                "and removes it, with all StreamApps: uninstall as docs/install.md says, or take "
                "another cluster",
                returncode=2,
            )
        _make_namespace(self.kubectl)
        wait_for(
            lambda: {"serviceaccount/default", "configmap/kube-root-ca.crt"} <= self.everything(),
            what=f"what every namespace has in {self.namespace}",
            timeout_s=PATIENCE_S,
            every_s=1,
        )
        self.before = self.everything()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove what is left, however far the journey has come."""
        _delete_app(self.kubectl)
        self.helm.run("uninstall", RELEASE, "--wait", "--ignore-not-found")
        self.kubectl.run("delete", "--filename", str(CRDS), "--ignore-not-found")
        _delete_namespace(self.kubectl)

    @contextmanager
    def beside(self) -> Iterator[Command]:
        """Another namespace, for somebody else's application; yields his ``kubectl``."""
        kubectl = replace(self.kubectl, namespace=f"{self.namespace}-beside")
        _make_namespace(kubectl)
        try:
            yield kubectl
        except BaseException:
            print(_explain(kubectl))
            raise
        finally:
            _delete_app(kubectl)
            _delete_namespace(kubectl)

    # -- what the user does ------------------------------------------------------------------

    def install(self) -> None:
        """Install the chart from this directory."""
        values = json.dumps(chart_values(self.settings))
        options = ("--values=-", "--wait", f"--timeout={PATIENCE_S}s")
        say(self.helm("install", RELEASE, str(CHART), *options, stdin=values))

    def apply(self, *manifests: Manifest) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--filename=-", stdin=json.dumps(items))

    def patch(self, **spec: object) -> None:
        """Change fields of the StreamApp's specification."""
        change = json.dumps({"spec": spec})
        self.kubectl("patch", "sapp", APP, "--type=merge", f"--patch={change}")

    def scale(self, replicas: int) -> None:
        self.kubectl("scale", f"sapp/{APP}", f"--replicas={replicas}")

    def printed_by(self, image: str, *command: str) -> str:
        """Run a command in an image, as restricted as workers are; return what it prints."""
        name = f"once-{uuid4().hex[:6]}"
        self.apply(restricted_pod(name, image, *command))
        try:
            self.until(lambda: self._phase(name) in ("Succeeded", "Failed"), f"{name} to end")
            said = self.kubectl("logs", name)
            assert self._phase(name) == "Succeeded", said
        finally:
            self.kubectl("delete", "pod", name, f"--timeout={PATIENCE_S}s")
        return said

    def _phase(self, pod: str) -> str:
        return str(self.get("pod", pod)["status"].get("phase"))

    # -- what he sees ------------------------------------------------------------------------

    def list(self, kind: str, *options: str) -> list[Manifest]:
        found: list[Manifest] = json.loads(self.kubectl("get", kind, *options, "--output=json"))[
            "items"
        ]
        return found

    def get(self, kind: str, name: str) -> Manifest:
        found: Manifest = json.loads(self.kubectl("get", kind, name, "--output=json"))
        return found

    def app(self) -> Manifest:
        return self.get("sapp", APP)

    def autoscaled(self) -> int:
        """The number of workers that autoscaling has decided; 0 before it has."""
        status = self.app().get("status") or {}
        return int((status.get("autoscaling") or {}).get("replicas", 0))

    def conditions(self, *kinds: str) -> list[tuple[str, str, str]]:
        """Status, reason and message of conditions of the StreamApp, as they are at one moment."""
        status = self.app().get("status") or {}
        return [condition_in(status, kind) for kind in kinds]

    def lets_claims_grow(self, claim: str) -> bool:
        """Whether the storage class of a claim lets it ask for more."""
        found = self.get("storageclass", self.get("pvc", claim)["spec"]["storageClassName"])
        return bool(found.get("allowVolumeExpansion"))

    def sizes(self, claims: Collection[str]) -> set[str]:
        """How much the volumes of some claims hold, as their provisioner says."""
        return {self.get("pvc", name)["status"]["capacity"]["storage"] for name in claims}

    def names_too_small(self, claims: Collection[str]) -> bool:
        """Whether the StreamApp says of each of these claims that it cannot grow, and why."""
        _, reason, message = self.conditions("Degraded")[0]
        return reason == "VolumeTooSmall" and all(name in message for name in claims)

    def pods(self) -> dict[str, Manifest]:
        """The workers' pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.list("pods", f"-l{_WORKERS}")}

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def of_kind(self, component: str) -> dict[str, str]:
        """Uids by name of the application's pods of a kind that run and are there to stay."""
        labels = f"-l{_MINE},app.kubernetes.io/component={component}"
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.list("pods", labels)
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        }

    def driver(self) -> str:
        """The uid of the pod of Spark's driver; empty if none runs."""
        return self.of_kind("driver").get(DRIVER, "")

    def is_on_spark(self, executors: int, *, but: str = "") -> bool:
        """Whether Spark runs all tasks with so many executors, by another driver than ``but``."""
        status = self.app().get("status") or {}
        engine = status.get("engine") or {}
        return (
            (engine.get("name"), engine.get("driver")) == ("Spark", "RUNNING")
            and condition_in(status, "Ready")[:2] == ("True", "Running")
            and status.get("replicas") == status.get("readyReplicas") == executors
            and len(self.of_kind("executor")) == executors
            and self.driver() not in ("", but)
            and not self.pods()
        )

    def until_on_spark(self, executors: int, *, but: str = "") -> None:
        self.until(
            lambda: self.is_on_spark(executors, but=but),
            f"a driver and {executors} executors to run all tasks",
        )

    def pods_on(self, nodes: Collection[str]) -> list[str]:
        """The workers' pods on some nodes."""
        return sorted(
            name for name, pod in self.pods().items() if pod["spec"].get("nodeName") in nodes
        )

    def ready_pods(self) -> list[str]:
        """The workers' pods that Kubernetes takes for ready, and that are there to stay."""
        return [
            name
            for name, pod in self.pods().items()
            if "deletionTimestamp" not in pod["metadata"] and _is_ready(pod)
        ]

    def images(self) -> set[str]:
        """The images of the pods that are not on their way out."""
        return {
            container["image"]
            for pod in self.pods().values()
            for container in pod["spec"]["containers"]
            if "deletionTimestamp" not in pod["metadata"]
        }

    def granted(self) -> dict[str, int]:
        """How many tasks each worker was granted."""
        return {name: len(tasks) for name, tasks in self.held().items()}

    def held(self) -> dict[str, list[str]]:
        """The tasks that each worker was granted."""
        workers = self.list("sw", f"-l{_MINE}")
        return {each["metadata"]["name"]: each["spec"].get("active", []) for each in workers}

    def threads(self) -> dict[str, int]:
        """How many StreamThreads each worker was told to have, once it has acknowledged that."""
        return {
            each["metadata"]["name"]: each["spec"].get("threads", 0)
            for each in self.list("sw", f"-l{_MINE}")
            if each["spec"].get("active")
            and each["status"].get("acknowledgedEpoch") == each["spec"]["epoch"]
        }

    def is_settled(self, replicas: int) -> bool:
        """Whether so many workers run all tasks, as the present specification wants it."""
        app = self.app()
        status = app.get("status") or {}
        return (
            status.get("observedGeneration") == app["metadata"]["generation"]
            and condition_in(status, "Ready")[:2] == ("True", "Running")
            and condition_in(status, "AssignmentConverged")[0] == "True"
            and status.get("replicas") == status.get("readyReplicas") == replicas
            and status.get("updatedReplicas") == replicas
            and len([own for own in self.granted().values() if own]) == replicas
            and len(self.ready_pods()) == replicas
        )

    def runs_all_tasks(self) -> bool:
        """Whether every task runs, though perhaps not in the workers that are wanted."""
        status = self.app().get("status") or {}
        tasks = status.get("tasks") or {}
        return status.get("state") == "RUNNING" and 0 < tasks["total"] == tasks["running"]

    def runs_without(self, worker: str) -> bool:
        """Whether all tasks run although a worker has none."""
        tasks, granted = (self.app().get("status") or {})["tasks"], self.granted()
        own = granted.pop(worker, 0)
        return own == 0 and sum(granted.values()) == tasks["total"] == tasks["running"]

    def until_settled(self, replicas: int) -> None:
        self.until(lambda: self.is_settled(replicas), f"{replicas} workers to run all tasks")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something is so. Each look starts kubectl, up to four times."""
        wait_for(condition, what=what, timeout_s=PATIENCE_S, every_s=2)

    def nodes_away(self) -> list[str]:
        """The nodes that are not Ready."""
        return [node["metadata"]["name"] for node in self.list("nodes") if not _is_ready(node)]

    def everything(self) -> set[str]:
        """Names of all that is in the namespace."""
        kinds = self.kubectl(
            "api-resources", "--namespaced", "--verbs=list", "--output=name"
        ).split()
        listed = ",".join(kind for kind in kinds if not kind.startswith(_OTHERS))
        return set(self.kubectl("get", listed, "--output=name").split())

    def of_the_cluster(self) -> set[str]:
        """Names of what is of ours outside of every namespace."""
        found = self.kubectl("get", _OF_THE_CLUSTER, "--output=name").split()
        return {name for name in found if self.namespace in name or "headwater.dev" in name}

    def image_bytes(self, image: str) -> int | None:
        return image_bytes(self.list("nodes"), image)

    def operator_log(self) -> str:
        return self.kubectl("logs", f"deployment/{RELEASE}-operator", "--tail=-1")

    def explain(self) -> str:
        """All that there is to see and read."""
        return _explain(self.kubectl)


def restricted_pod(name: str, image: str, *command: str) -> Manifest:
    """Return a pod that ends with its command, and that a restricted namespace takes."""
    container = {
        "name": "only",
        "image": image,
        "command": list(command),
        "securityContext": {
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"containers": [container], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _make_namespace(kubectl: Command) -> None:
    """Make the namespace that ``kubectl`` works in; it takes restricted pods only."""
    kubectl("create", "namespace", kubectl.namespace)
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    kubectl("label", "namespace", kubectl.namespace, restricted)


def _delete_app(kubectl: Command) -> None:
    """Delete the application, also if there is no operator any more to let go of it."""
    kubectl.run("delete", "sapp", "--all", "--timeout=120s")
    bare = '{"metadata":{"finalizers":null}}'
    kubectl.run("patch", "sapp", APP, "--type=merge", f"--patch={bare}")


def _delete_namespace(kubectl: Command) -> None:
    kubectl.run("delete", "namespace", kubectl.namespace, "--timeout=300s")


def _explain(kubectl: Command) -> str:
    pods = kubectl.run("get", "pods", "--output=name").stdout.split()
    asked: Collection[tuple[str, ...]] = (
        ("get", "nodes", "--output=wide"),
        ("get", "all,pvc,leases,sapp,sw", "--output=wide"),
        ("describe", "sapp"),
        ("describe", "sw"),
        ("describe", "pods"),
        ("get", "events", "--sort-by=.metadata.creationTimestamp"),
        *(("logs", pod, "--tail=200") for pod in pods),
    )
    return "\n".join(
        f"$ kubectl {' '.join(each)}\n{done.stdout}{done.stderr}"
        for each in asked
        for done in [kubectl.run(*each)]
    )


def _is_ready(manifest: Manifest) -> bool:
    """Whether a pod or node is."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _program(name: str) -> Path:
    """A program as the tests have it, else as the machine has it."""
    try:
        return programs.find(name)
    except programs.ProgramsMissingError as error:
        found = shutil.which(name)
        if found is None:
            pytest.exit(f"{error}; or put {name} on the path", returncode=2)
        return Path(found)


def say(text: str) -> None:
    """Print what the user sees."""
    print(f"\n{text.rstrip()}", flush=True)


def shell(command: str) -> None:
    """Run a command that this cluster's owner has given."""
    done = subprocess.run(["bash", "-c", command], timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}"
