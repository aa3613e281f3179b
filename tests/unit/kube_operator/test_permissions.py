"""The operator's rules of RBAC are what it uses: no less, or it stands still, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kube_life import whole_life
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp

from headwater.model.drivercontract import driver_rules
from headwater.model.podcontract import role_rules
from headwater_operator.kube.api import (
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    STREAM_ACTIONS,
    STREAM_APPS,
    STREAM_IMAGE_CATALOGS,
    STREAM_WORKERS,
)
from headwater_operator.manifests.permissions import (
    Rule,
    election_rules,
    namespace_rules,
    node_rules,
    operator_rules,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater_operator.kube.api import Manifest

Right = tuple[str, str]
"""Verb and resource."""


def rights(rules: Iterable[Rule]) -> set[Right]:
    return {(verb, kind) for rule in rules for kind in rule["resources"] for verb in rule["verbs"]}


@pytest.fixture(scope="module")
def used() -> set[Right]:
    """What operators have used in the lives of some StreamApps."""
    found: set[Right] = set()
    for app in (
        streamapp(),
        from_other_objects(),
    ):
        rig = KubeRig()
        mine: list[int] = []

        def note(*_: str, rig: KubeRig = rig, mine: list[int] = mine) -> None:
            if rig.is_operator_at_work:
                mine.append(len(rig.api.calls))

        rig.api.on_call = note
        if "module" in app["spec"]["topology"]:
            whole_life(rig)
        else:
            _wait_for_an_image(rig, app)
        calls = {rig.api.calls[number] for number in mine}
        found |= {right for verb, kind in calls for right in _rights_of(verb, kind)}
    # The watches, which the model has no clients for.
    for resource in (STREAM_APPS, STREAM_WORKERS, STREAM_ACTIONS, PODS, CLAIMS):
        found |= {("list", resource.plural), ("watch", resource.plural)}
    return found


def from_other_objects() -> Manifest:
    """A StreamApp whose topology and image stand elsewhere."""
    app = streamapp(
        topology={"configMapRef": {"name": "code"}},
        assignment={"topologyKeys": ["a"]},
        imageCatalogRef={"name": "shop", "version": "1"},
    )
    del app["spec"]["image"]
    return app


def _wait_for_an_image(rig: KubeRig, app: dict[str, object]) -> None:
    rig.node.images = {"example/other:1"}
    rig.api.create(
        CONFIG_MAPS,
        {"metadata": {"name": "code", "namespace": NAMESPACE}, "data": {"topology.py": ""}},
    )
    images = {"images": [{"version": "1", "image": "example/worker:1"}]}
    named = {"name": "shop", "namespace": NAMESPACE}
    rig.api.create(STREAM_IMAGE_CATALOGS, {"metadata": named, "spec": images})
    rig.apply(app)
    rig.until(lambda: rig.condition("Degraded")[1] == "ImagePullFailed")
    rig.node.why = "Back-off pulling image"
    rig.turn(80)


def _rights_of(verb: str, kind: str) -> set[Right]:
    if verb != "apply":
        return {(verb, kind)}
    # An object that does not exist is created, but nobody creates a subresource.
    return {("patch", kind)} | (set() if "/" in kind else {("create", kind)})


def test_whatever_the_operator_does_it_may_do(used: set[Right]) -> None:
    assert used - rights(operator_rules()) == set()


def test_the_operator_may_do_nothing_but_what_it_does_and_what_it_grants(used: set[Right]) -> None:
    granted = rights([*role_rules(), *driver_rules()])

    assert rights(operator_rules()) - used - granted == set()


def test_the_operator_may_grant_its_workers_and_drivers_what_they_need() -> None:
    assert rights([*role_rules(), *driver_rules()]) <= rights(namespace_rules())


def test_the_operator_reads_no_secret_and_no_rule_says_everything() -> None:
    for rule in operator_rules():
        assert "secrets" not in rule["resources"]
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert set(rule) == {"apiGroups", "resources", "verbs"}


def test_the_rules_for_one_place_are_a_part_of_those_for_all() -> None:
    assert rights(election_rules()) < rights(namespace_rules())
    assert rights(namespace_rules()) | rights(node_rules()) == rights(operator_rules())
