"""What the process kubelet promises: pods are what they are on a real node, and faults are real."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from headwater_operator.kube.api import (
    CLAIMS,
    CONFIG_MAPS,
    EVENTS,
    NODES,
    PODS,
    VOLUMES,
    Resource,
)
from headwater_operator.kube.errors import ForbiddenError
from tests.kube.kubelet.cluster import PYTHON
from tests.kube.kubelet.runs import CannotRunError, Run
from tests.kube.kubelet.storage import LOCAL, ZONAL
from tests.kube.kubelet.volumes import SECRETS
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater_operator.kube.client import KubeClient
    from tests.kube.control_plane import ControlPlane
    from tests.kube.kubelet.cluster import Cluster

Manifest = dict[str, Any]

SHOW = """
import json, os, pathlib, sys
told = {name: os.environ.get(name) for name in sys.argv[1:]}
files = {name: pathlib.Path(path).read_text() for name, path in told.items()
         if path and os.path.isfile(path)}
print(json.dumps({"told": told, "files": files}))
"""
SERVE = """
import http.server, os, pathlib, signal
place = pathlib.Path(os.environ["PLACE"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if (place / self.path[1:]).exists() else 503)
        self.end_headers()
http.server.ThreadingHTTPServer((os.environ["IP"], 8080), Handler).serve_forever()
"""
LINGER = """
import signal, subprocess, sys, time
def term(*_):
    print("told to end", flush=True)
    if sys.argv[1] == "well":
        sys.exit(3)
signal.signal(signal.SIGTERM, term)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"],
                         start_new_session=True)
print("began", flush=True)
while True:
    signal.pause()
"""
COUNT = """
import itertools, threading
for n in itertools.count():
    print(n, flush=True)
    threading.Event().wait(0.01)
"""
_REVIEWS = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", False)


class User:
    """Somebody with pods in a namespace of his own."""

    def __init__(self, api: KubeClient, namespace: str, cluster: Cluster) -> None:
        self.api = api
        self.namespace = namespace
        self.cluster = cluster

    def run(self, name: str, code: str, *arguments: str, **more: Any) -> None:
        """Make a pod that runs a Python program; capitalized names go to its container."""
        container = {
            "name": "main",
            "image": PYTHON,
            "command": ["python", "-c", code, *arguments],
            **{key[1:]: value for key, value in more.items() if key.startswith("_")},
        }
        spec = {key: value for key, value in more.items() if not key.startswith("_")}
        self.api.create(
            PODS,
            {
                "metadata": {"name": name, "namespace": self.namespace, "labels": {"l": "x"}},
                "spec": {"restartPolicy": "Never", "containers": [container], **spec},
            },
        )

    def make(self, resource: Any, name: str, **more: Any) -> None:
        self.api.create(resource, {"metadata": self._named(name), **more})

    def _named(self, name: str) -> Manifest:
        return {"name": name, "namespace": self.namespace}

    def claim(self, name: str, storage_class: str = ZONAL) -> Manifest:
        """Make a claim; return a volume of it."""
        spec = {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self.make(CLAIMS, name, spec=spec)
        return {"name": "state", "persistentVolumeClaim": {"claimName": name}}

    def pod(self, name: str) -> Manifest:
        return self.api.get(PODS, self.namespace, name) or {}

    def status(self, name: str) -> Manifest:
        return self.pod(name).get("status") or {}

    def container(self, name: str) -> Manifest:
        found = self.status(name).get("containerStatuses") or [{"state": {}}]
        first: Manifest = found[0]
        return first

    def condition(self, name: str, kind: str) -> str:
        found = self.status(name).get("conditions") or ()
        return next((each["status"] for each in found if each["type"] == kind), "")

    def waits_for(self, name: str) -> Manifest:
        waiting: Manifest = self.container(name)["state"].get("waiting") or {}
        return waiting

    def events(self, name: str) -> list[str]:
        return [
            f"{each['reason']}: {each['message']}"
            for each in self.api.list(EVENTS, self.namespace)
            if each["involvedObject"]["name"] == name
        ]

    def log(self, name: str) -> str:
        return self.cluster.log(self.namespace, name)

    def delete(self, name: str, grace_s: int | None = None) -> None:
        self.api.delete(PODS, self.namespace, name, grace_s=grace_s)

    def until(self, condition: Callable[[], object], what: str, name: str) -> None:
        try:
            wait_for(condition, what=what)
        except AssertionError as error:
            seen = [self.status(name), self.events(name), self.log(name), self.cluster.errors]
            raise AssertionError(f"{error}\n{json.dumps(seen, default=str, indent=1)}") from error

    def until_phase(self, name: str, phase: str) -> Manifest:
        """Wait until a pod is in a phase; return its container's state."""
        self.until(lambda: self.status(name).get("phase") == phase, f"{name} {phase}", name)
        state: Manifest = self.container(name)["state"]
        return state

    def until_says(self, name: str, text: str) -> None:
        self.until(lambda: text in self.log(name), f"{name} to say {text!r}", name)

    def until_gone(self, name: str) -> None:
        self.until(lambda: not self.pod(name), f"{name} to go", name)


