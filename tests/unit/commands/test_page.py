"""Every command of docs/commands.md does what the page says, with the rights of its role."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support.kube_fakes import topology
from tests.support.kube_rig import KubeRig, streamapp
from tests.support.pages import blocks
from tests.support.served_model import ServedModel
from tests.unit.commands.conftest import DESCRIPTION

from headwater_operator.commands.plugin import main
from headwater_operator.kube.api import STREAM_ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

BIN = Path(sys.executable).parent
PLUGIN = "kubectl headwater "
LINES = [line for block in blocks("commands.md") for line in block.splitlines()]
NEEDS = {
    "patch": {"streamapps"},
    "create": {"streamactions"},
    "get": {"streamactions"},
}
"""What the table below the role adds to it."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[tuple[KubeRig, str]]:
    rig = KubeRig()
    report = replace(topology("word-count"), description=DESCRIPTION)
    rig.workers.reports["word-count"] = report
    rig.apply(streamapp("word-count", assignment={"standbyReplicas": 1}))
    rig.until(lambda: rig.is_ready("word-count"))
    served = ServedModel(rig.api)
    served.before = lambda _verb, plural: rig.turn(20) if plural == "streamactions" else None
    # Tasks move while the page is read: each worker knows the numbers of all.
    told = [
        {"task": task, "role": "Active", "lag": 7, "processed": 1}
        for task in rig.tasks("word-count")
    ]
    for worker in ("word-count-w-0", "word-count-w-1", "word-count-w-2"):
        document = {"worker": worker, "incarnation": "i", "threads": [], "tasks": told}
        served.pods[worker, "/tasks"] = json.dumps(document).encode()
        served.logs[worker] = "a line\n"
    [role] = blocks("commands.md", "yaml")
    granted = {
        (verb, resource)
        for rule in yaml.safe_load(role)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    granted |= {(verb, resource) for verb, more in NEEDS.items() for resource in more}
    refused: set[tuple[str, str]] = set()

    def refuse(verb: str, resource: str) -> bool:
        is_refused = (verb, resource) not in granted
        if is_refused:
            refused.add((verb, resource))
        return is_refused

    served.refuse = refuse
    server, config = served.serve(tmp_path)
    with server:
        yield rig, config
    # Only a report asks for more, and says what it has not got.
    assert {verb for verb, _ in refused} <= {"list"}


def test_every_command_of_the_page_runs(
    page: tuple[KubeRig, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, config = page
    monkeypatch.chdir(tmp_path)
    said = {}
    for line in LINES:
        if line.startswith("pip install"):
            continue  # the tests run with all extras installed
        if line.startswith(PLUGIN) and "&&" not in line:
            words = shlex.split(line.removeprefix(PLUGIN))
            code = main([*words, "--kubeconfig", config])
            said[line] = capsys.readouterr().out
        else:
            code, said[line] = in_a_shell(line, tmp_path, config)
        assert code == 0, (line, said[line])

    assert "Complete" in said["kubectl headwater drain word-count-w-1"]
    assert "Complete" in said["kubectl headwater move 1_0 word-count-w-1"]
    assert json.loads((tmp_path / "status.json").read_text())["app"] == "word-count"
    assert (tmp_path / "report.zip").exists()
    assert (tmp_path / "headwater.bash").read_text()
    assert "Sub-topology: 1" in said["kubectl headwater topology word-count"]
    assert len(rig.names(STREAM_ACTIONS)) == 4


def in_a_shell(line: str, directory: Path, config: str) -> tuple[int, str]:
    """Run a line; a ``kubectl`` of our own finds plug-ins as the real one does."""
    kubectl = directory / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nword=$1; shift; exec {BIN}/kubectl-"$word" "$@"\n')
    kubectl.chmod(0o755)
    path = os.pathsep.join([str(directory), str(BIN), os.environ["PATH"]])
    done = subprocess.run(
        ["/bin/bash", "-c", line],
        cwd=directory,
        env={**os.environ, "KUBECONFIG": config, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
