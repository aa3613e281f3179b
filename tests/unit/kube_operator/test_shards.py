"""Operators that share a cluster: which namespaces are theirs, and whom they outrank."""

from __future__ import annotations

import logging
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kube_model import KubeModel
from tests.support.kube_rig import NAMESPACE, OPERATORS, KubeRig, streamapp

from headwater.errors import ConfigError
from headwater_operator.handlers import commands
from headwater_operator.handlers.shard import NotOursError, Shard, outrank
from headwater_operator.kube.api import NAMESPACES, STREAM_APPS
from headwater_operator.kube.election import Election
from headwater_operator.kube.errors import ApiUnavailableError, ForbiddenError

if TYPE_CHECKING:
    from headwater_operator.views import AppView

SELECTOR = "shard=a"


def label(api: KubeModel, name: str, shard: str) -> None:
    metadata = {"name": name, "labels": {"shard": shard}}
    api.create(NAMESPACES, {"metadata": metadata})


def refuse(error: Exception) -> Any:
    def on_call(_: str, plural: str, __: str) -> None:
        if plural == NAMESPACES.plural:
            raise error

    return on_call


def test_namespaces_with_the_label_are_ours_and_no_others() -> None:
    api = KubeModel(("shop", "billing"))
    label(api, "shop", "a")
    label(api, "billing", "b")
    shard = Shard(api, SELECTOR)

    assert shard.read() == {"shop"}

    assert (shard.has("shop"), shard.has("billing")) == (True, False)
    shard.require("shop")
    with pytest.raises(NotOursError, match="namespace billing has no label shard=a any more"):
        shard.require("billing")


def test_why_namespaces_cannot_be_listed_is_known_until_they_can_be() -> None:
    api = KubeModel(("shop",))
    shard = Shard(api, SELECTOR)
    api.on_call = refuse(ForbiddenError("namespaces is forbidden"))

    with pytest.raises(ForbiddenError):
        shard.read()

    assert shard.refusal == (
        "namespaces with the label shard=a cannot be listed: namespaces is forbidden"
    )
    api.on_call = refuse(ApiUnavailableError("away"))
    with pytest.raises(ApiUnavailableError):
        shard.read()
    assert shard.refusal, "an API server that is away has taken nothing back"
    api.on_call = lambda *_: None
    shard.read()
    assert shard.refusal == ""


def leading(api: KubeModel) -> Election:
    election = Election(api, OPERATORS)
    election.step()
    return election


def written_in(rig: KubeRig, generation: int) -> AppView:
    """What is there, with an epoch of that generation in its status."""
    view = rig.operator.reconciler.known()[NAMESPACE, "wc"]
    assert view is not None
    return replace(view, status=replace(view.status, assignment_epoch=generation << 32), workers=())


def test_equal_generations_are_outranked_at_the_first_look_under_each(
    ready: KubeRig, caplog: pytest.LogCaptureFixture
) -> None:
    api = KubeModel((OPERATORS,))
    election, shard = leading(api), Shard(api)
    assert election.generation == 1

    with caplog.at_level(logging.WARNING):
        assert outrank(election, shard, written_in(ready, 1), is_first=True) == 2
        assert outrank(election, shard, written_in(ready, 2), is_first=False) == 2
        assert caplog.messages == []
        assert outrank(election, shard, written_in(ready, 3), is_first=False) == 4

    assert "somebody else has written epochs of generation 3" in caplog.text


def test_nothing_is_outranked_where_nobody_has_written(ready: KubeRig) -> None:
    api = KubeModel((OPERATORS,))
    election = leading(api)

    assert outrank(election, Shard(api), written_in(ready, 0), is_first=True) == 1


def test_an_application_of_another_shard_on_the_same_kafka_keeps_its_id() -> None:
    rig = KubeRig(api=KubeModel((NAMESPACE, "other", OPERATORS)))
    elsewhere = streamapp(applicationId="same", topology={"configMapRef": {"name": "theirs"}})
    elsewhere["metadata"]["namespace"] = "other"
    rig.api.create(STREAM_APPS, elsewhere)
    without_kafka = streamapp("defaults", applicationId="same")
    without_kafka["metadata"]["namespace"] = "other"
    del without_kafka["spec"]["kafka"]
    rig.api.create(STREAM_APPS, without_kafka)
    label(rig.api, NAMESPACE, "a")
    label(rig.api, "other", "b")
    shard = Shard(rig.api, SELECTOR)
    rig.operator.reconciler._shard = rig.operator.sweep._shard = shard
    rig.now_ms += 1_000
    rig.apply(streamapp(applicationId="same"))

    rig.until(lambda: rig.condition("Degraded")[1] == "ApplicationIdInUse")

    assert rig.status("wc")["conditions"]
    found = rig.api.get(STREAM_APPS, "other", "wc")
    assert found is not None
    assert not (found.get("status") or {}).get("conditions"), "it is another's"


def test_a_selector_chooses_among_all_namespaces_only() -> None:
    named = Namespace(namespace_selector=SELECTOR, all_namespaces=False, namespaces=["shop"])
    with pytest.raises(ConfigError, match="give --all-namespaces instead of --namespace"):
        commands._selector(named)