@pytest.fixture
def user(admin: KubeClient, namespace: str, cluster: Cluster) -> User:
    return User(admin, namespace, cluster)


def shown(user: User, name: str) -> Manifest:
    printed: Manifest = json.loads(user.log(name))
    return printed


def test_a_container_gets_what_its_variables_ask_for(user: User) -> None:
    user.make(CONFIG_MAPS, "settings", data={"colour": "blue", "SIZE": "3"})
    user.make(SECRETS, "keys", stringData={"password": "hunter2"})
    chosen = {
        "NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        "LABEL": {"fieldRef": {"fieldPath": "metadata.labels['l']"}},
        "NODE": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "IP": {"fieldRef": {"fieldPath": "status.podIP"}},
        "COLOUR": {"configMapKeyRef": {"name": "settings", "key": "colour"}},
        "PASSWORD": {"secretKeyRef": {"name": "keys", "key": "password"}},
        "ABSENT": {"secretKeyRef": {"name": "none", "key": "x", "optional": True}},
    }
    env = [{"name": name, "valueFrom": origin} for name, origin in chosen.items()]
    env += [{"name": "BOTH", "value": "$(NAME)-$(SIZE)-$$(SIZE)-$(NONE)"}]
    names = [*chosen, "SIZE", "BOTH", "HOME", "KUBERNETES_SERVICE_HOST"]

    user.run("one", SHOW, *names, _env=env, _envFrom=[{"configMapRef": {"name": "settings"}}])

    assert user.until_phase("one", "Succeeded")["terminated"]["exitCode"] == 0
    status, pod = user.status("one"), user.pod("one")
    assert shown(user, "one")["told"] == {
        "NAME": "one",
        "NAMESPACE": user.namespace,
        "LABEL": "x",
        "NODE": pod["spec"]["nodeName"],
        "IP": status["podIP"],
        "COLOUR": "blue",
        "PASSWORD": "hunter2",
        "ABSENT": None,
        "SIZE": "3",
        "BOTH": "one-3-$(SIZE)-$(NONE)",
        "HOME": None,
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
    }
    assert status["podIP"].startswith(("198.18.", "198.19.", "127."))


