"""The commands of docs/install.md and docs/security.md, as they stand there and in that order."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube.definitions import install
from tests.kube.programs import find
from tests.support.pages import blocks
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

ROOT = Path(__file__).parents[2]
# The definitions are there, from the tests: as if by a release of another name.
_ADOPT = ("--take-ownership", "--force-conflicts")


def programs(directory: Path, kubeconfig: Path) -> None:
    """`helm` and `kubectl` as somebody has them who works on one cluster."""
    for name in ("helm", "kubectl"):
        script = directory / name
        more = f'[ "$1" = install ] && set -- "$@" {shlex.join(_ADOPT)}\n' if name == "helm" else ""
        script.write_text(f'#!/bin/sh\n{more}exec {find(name)} --kubeconfig={kubeconfig} "$@"\n')
        script.chmod(0o755)


def run(block: str, directory: Path, *, may_fail: bool = False) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert may_fail or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_commands_of_the_pages_do_what_is_said(
    kube_api: ApiClient, crds: None, kubeconfig: Path, tmp_path: Path
) -> None:
    programs(tmp_path, kubeconfig)
    # Another page's commands use the same name, and a namespace takes its time to go.
    there = "kubectl get namespace shop headwater-system --ignore-not-found --output=name"
    wait_for(lambda: run(there, tmp_path) == "", what="the namespaces to be gone")
    operator, second, application, upgrade, uninstall = blocks("install.md")
    [rights] = blocks("security.md")
    try:
        explained = run(operator, tmp_path)
        run(second, tmp_path)
        seen = "kubectl get deployment -n headwater-b -o jsonpath={..env}"
        selector = run(seen, tmp_path)
        # Its policies hold in every namespace, too.
        run("helm uninstall headwater-b -n headwater-b", tmp_path)
        shown = run(application, tmp_path)
        upgraded = run(upgrade, tmp_path)
        answers = [run(line, tmp_path, may_fail=True) for line in rights.splitlines()]
        wanted = run("kubectl get sapp word-count -n shop -o jsonpath={.spec.replicas}", tmp_path)
        replicas = (
            "kubectl get deployment -n headwater-system -o jsonpath={.items[*].spec.replicas}"
        )
        operators = run(replicas, tmp_path)
        run(uninstall, tmp_path)
        # The server tells of kinds for a moment after their definitions are gone.
        told = "kubectl api-resources --api-group=headwater.dev --output=name"
        wait_for(lambda: run(told, tmp_path) == "", what="the kinds to be gone")
    finally:
        # After a failure the release is still there, and its policy holds in every namespace.
        gone = "helm uninstall headwater -n headwater-system --no-hooks --ignore-not-found"
        clean = (
            "kubectl delete namespace shop billing headwater-b headwater-system "
            "--ignore-not-found --wait=false"
        )
        run(gone, tmp_path)
        run(gone.replace("headwater -n headwater-system", "headwater-b -n headwater-b"), tmp_path)
        run(clean, tmp_path)
        install(kube_api)

    assert "bootstrapServers" in explained
    assert "headwater.dev/shard=b" in selector
    assert "word-count" in shown
    assert "REVISION: 2" in upgraded
    assert [answer.strip() for answer in answers] == ["no", "no"]
    assert (wanted, operators) == ("3", "2")
