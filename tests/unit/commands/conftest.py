"""A cluster in memory with an application that runs, and the plug-in connected to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from examples.word_count.app import build
from tests.support.kube_fakes import topology
from tests.support.kube_rig import KubeRig, streamapp
from tests.support.served_model import ServedModel

from headwater.dsl.loading import build_topology
from headwater_operator.commands.plugin import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DESCRIPTION = build_topology(build).describe()


@dataclass
class Plugin:
    """``kubectl headwater`` at a cluster.

    Attributes:
        rig: the cluster.
        served: what the plug-in connects to.
        config: its kubeconfig.
    """

    rig: KubeRig
    served: ServedModel
    config: str

    def run(self, words: str) -> int:
        """Run a command and return its exit code."""
        return main([*words.split(), "--kubeconfig", self.config])


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    rig = KubeRig()
    rig.workers.reports["wc"] = replace(topology("wc"), description=DESCRIPTION)
    rig.apply(streamapp(assignment={"standbyReplicas": 1}))
    rig.until(lambda: rig.condition("StandbysReady")[0] == "True")
    served = ServedModel(rig.api)
    server, config = served.serve(tmp_path)
    with server:
        yield Plugin(rig, served, config)
