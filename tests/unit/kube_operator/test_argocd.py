"""What Argo CD shows of a StreamApp, by the script that is shipped for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lupa import lua51
from tests.support.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus
from tests.support.kube_fakes import IMAGE
from tests.support.kube_rig import NAMESPACE, streamapp

from headwater_operator.kube.api import STREAM_APPS, Manifest
from headwater_operator.manifests.names import PAUSE_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube_rig import KubeRig

SCRIPT = Path(__file__).parents[3] / "docs" / "argocd" / "health.lua"
KSTATUS = {"Healthy": CURRENT, "Degraded": FAILED, "Progressing": IN_PROGRESS}


def health(manifest: Manifest) -> tuple[str, str]:
    """Status and message, by a Lua of the version that Argo CD has."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    judge = lua.eval(f"function(obj) {SCRIPT.read_text()} end")
    found = judge(lua.table_from(manifest, recursive=True))
    return str(found["status"]), str(found["message"])


def stored(rig: KubeRig) -> Manifest:
    found = rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    return found


def seen(rig: KubeRig, last: str) -> list[str]:
    """Look on until it says something; return all that it has said. It agrees with kstatus."""
    said: list[str] = []

    def is_it() -> bool:
        app = stored(rig)
        now, message = health(app)
        assert KSTATUS.get(now, kstatus(app)) == kstatus(app)
        assert message
        if said[-1:] != [now]:
            said.append(now)
        return now == last

    rig.until(is_it)
    return said


def test_a_new_streamapp_is_healthy_when_it_serves(rig: KubeRig) -> None:
    rig.api.create(STREAM_APPS, streamapp())

    assert seen(rig, "Healthy") == ["Progressing", "Healthy"]


CHANGES: dict[str, tuple[Callable[[KubeRig], None], str]] = {
    "another image": (lambda rig: rig.set("/spec/image", IMAGE + "1"), "Healthy"),
    "more workers": (lambda rig: rig.scale(3), "Healthy"),
    "an image that does not exist": (lambda rig: rig.set("/spec/image", "none:1"), "Degraded"),
    "suspended": (lambda rig: rig.set("/spec/suspend", value=True), "Suspended"),
    "no workers": (lambda rig: rig.scale(0), "Suspended"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_in_progress_before_it_is_anything_else(ready: KubeRig, change: str) -> None:
    ready.node.images = {IMAGE, IMAGE + "1"}
    act, last = CHANGES[change]
    act(ready)

    assert seen(ready, last) == ["Progressing", last]


def test_a_paused_streamapp_is_suspended(ready: KubeRig) -> None:
    ready.set("/metadata/annotations", {PAUSE_ANNOTATION: "true"})

    assert seen(ready, "Suspended") == ["Healthy", "Suspended"]
    assert PAUSE_ANNOTATION in health(stored(ready))[1]
