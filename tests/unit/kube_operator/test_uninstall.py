"""What the chart's hook does before the operator goes: StreamApps are deleted and waited for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.golden.chart import CHART, SNAPSHOTS
from tests.support.kube_rig import NAMESPACE, OPERATORS, STEP_MS, KubeRig, streamapp

from headwater.errors import ConfigError
from headwater_operator.handlers.commands import register
from headwater_operator.handlers.uninstall import StreamAppsRemainError, delete_stream_apps
from headwater_operator.kube.api import PODS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.kube.errors import ApiUnavailableError, ForbiddenError, NotFoundError
from headwater_operator.manifests.names import FINALIZER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater_operator.kube.errors import KubeApiError

TIMEOUT_MS = 60_000


def uninstall(
    rig: KubeRig,
    *,
    pause: Callable[[int], None] | None = None,
    namespaces: Sequence[str | None] = (None,),
) -> int:
    """Run the hook's command; the cluster goes on while it pauses."""
    return delete_stream_apps(
        rig.api,
        namespaces,
        timeout_ms=TIMEOUT_MS,
        now_ms=lambda: rig.now_ms,
        pause=pause or (lambda pause_ms: rig.turn(pause_ms // STEP_MS)),
    )


def without_an_operator(rig: KubeRig) -> Callable[[int], None]:
    """Time passes, and nobody does anything."""

    def pass_by(pause_ms: int) -> None:
        rig.now_ms += pause_ms

    return pass_by


def hold(rig: KubeRig, app: str) -> None:
    """Put a finalizer of somebody else on a StreamApp."""
    found = rig.api.get(STREAM_APPS, NAMESPACE, app)
    assert found is not None
    rig.set("/metadata/finalizers", [*found["metadata"]["finalizers"], "example.com/mine"], app)


def test_the_running_operator_lets_go_of_every_streamapp(ready: KubeRig) -> None:
    ready.apply(streamapp("other"))
    ready.until(lambda: ready.is_ready("other"))

    assert uninstall(ready) == 2

    assert [ready.names(kind) for kind in (STREAM_APPS, STREAM_WORKERS, PODS)] == [[], [], []]


def test_a_streamapp_that_is_created_meanwhile_is_deleted_too(ready: KubeRig) -> None:
    late = [streamapp("late")]

    def meanwhile(pause_ms: int) -> None:
        if late:
            ready.apply(late.pop())
        ready.turn(pause_ms // STEP_MS)

    assert uninstall(ready, pause=meanwhile) == 2

    assert ready.names(STREAM_APPS) == []


def test_without_an_operator_it_ends_with_who_remains_and_what_to_do(ready: KubeRig) -> None:
    with pytest.raises(StreamAppsRemainError) as caught:
        uninstall(ready, pause=without_an_operator(ready))

    said = str(caught.value)
    assert f"{NAMESPACE}/wc (finalizers: {FINALIZER})" in said
    assert "60 s" in said
    assert "running operator" in said
    assert "kubectl patch streamapp" in said
    [left] = ready.api.list(STREAM_APPS, NAMESPACE)
    assert "deletionTimestamp" in left["metadata"]
    # An operator that comes back later finds it so, and the next try ends well.
    ready.operator = ready.new_operator()
    assert uninstall(ready) == 1


def test_one_that_never_goes_is_named_and_the_others_are_not(ready: KubeRig) -> None:
    ready.apply(streamapp("goes"))
    ready.until(lambda: ready.is_ready("goes"))
    hold(ready, "wc")

    with pytest.raises(StreamAppsRemainError) as caught:
        uninstall(ready)

    assert "default/wc (finalizers: example.com/mine)" in str(caught.value)
    assert "default/goes" not in str(caught.value)
    assert ready.names(STREAM_APPS) == ["wc"]


def test_what_the_operator_waits_for_is_said(ready: KubeRig) -> None:
    def as_if_a_node_were_gone(pause_ms: int) -> None:
        for _ in range(pause_ms // STEP_MS):
            ready.operator.step()
            ready.now_ms += STEP_MS

    with pytest.raises(StreamAppsRemainError, match=r"default/wc \(deleting: waiting for wc-"):
        uninstall(ready, pause=as_if_a_node_were_gone)


def test_of_many_that_remain_some_are_named_and_the_rest_counted(rig: KubeRig) -> None:
    for number in range(13):
        app = streamapp(f"app-{number:02}")
        app["metadata"]["finalizers"] = ["example.com/mine"]
        rig.api.create(STREAM_APPS, app)

    with pytest.raises(StreamAppsRemainError, match=r"app-09 .*, 3 more\. ") as caught:
        uninstall(rig, pause=without_an_operator(rig))

    assert "app-10" not in str(caught.value)


def test_an_api_server_that_is_away_for_a_while_is_asked_again(ready: KubeRig) -> None:
    away = [ApiUnavailableError("away"), ApiUnavailableError("away")]

    def answer(_: str, plural: str, __: str) -> None:
        if not ready.is_operator_at_work and plural == STREAM_APPS.plural and away:
            raise away.pop()

    ready.api.on_call = answer

    assert uninstall(ready) == 1
    assert away == []


def test_an_api_server_that_stays_away_ends_it(rig: KubeRig) -> None:
    fail(rig, ApiUnavailableError("away"))

    with pytest.raises(ApiUnavailableError):
        uninstall(rig, pause=without_an_operator(rig))


def fail(rig: KubeRig, error: KubeApiError) -> None:
    def answer(*_: str) -> None:
        raise error

    rig.api.on_call = answer


def test_a_definition_that_is_gone_has_no_streamapps(rig: KubeRig) -> None:
    fail(rig, NotFoundError("the server could not find the requested resource"))

    assert uninstall(rig, pause=without_an_operator(rig)) == 0


def test_rights_that_are_missing_end_it_at_once(rig: KubeRig) -> None:
    fail(rig, ForbiddenError("streamapps is forbidden"))
    before_ms = rig.now_ms

    with pytest.raises(ForbiddenError):
        uninstall(rig)

    assert rig.now_ms == before_ms


def test_only_streamapps_of_the_named_namespaces_are_deleted(ready: KubeRig) -> None:
    assert uninstall(ready, namespaces=[OPERATORS]) == 0
    assert ready.names(STREAM_APPS) == ["wc"]


def test_the_hook_has_the_rights_that_it_uses_and_no_others(ready: KubeRig) -> None:
    text = (SNAPSHOTS / "everything.rendered.yaml").read_text()
    [role] = [
        each
        for each in yaml.safe_load_all(text)
        if each and each["kind"] == "ClusterRole" and each["metadata"]["name"].endswith("uninstall")
    ]
    used: set[tuple[str, str]] = set()
    operator_turns = ready.turn

    def turn_unseen(pause_ms: int) -> None:
        used.update(ready.api.calls)
        operator_turns(pause_ms // STEP_MS)
        ready.api.calls.clear()

    ready.api.calls.clear()
    uninstall(ready, pause=turn_unseen)

    [rule] = role["rules"]
    assert {(verb, kind) for verb in rule["verbs"] for kind in rule["resources"]} == used


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--delete-streamapps"], "whose StreamApps"),
        (["--delete-streamapps", "--all-namespaces", "--delete-timeout-seconds=0"], "at least 1"),
    ],
)
def test_the_command_refuses_what_it_cannot_mean(arguments: list[str], said: str) -> None:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    parsed = parser.parse_args(["operator", *arguments])

    with pytest.raises(ConfigError, match=said):
        parsed.run(parsed)


def test_the_hook_calls_the_command_as_it_is() -> None:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    text = (CHART / "templates" / "uninstall.yaml").read_text()
    [told] = [line for line in text.splitlines() if line.strip().startswith("args: ")]

    parsed = parser.parse_args(["operator", *yaml.safe_load(told)["args"]])

    assert (parsed.delete_streamapps, parsed.all_namespaces) == (True, True)
