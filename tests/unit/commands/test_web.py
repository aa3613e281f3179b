"""The page for StreamApps of a cluster, with the rights of whoever starts it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.errors import UserError
from headwater_operator.commands.places import OnCluster, place_of
from headwater_operator.commands.web_command import source_of
from headwater_operator.kube.api import STREAM_APPS

if TYPE_CHECKING:
    from tests.unit.commands.conftest import Plugin


def test_the_page_shows_and_changes_streamapps_of_a_kubeconfig(plugin: Plugin) -> None:
    chosen = Namespace(
        namespace="default", context=None, kubeconfig=Path(plugin.config), all_namespaces=False
    )

    with place_of(chosen) as place:
        assert isinstance(place, OnCluster)
        source = source_of(place, is_everywhere=False)
        assert source.apps() == ["default/wc"]
        sight = source.open("default/wc")
        shown = sight.look()
        sight.close()
        said = source.act("default/wc", "scale", {"replicas": 3})
        source.act("default/wc", "pause", {})
        for action, body, problem in (
            ("scale", {"replicas": True}, "no whole number"),
            ("explode", {}, "pause, resume, scale"),
        ):
            with pytest.raises(UserError, match=problem):
                source.act("default/wc", action, body)
        with pytest.raises(UserError, match="headwater journey"):
            source.journey("default/wc", {})

    assert len(shown.tasks) == 4
    assert said == "wc: asked to scale"
    stored = plugin.rig.api.get(STREAM_APPS, "default", "wc")
    assert stored is not None
    assert (stored["spec"]["replicas"], stored["spec"]["paused"]) == (3, True)
