"""The samples of docs/actions.md on a real API server: they are taken, and only cancel changes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.support.pages import blocks

if TYPE_CHECKING:
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
