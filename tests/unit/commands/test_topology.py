"""``topology`` draws what a worker has reported as the topology itself is drawn, with its load."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from examples.word_count import app as word_count
from tests.golden import circle, payments
from tests.support.kube_rig import streamapp

from headwater.drawing.graph import drawing_of
from headwater.dsl.loading import build_topology
from headwater_operator.commands.topology import drawn

if TYPE_CHECKING:
    from tests.unit.commands.conftest import Plugin


@pytest.mark.parametrize("build", [word_count.build, circle.build, payments.build])
def test_a_reported_topology_is_drawn_as_the_topology_itself(build: object) -> None:
    topology = build_topology(build)  # type: ignore[arg-type]  # each of them draws one

    reported, itself = drawn(topology.report("app")), drawing_of(topology)

    assert reported.internal == itself.internal
    assert sorted(reported.order) == sorted(itself.order)
    for told, known in zip(reported.groups, itself.groups, strict=True):
        assert (told.id, told.is_global, set(told.stores)) == (
            known.id,
            known.is_global,
            set(known.stores),
        )
        nodes = {node.name: node for node in told.nodes}
        for node in known.nodes:
            same = nodes.pop(node.name)
            assert (same.kind, set(same.parents), set(same.topics), set(same.stores)) == (
                node.kind,
                set(node.parents),
                set(node.topics),
                set(node.stores),
            )
        assert nodes == {}


def test_each_sub_topology_has_its_tasks_lag_and_rate(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    for worker, tasks in plugin.rig.held().items():
        told = [{"task": task, "role": "Active", "lag": 7, "processed": 1} for task in tasks]
        document = {"worker": worker, "incarnation": "i", "threads": [], "tasks": told}
        plugin.served.pods[worker, "/tasks"] = json.dumps(document).encode()

    assert plugin.run("topology") == 0
    text = capsys.readouterr().out
    assert "Sub-topology: 0   (2 tasks · lag 14 · 0 records/s)" in text
    assert "-->" in text

    assert plugin.run("topology wc -o mermaid") == 0
    assert 'subgraph g1["Sub-topology 1 · 2 tasks · lag 14 · 0 records/s"]' in (
        capsys.readouterr().out
    )
    assert plugin.run("topology wc -o svg") == 0
    assert "lag 14" in "".join(ET.fromstring(capsys.readouterr().out).itertext())
    assert plugin.run("topology wc -o json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(each["tasks"], each["lag"]) for each in shown["subtopologies"]] == [
        (["0_0", "0_1"], 14),
        (["1_0", "1_1"], 14),
    ]


def test_what_no_worker_has_reported_cannot_be_drawn_yet(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.rig.apply(streamapp("new"))

    assert plugin.run("topology new") == 3

    said = capsys.readouterr().err
    assert "no worker of new has reported its topology yet" in said
    assert "try again when one runs" in said