def test_a_path_of_a_mount_leads_to_the_files_of_its_volume(
    user: User, control_plane: ControlPlane
) -> None:
    user.make(CONFIG_MAPS, "settings", data={"a": "plain"})
    user.make(SECRETS, "keys", stringData={"password": "hunter2"})
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca"}]}},
        {"secret": {"name": "keys", "items": [{"key": "password", "path": "deep/word"}]}},
        {"secret": {"name": "none", "optional": True}},
        {"downwardAPI": {"items": [{"path": "me", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "all", "projected": {"sources": sources}},
        {"name": "free", "emptyDir": {}},
    ]
    paths = {"settings": "/etc/set", "keys": "/etc/keys", "all": "/etc/all", "free": "/tmp"}
    told = {
        "PLAIN": "/etc/set/a",
        "WORD": "/etc/keys/password",
        "TOKEN": "/etc/all/token",
        "CA": "/etc/all/ca",
        "DEEP": "/etc/all/deep/word",
        "ME": "/etc/all/me",
        "FREE": "/tmp",
        "OTHER": "/etc/settled",
    }

    user.run(
        "one",
        SHOW,
        *told,
        volumes=volumes,
        _volumeMounts=[{"name": name, "mountPath": path} for name, path in paths.items()],
        _env=[{"name": name, "value": value} for name, value in told.items()],
    )

    user.until_phase("one", "Succeeded")
    printed = shown(user, "one")
    token = printed["files"].pop("TOKEN")
    assert printed["files"] == {
        "PLAIN": "plain",
        "WORD": "hunter2",
        "CA": control_plane.ca_certificate.read_text(),
        "DEEP": "hunter2",
        "ME": "one",
    }
    assert printed["told"]["OTHER"] == "/etc/settled"
    assert printed["told"]["FREE"].endswith("/volumes/free")
    review = user.api.create(_REVIEWS, {"metadata": {}, "spec": {"token": token}})["status"]
    assert review["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["one"]


def test_how_a_process_ended_is_reported_with_its_last_words(user: User) -> None:
    dies = "import sys; print('before', flush=True); sys.exit('broken: the cause')"

    user.run("one", dies, _terminationMessagePolicy="FallbackToLogsOnError")

    ended = user.until_phase("one", "Failed")["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (1, "Error")
    assert ended["message"] == "before\nbroken: the cause"
    assert user.condition("one", "Ready") == "False"


def beside(name: str, code: str, **more: Any) -> Manifest:
    """A container that writes where the pod's own reads."""
    return {
        "name": name,
        "image": PYTHON,
        "command": ["python", "-c", textwrap.dedent(code)],
        "env": [{"name": "PLACE", "value": "/place"}],
        "volumeMounts": [{"name": "place", "mountPath": "/place"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **more,
    }


ADD = """
import os, pathlib, signal, sys
with pathlib.Path(os.environ["PLACE"], "{name}").open("a") as file:
    file.write("x")
"""
FALL = f"""
{ADD.format(name="side")}
if pathlib.Path(os.environ["PLACE"], "side").read_text() == "x":
    sys.exit(4)
signal.pause()
"""
WAIT_FOR_BOTH = """
import os, pathlib, threading
place = pathlib.Path(os.environ["PLACE"])
assert (place / "fetched").exists()
while not (place / "side").exists() or (place / "side").read_text() != "xx":
    threading.Event().wait(0.05)
"""


def test_containers_before_a_pods_own_come_in_turn_and_sidecars_stay_until_it_has_ended(
    user: User,
) -> None:
    user.run(
        "p",
        WAIT_FOR_BOTH,
        _env=[{"name": "PLACE", "value": "/place"}],
        _volumeMounts=[{"name": "place", "mountPath": "/place"}],
        volumes=[{"name": "place", "emptyDir": {}}],
        initContainers=[
            beside("fetch", ADD.format(name="fetched")),
            beside("side", FALL, restartPolicy="Always"),
        ],
    )
    user.until_phase("p", "Succeeded")

    fetch, side = user.status("p")["initContainerStatuses"]
    assert fetch["state"]["terminated"]["exitCode"] == 0
    assert side["restartCount"] == 1
    assert "terminated" in side["state"]


def test_an_init_container_that_fails_fails_its_pod_and_its_container_never_begins(
    user: User,
) -> None:
    user.run(
        "p",
        "print('began')",
        volumes=[{"name": "place", "emptyDir": {}}],
        initContainers=[
            beside("side", "import signal; signal.pause()", restartPolicy="Always"),
            beside("fetch", "import sys; sys.exit('no model there')"),
        ],
    )

    state = user.until_phase("p", "Failed")

    assert state["waiting"]["reason"] == "PodInitializing"
    side, fetch = user.status("p")["initContainerStatuses"]
    assert fetch["state"]["terminated"]["exitCode"] == 1
    assert fetch["state"]["terminated"]["message"] == "no model there"
    assert "terminated" in side["state"]
    user.delete("p")
    user.until_gone("p")


def test_a_container_that_failed_is_started_again_if_its_policy_says_so(user: User) -> None:
    code = """
import os, pathlib, sys
place = pathlib.Path(os.environ["PLACE"])
count = place / "count"
count.write_text(str(int(count.read_text() if count.exists() else 0) + 1))
sys.exit(0 if (place / "well").exists() else 7)
"""

    user.run(
        "one",
        code,
        restartPolicy="OnFailure",
        volumes=[user.claim("state")],
        _volumeMounts=[{"name": "state", "mountPath": "/state"}],
        _env=[{"name": "PLACE", "value": "/state"}],
    )

    user.until(
        lambda: user.waits_for("one").get("reason") == "CrashLoopBackOff", "a back-off", "one"
    )
    claim = user.api.get(CLAIMS, user.namespace, "state") or {}
    place = user.cluster.storage.path(claim["spec"]["volumeName"])
    (place / "well").touch()
    assert user.until_phase("one", "Succeeded")["terminated"]["exitCode"] == 0
    runs = int((place / "count").read_text())
    assert user.container("one")["restartCount"] == runs - 1 > 0
    assert user.container("one")["lastState"]["terminated"]["exitCode"] == 7


def test_readiness_comes_and_goes_and_a_quiet_pod_is_not_written(user: User) -> None:
    def ask(path: str, failures: int) -> Manifest:
        asked = {"path": path, "port": "http"}
        return {
            "httpGet": asked,
            "periodSeconds": 1,
            "timeoutSeconds": 30,
            "failureThreshold": failures,
        }

    volume = user.claim("state")
    user.run(
        "one",
        SERVE,
        restartPolicy="Always",
        volumes=[volume],
        _ports=[{"name": "http", "containerPort": 8080}],
        _volumeMounts=[{"name": "state", "mountPath": "/state"}],
        _env=[
            {"name": "PLACE", "value": "/state"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        _startupProbe=ask("/started", 100),
        _livenessProbe=ask("/alive", 3),
        _readinessProbe=ask("/ready", 1),
    )
    user.until_phase("one", "Running")
    claim = user.api.get(CLAIMS, user.namespace, "state") or {}
    place = user.cluster.storage.path(claim["spec"]["volumeName"])

    for name in ("ready", "alive"):
        (place / name).touch()
    assert not user.container("one")["started"]
    (place / "started").touch()
    user.until(lambda: user.condition("one", "Ready") == "True", "Ready", "one")
    version = user.pod("one")["metadata"]["resourceVersion"]
    user.run("meanwhile", "")
    user.until_phase("meanwhile", "Succeeded")
    assert user.pod("one")["metadata"]["resourceVersion"] == version
    (place / "ready").unlink()
    user.until(lambda: user.condition("one", "Ready") == "False", "not Ready", "one")
    (place / "ready").touch()
    user.until(lambda: user.condition("one", "Ready") == "True", "Ready again", "one")
    assert user.container("one")["restartCount"] == 0

    (place / "alive").unlink()
    user.until(lambda: user.container("one")["restartCount"] == 1, "a new start", "one")
    assert user.container("one")["lastState"]["terminated"]["exitCode"] == 143


def test_a_deleted_pod_is_told_to_end_and_given_its_grace(user: User) -> None:
    user.run("well", LINGER, "well", terminationGracePeriodSeconds=60)
    user.run("never", LINGER, "never", terminationGracePeriodSeconds=5)
    for name in ("well", "never"):
        user.until_says(name, "began")
    processes = [p for name in ("well", "never") for p in _processes(user, name)]
    assert len(processes) == 4

    for name in ("well", "never"):
        user.delete(name)
        user.until_gone(name)

    assert user.log("well") == user.log("never") == "began\ntold to end\n"
    assert not any(process.is_running() for process in processes)


def _processes(user: User, name: str) -> list[Any]:
    def both() -> list[Any]:
        found = user.cluster.processes(user.namespace, name)
        return found if len(found) == 2 else []

    return wait_for(both, what=f"the processes of {name}")


def test_what_a_claim_holds_outlives_pods_and_goes_with_the_claim(user: User) -> None:
    code = """
import os, pathlib
kept = pathlib.Path(os.environ["PLACE"], "kept")
print(kept.read_text() if kept.exists() else "nothing", flush=True)
kept.write_text("something")
"""
    volume = user.claim("state", LOCAL)
    for name in ("first", "second"):
        user.run(
            name,
            code,
            volumes=[volume],
            _volumeMounts=[{"name": "state", "mountPath": "/state"}],
            _env=[{"name": "PLACE", "value": "/state"}],
        )
        user.until_phase(name, "Succeeded")
    assert user.log("first") + user.log("second") == "nothing\nsomething\n"
    assert user.pod("first")["spec"]["nodeName"] == user.pod("second")["spec"]["nodeName"]
    claim = user.api.get(CLAIMS, user.namespace, "state") or {}
    name = claim["spec"]["volumeName"]
    assert claim["status"]["capacity"]["storage"] == "1Gi"

    for pod in ("first", "second"):
        user.delete(pod)
    user.api.delete(CLAIMS, user.namespace, "state")

    wait_for(lambda: user.api.get(VOLUMES, None, name) is None, what="the volume to go")
    assert not user.cluster.storage.path(name).exists()


def test_what_is_missing_is_named_and_a_pod_goes_on_once_it_is_there(user: User) -> None:
    reference = {"secretKeyRef": {"name": "keys", "key": "a"}}
    user.run("one", "", _env=[{"name": "A", "valueFrom": reference}])
    volume = {"name": "keys", "secret": {"secretName": "keys"}}
    user.run("two", "", volumes=[volume], _volumeMounts=[{"name": "keys", "mountPath": "/keys"}])
    user.run("three", "", _image="headwater-test/missing:1")

    user.until(
        lambda: user.waits_for("one").get("reason") == "CreateContainerConfigError", "why", "one"
    )
    assert user.waits_for("one")["message"] == 'secret "keys" not found'
    said = 'FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found'
    user.until(lambda: said in user.events("two"), "the event", "two")
    user.until(
        lambda: user.waits_for("two").get("reason") == "ContainerCreating", "the state", "two"
    )
    user.until(lambda: user.waits_for("three").get("reason") == "ImagePullBackOff", "why", "three")
    assert user.status("three")["phase"] == "Pending"

    user.make(SECRETS, "keys", stringData={"a": "b"})
    for name in ("one", "two"):
        user.until_phase(name, "Succeeded")
    user.delete("three")
    user.until_gone("three")


def test_a_refused_volume_holds_its_pod_back(user: User) -> None:
    volume = user.claim("state")
    mounts = [{"name": "state", "mountPath": "/state"}]
    user.run("first", "", volumes=[volume], _volumeMounts=mounts)
    user.until_phase("first", "Succeeded")
    claim = user.api.get(CLAIMS, user.namespace, "state") or {}
    user.cluster.storage.refuse(claim["spec"]["volumeName"])

    user.run("second", "", volumes=[volume], _volumeMounts=mounts)
    user.until(
        lambda: any("FailedAttachVolume" in each for each in user.events("second")),
        "the event",
        "second",
    )
    assert user.status("second")["phase"] == "Pending"

    user.cluster.storage.accept(claim["spec"]["volumeName"])
    user.until_phase("second", "Succeeded")


def test_a_disk_serves_one_machine_at_a_time(user: User) -> None:
    volume = user.claim("state")
    mounts = [{"name": "state", "mountPath": "/state"}]
    for name, machine, code in (("first", "kubelet-a1", LINGER), ("second", "kubelet-a2", "")):
        place = {"kubernetes.io/hostname": machine}
        user.run(name, code, "well", nodeSelector=place, volumes=[volume], _volumeMounts=mounts)
        if name == "first":
            user.until_says("first", "began")
    user.until(
        lambda: any("Multi-Attach" in each for each in user.events("second")), "why", "second"
    )

    user.delete("first")

    user.until_phase("second", "Succeeded")


def test_a_volume_grows_with_its_claim_and_stays_if_it_is_to_be_retained(user: User) -> None:
    volume = user.claim("state")
    mounts = [{"name": "state", "mountPath": "/state"}]
    user.run("one", "", volumes=[volume], _volumeMounts=mounts)
    user.until_phase("one", "Succeeded")
    name = (user.api.get(CLAIMS, user.namespace, "state") or {})["spec"]["volumeName"]

    def patch(resource: Resource, namespace: str | None, name: str, path: str, value: str) -> None:
        user.api.patch(resource, namespace, name, [{"op": "replace", "path": path, "value": value}])

    def capacity() -> str:
        claim = user.api.get(CLAIMS, user.namespace, "state") or {}
        return str(claim["status"]["capacity"]["storage"])

    patch(CLAIMS, user.namespace, "state", "/spec/resources/requests/storage", "2Gi")
    wait_for(lambda: capacity() == "2Gi", what="the claim to grow")

    patch(VOLUMES, None, name, "/spec/persistentVolumeReclaimPolicy", "Retain")
    user.delete("one")
    user.api.delete(CLAIMS, user.namespace, "state")

    def phase() -> str:
        return str((user.api.get(VOLUMES, None, name) or {})["status"]["phase"])

    wait_for(lambda: phase() == "Released", what="the volume to be released")
    user.run("later", "")
    user.until_phase("later", "Succeeded")
    assert phase() == "Released"
    assert user.cluster.storage.path(name).is_dir()


def test_a_lost_node_has_no_process_left_and_is_reported(user: User) -> None:
    user.run("one", LINGER, "never", restartPolicy="Always", terminationGracePeriodSeconds=1)
    user.until_says("one", "began")
    node = user.cluster.node_of(user.namespace, "one")
    processes = _processes(user, "one")

    node.lose()
    try:
        assert not any(process.is_running() for process in processes)
        wait_for(lambda: _node_ready(user, node.name) == "Unknown", what="the node to be missed")
        wait_for(lambda: user.condition("one", "Ready") == "False", what="its pod not to be Ready")
        assert "running" in user.container("one")["state"]  # nobody is there to say otherwise
    finally:
        node.recover()
    wait_for(lambda: _node_ready(user, node.name) == "True", what="the node to be back")
    user.until(lambda: user.container("one")["restartCount"] == 1, "a new start", "one")
    user.delete("one")
    user.until_gone("one")


def _node_ready(user: User, name: str) -> str:
    found = user.api.get(NODES, None, name) or {}
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each["status"] for each in conditions if each["type"] == "Ready"), "")


def test_a_frozen_pod_does_nothing_until_it_is_thawed(user: User) -> None:
    user.run("one", COUNT, terminationGracePeriodSeconds=1)
    user.until_says("one", "5")

    user.cluster.freeze(user.namespace, "one")
    assert {each.status() for each in user.cluster.processes(user.namespace, "one")} == {"stopped"}
    before = user.log("one")
    user.run("two", "")
    user.until_phase("two", "Succeeded")
    assert user.log("one") == before

    user.cluster.thaw(user.namespace, "one")
    user.until(lambda: len(user.log("one")) > len(before), "it to go on", "one")
    # Stopped, it does not hear SIGTERM; SIGKILL it need not hear.
    user.cluster.freeze(user.namespace, "one")
    user.delete("one")
    user.until_gone("one")


def test_a_frozen_pod_that_is_killed_unnoticed_is_asked_again_once_it_has_been_restarted(
    user: User,
) -> None:
    user.run(
        "one",
        SERVE,
        restartPolicy="Always",
        volumes=[{"name": "place", "emptyDir": {}}],
        _ports=[{"name": "http", "containerPort": 8080}],
        _volumeMounts=[{"name": "place", "mountPath": "/place"}],
        _env=[
            {"name": "PLACE", "value": "/place"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        _readinessProbe={"tcpSocket": {"port": "http"}, "periodSeconds": 1, "timeoutSeconds": 30},
    )
    user.until(lambda: user.container("one").get("ready"), "it to be ready", "one")

    user.cluster.freeze(user.namespace, "one", is_noticed=False)
    user.cluster.kill(user.namespace, "one")

    user.until(
        lambda: user.container("one")["restartCount"] == 1 and user.container("one")["ready"],
        "it to be ready again",
        "one",
    )


def test_processes_go_on_without_a_kubelet_and_nobody_says_how_they_are(user: User) -> None:
    user.run("one", LINGER, "well", restartPolicy="Never")
    user.until_says("one", "began")
    node = user.cluster.node_of(user.namespace, "one")
    processes = _processes(user, "one")

    node.stop_kubelet()
    try:
        wait_for(lambda: _node_ready(user, node.name) == "Unknown", what="the node to be missed")
        assert all(process.is_running() for process in processes)
        user.cluster.kill(user.namespace, "one")
        assert "running" in user.container("one")["state"]
    finally:
        node.start_kubelet()

    assert user.until_phase("one", "Failed")["terminated"]["exitCode"] == 137


def test_a_pod_that_is_deleted_by_force_is_ended_all_the_same(user: User) -> None:
    user.run("one", LINGER, "well")
    user.until_says("one", "began")
    processes = _processes(user, "one")

    user.delete("one", grace_s=0)

    user.until_says("one", "told to end")
    wait_for(lambda: not any(p.is_running() for p in processes), what="its processes to end")


def test_a_kubelet_reads_secrets_of_its_pods_only(user: User) -> None:
    user.make(SECRETS, "keys", stringData={"a": "b"})
    node = next(iter(user.cluster.nodes.values()))

    with pytest.raises(ForbiddenError):
        node.api.get(SECRETS, user.namespace, "keys")


_OWNER = """
    import sys
    from pathlib import Path
    from tests.kube.kubelet.runs import Run
    place = Path(sys.argv[1])
    run = Run([sys.executable, "-c", sys.argv[2], "never"], environment={}, directory=place,
              log=place / "log")
    print(run.pid, flush=True)
    sys.stdin.read()
"""


def test_no_process_of_a_pod_outlives_the_tests_even_if_they_are_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_OWNER), str(tmp_path), LINGER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        program = psutil.Process(int(owner.stdout.readline()))
        wait_for(program.children, what="the child")
        processes = [program, *program.parents()[:1], *program.children()]

        owner.kill()

        wait_for(lambda: not any(each.is_running() for each in processes), what="their end")


def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    leaves = """
import subprocess, sys
left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(left.pid, flush=True)
sys.exit(5)
"""
    command = [sys.executable, "-W", "ignore", "-c", leaves]
    run = Run(command, environment={}, directory=tmp_path, log=tmp_path / "log")

    assert wait_for(lambda: run.exit_code, what="its end") == 5

    assert not psutil.pid_exists(int((tmp_path / "log").read_text()))


def test_a_program_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="No such file"):
        Run(["/no/such"], environment={}, directory=tmp_path, log=tmp_path / "log")
