"""``kubectl headwater`` as kubectl finds it, at a real API server, with its user's own rights."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from examples.word_count.app import build

from headwater.dsl.loading import build_topology
from headwater.version import VERSION
from headwater_operator.kube.api import PODS, STREAM_APPS
from tests.kube.journey import TASKS
from tests.kube.shell import Shell
from tests.kube.streamactions import complete, create
from tests.support.kube_fakes import topology
from tests.support.page_events import seen

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.journey import Journey

pytestmark = pytest.mark.usefixtures("installation")

TTL = "ttlSecondsAfterFinished"
LOOKER = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: looker}
rules:
  - {apiGroups: [headwater.dev], resources: [streamapps], verbs: [get, list]}
  - {apiGroups: [headwater.dev], resources: [streamworkers], verbs: [list]}
"""


def account(user: Journey, directory: Path) -> Path:
    """Make a service account that may look at StreamApps and StreamWorkers; return its config."""
    user.kubectl("apply", "--filename=-", stdin=LOOKER)
    user.kubectl("create", "serviceaccount", "ann")
    who = f"--serviceaccount={user.namespace}:ann"
    user.kubectl("create", "rolebinding", "ann", "--role=looker", who)
    view = user.kubectl("config", "view", "--raw", "--minify", "--flatten", "-ojson")
    config = json.loads(view)
    config["users"][0]["user"] = {"token": user.kubectl("create", "token", "ann").strip()}
    path = directory / "ann.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def see(user: Journey, shell: Shell) -> None:
    """See what there is to see."""
    shown = shell.document("status wc")
    assert (shown["isReady"], shown["state"], shown["version"]) == (True, "RUNNING", VERSION)
    assert [task["task"] for task in shown["tasks"]] == TASKS
    assert "wc" in shell.run("status")
    held = {task: worker for worker, tasks in user.held().items() for task in tasks}
    told = shell.document("why 1_0 --app wc")
    assert told["row"]["worker"] == held["1_0"]
    assert told["row"]["copies"][0]["isCaughtUp"]
    assert told["sinceMs"] is not None
    assert "lags of copies are the rounded ones" in shell.run("tasks")
    assert "SUB-TOPOLOGY" in shell.run("lag wc")
    assert "Sub-topology: 1   (2 tasks" in shell.run("topology")
    assert 'subgraph g1["Sub-topology 1 · 2 tasks' in shell.run("topology -o mermaid")
    assert ET.fromstring(shell.run("topology -o svg")).tag.endswith("svg")
    with shell.page() as url:
        assert set(seen(url, f"{user.namespace}/wc")["tasks"]) == set(TASKS)
    assert shell.completed("ta") == ["tasks"]
    assert shell.completed(f"why --namespace {user.namespace} --app wc 1") == ["1_0", "1_1"]
    assert "the operator is" not in shell.run_as(VERSION, "status wc")
    told = shell.run_as("0.0.9", "status wc")
    assert f"this command is Headwater 0.0.9, the operator is {VERSION}" in told
    assert f"pip install 'headwater[kubectl]=={VERSION}'" in told
    # No worker listens, and there is no kubelet.
    assert "wc-w-" in shell.run("query counts-store a --app wc", code=3)
    assert "wc-w-" in shell.run("logs wc", code=3)


def carry_out(user: Journey, shell: Shell) -> None:
    """Do what is carried out step by step."""
    before = user.uids()
    assert "Complete" in shell.run("drain 1 --app wc")
    user.until(user.is_settled, "everything to run")
    assert user.uid(PODS, "wc-w-1") != before["wc-w-1"]
    assert user.uid(PODS, "wc-w-0") == before["wc-w-0"]

    task, to = next(
        (task, f"wc-w-{1 - int(name[-1])}") for name, tasks in user.held().items() for task in tasks
    )
    assert "Complete" in shell.run(f"move {task} {to}")
    assert task in user.held()[to]

    before = user.uids()
    assert "Complete" in shell.run("restart wc --worker 0")
    user.until(user.is_settled, "everything to run")
    assert user.uid(PODS, "wc-w-0") != before["wc-w-0"]
    assert user.uid(PODS, "wc-w-1") == before["wc-w-1"]

    # It is not there any more a second after its end.
    create(user, "short", type="Restart", restart={"workers": ["wc-w-0"]}, **{TTL: 1})
    create(user, "long", type="Restart", restart={"workers": ["wc-w-1"]})
    complete(user, "long")
    user.kubectl("wait", "sact/short", "--for=delete", "--timeout=280s")
    assert "long" in user.kubectl("get", "sact", "--output=name")
    user.until(user.is_settled, "everything to run")

    before = user.uids()
    assert "wc is reset, and begins " in shell.run("reset wc --to-earliest --yes")
    user.until(user.is_settled, "everything to run")
    assert not set(user.uids().values()) & set(before.values())


def see_with_few_rights(user: Journey, shell: Shell) -> None:
    """Look on as somebody who may do no more: what he lacks is told."""
    shown = shell.document("status wc")

    assert [task["task"] for task in shown["tasks"]] == TASKS
    for plural in ("pods", "leases", "events"):
        assert f"the right to list {plural} in namespace {user.namespace}" in shown["inexact"]
    refused = shell.run("pause wc", code=3)
    assert 'cannot patch resource "streamapps"' in refused
    assert "--verb=patch --resource=streamapps.headwater.dev" in refused
    assert 'cannot create resource "streamactions"' in shell.run("restart wc --no-wait", code=3)


@pytest.mark.sampled
def test_every_word_does_on_a_real_api_server_what_it_says(user: Journey, tmp_path: Path) -> None:
    report = replace(topology("wc"), description=build_topology(build).describe())
    user.workers.reports["wc"] = report
    user.begin(assignment={"standbyReplicas": 1})
    user.until(lambda: user.condition("StandbysReady")[0] == "True", "standbys to catch up")
    shell = Shell(user, user.kubectl.kubeconfig)

    see(user, shell)
    see_with_few_rights(user, Shell(user, account(user, tmp_path)))

    # What is changed in the specification.
    shell.run("pause wc")
    user.until(lambda: user.condition("Paused")[0] == "True", "the pause")
    shell.run("resume wc")
    shell.run("scale wc --threads 2")
    found = user.api.get(STREAM_APPS, user.namespace, "wc")
    assert found is not None
    assert (found["spec"]["threadsPerWorker"], found["spec"]["paused"]) == (2, False)
    user.until(user.is_settled, "everything to run")

    carry_out(user, shell)

    # What a bug report needs.
    file = tmp_path / "report.zip"
    shell.run(f"report wc --file {file}")
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        versions = json.loads(archive.read("versions.json"))
    assert {"status.txt", "resources/streamapps.yaml", "resources/events.yaml"} <= names
    assert versions["kubernetes"].startswith("v1.")

    assert "there is no StreamApp 'nobody'" in shell.run("status nobody", code=2)
    assert "wc has no task 7_7" in shell.run("why 7_7", code=2)
