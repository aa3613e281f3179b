"""The commands of docs/feeding.md, on a real API server; their programs run in tests/kafka."""

from __future__ import annotations

import importlib.util
import shlex
from typing import TYPE_CHECKING

import yaml

from headwater.model.streamapp import parse
from tests.golden.crds import ROOT
from tests.support.pages import blocks

if TYPE_CHECKING:
    from tests.kube.fixtures import Command


def test_the_commands_make_pods_that_run_the_programs_and_take_them_away(
    kubectl: Command,
) -> None:
    make, take_away = blocks("feeding.md")
    image = parse(
        yaml.safe_load((ROOT / "examples" / "word_count" / "streamapp.yaml").read_text())
    ).spec.image
    kubectl("create", "namespace", "shop")
    try:
        for line in make.splitlines():
            kubectl(*shlex.split(line)[1:])
        pods = yaml.safe_load(kubectl("get", "pods", "--namespace", "shop", "--output=yaml"))
        for line in take_away.splitlines():
            kubectl(*shlex.split(line)[1:], "--wait=false")
    finally:
        kubectl("delete", "namespace", "shop", "--wait=false")

    containers = {pod["metadata"]["name"]: pod["spec"]["containers"][0] for pod in pods["items"]}
    assert containers.keys() == {"feed", "read"}
    for name, container in containers.items():
        module = f"examples.word_count.{name}"
        assert container["image"] == image
        assert container["command"][:3] == ["python3", "-m", module]
        assert importlib.util.find_spec(module) is not None
        assert [each["name"] for each in container["env"]] == ["KAFKA"]
