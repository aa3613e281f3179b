"""What a changed specification asks for, and the revision that names what pods are made from."""

from __future__ import annotations

import dataclasses

import pytest

from headwater.model.changes import revision_of, rolled_part
from headwater.model.fields import Change
from headwater.model.streamapp import StreamAppSpec, parse


def spec_of(**more: object) -> StreamAppSpec:
    return parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "counter"},
            "spec": {"topology": {"module": "shop:build"}, **more},
        }
    ).spec


CHANGES = [
    ({"replicas": 3}, "spec.replicas", Change.LIVE),
    ({"threadsPerWorker": 3}, "spec.threadsPerWorker", Change.LIVE),
    ({"assignment": {"moveDelay": "1s"}}, "spec.assignment.moveDelay", Change.LIVE),
    ({"scaleDown": {"policy": "Newest"}}, "spec.scaleDown.policy", Change.LIVE),
    ({"suspend": True}, "spec.suspend", Change.LIVE),
    ({"kafka": {"topics": [{"name": "in"}]}}, "spec.kafka.topics", Change.LIVE),
    (
        {"state": {"retention": {"whenScaled": "Delete"}}},
        "spec.state.retention.whenScaled",
        Change.LIVE,
    ),
    ({"image": "other:2"}, "spec.image", Change.ROLL),
    ({"topology": {"module": "shop:other"}}, "spec.topology.module", Change.ROLL),
    ({"config": {"commit.interval.ms": 5}}, "spec.config", Change.ROLL),
    ({"kafka": {"tls": {}}}, "spec.kafka.tls", Change.ROLL),
    ({"kafka": {"bootstrapServers": "b:1"}}, "spec.kafka.bootstrapServers", Change.ROLL),
    ({"restartNonce": 1}, "spec.restartNonce", Change.ROLL),
    (
        {"podTemplate": {"resources": {"limits": {"cpu": 2}}}},
        "spec.podTemplate.resources.limits",
        Change.ROLL,
    ),
    ({"state": {"size": "1Ti"}}, "spec.state.size", Change.LIVE),
    ({"state": {"storageClassName": "fast"}}, "spec.state.storageClassName", Change.RECREATE),
    ({"applicationId": "else"}, "spec.applicationId", Change.IMMUTABLE),
]


@pytest.mark.parametrize(("more", "path", "change"), CHANGES, ids=[case[1] for case in CHANGES])
def test_only_a_roll_needs_new_pods(more: dict[str, object], path: str, change: Change):
    is_same = revision_of(spec_of()) == revision_of(spec_of(**more))
    assert is_same == (change is not Change.ROLL), path


def test_every_field_has_a_class():
    def unclassed(kind: type, path: str, inherited: object) -> list[str]:
        found = []
        for field in dataclasses.fields(kind):
            change = field.metadata.get("change", inherited)
            default = field.default
            if dataclasses.is_dataclass(default) and change is None:
                found += unclassed(type(default), f"{path}.{field.name}", change)
            elif change is None:
                found.append(f"{path}.{field.name}")
        return found

    assert unclassed(StreamAppSpec, "spec", None) == []


def test_a_default_written_out_is_no_change():
    written = spec_of(engine="Native", kafka={"config": {}}, podTemplate={"env": []})

    assert revision_of(written) == revision_of(spec_of())
    assert rolled_part(written) == rolled_part(spec_of())


def test_what_else_a_pod_is_made_from_is_in_the_revision():
    assert revision_of(spec_of(), "worker:1") != revision_of(spec_of(), "worker:2")
