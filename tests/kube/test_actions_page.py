"""The samples of docs/actions.md on a real API server: they are taken, and only cancel changes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml

from headwater.model.streamaction import ActionType
from headwater_operator.kube.api import JOBS
from headwater_operator.observe.streamactions import read_actions
from tests.support.pages import blocks

if TYPE_CHECKING:
    from headwater_operator.kube.client import KubeClient
    from tests.kube.fixtures import Command

pytestmark = pytest.mark.usefixtures("crds")


def test_the_samples_are_taken_and_only_cancel_changes(kubectl: Command) -> None:
    for block in blocks("actions.md", "yaml"):
        kubectl("apply", "--filename=-", stdin=block)
        sample = yaml.safe_load(block)
        name = f"sact/{sample['metadata']['name']}"
        kubectl("patch", name, "--type=merge", '--patch={"spec": {"cancel": true}}')
        for change in ({"cancel": False}, {"timeout": "7m"}, {"type": "Reset"}, {"reset": {}}):
            patch = json.dumps({"spec": change})
            refused = kubectl.run("patch", name, "--type=merge", f"--patch={patch}")
            assert refused.returncode != 0
            assert re.search("only cancel|stays so|is for type|says more", refused.stderr)


def test_an_action_that_says_too_little_or_too_much_is_refused(kubectl: Command) -> None:
    sample = yaml.safe_load(blocks("actions.md", "yaml")[0])
    worker = {"worker": "word-count-w-1"}
    for spec in (
        {"app": "word-count", "type": "DrainWorker"},
        {"app": "word-count", "type": "Restart", "drainWorker": worker},
        {"app": "word-count", "type": "Dance"},
    ):
        body = json.dumps({**sample, "spec": spec})
        refused = kubectl.run("apply", "--filename=-", stdin=body)
        assert refused.returncode != 0
        assert re.search("write it|take it away|Unsupported value", refused.stderr)


def test_the_commands_show_an_action(kubectl: Command) -> None:
    for block in blocks("actions.md", "yaml"):
        kubectl("apply", "--filename=-", stdin=block)
    _, *shown = [line.split()[1:] for line in blocks("actions.md")[0].splitlines()]
    for arguments in shown:
        assert "drain-1" in kubectl(*arguments)


def test_an_operator_sees_that_a_cluster_has_no_volume_snapshots_and_which_job_waits(
    kubectl: Command, admin: KubeClient
) -> None:
    for block in blocks("actions.md", "yaml"):
        kubectl("apply", "--filename=-", stdin=block)
    pod = {"restartPolicy": "Never", "containers": [{"name": "driver", "image": "example/x:1"}]}
    job = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "word-count-backfill"},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    kubectl("create", "--filename=-", stdin=json.dumps(job))

    found = {view.spec.type: view for view in read_actions(admin, kubectl.namespace, "word-count")}

    assert not found[ActionType.SNAPSHOT_VOLUME].objects.knows_snapshots
    seen = found[ActionType.BACKFILL].objects.job
    assert seen is not None
    assert seen.is_suspended
    assert not seen.has_begun
    assert read_actions(admin, kubectl.namespace, "another") == ()
