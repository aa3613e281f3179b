"""``headwater promote`` and ``reset`` on a cluster: what they ask, write and say."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from tests.kube.kubeconfig import kubeconfig, write_kubeconfig
from tests.support.scripted_api import Answer, Asked, ScriptedApi

from headwater.cli.main import main
from headwater.ids import TaskId
from headwater.model import podcontract
from headwater.model.appstatus import (
    AppStatus,
    Failure,
    Operation,
    OperationType,
    TaskCounts,
)
from headwater.model.cluster import StreamWorker, WorkerSpec
from headwater.model.lifecycle import ClientState
from headwater_operator.manifests.names import RESET_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNNING = AppStatus(
    observed_generation=1, state=ClientState.RUNNING, tasks=TaskCounts(total=1, running=1)
)
STOPPED = AppStatus(observed_generation=2, state=ClientState.NOT_RUNNING)
SHIFT_REFUSED = AppStatus(
    observed_generation=1,
    state=ClientState.NOT_RUNNING,
    operation=Operation(type=OperationType.RESET, started_at="2026-01-31T08:00:00Z"),
    failure=Failure(error="ResetError", message="the shift may be done already", worker="new-w-0"),
)


class Shop:
    """A namespace with the StreamApps ``old`` and ``new``; every change makes them stop.

    Attributes:
        apps: as stored.
        told: what the worker of each answers to ``/tasks``.
        after: the status of a StreamApp that was changed.
    """

    def __init__(self) -> None:
        self.apps = {name: stream_app(name) for name in ("old", "new")}
        self.told: dict[str, dict[str, Any]] = {name: task(0, 9) for name in self.apps}
        self.after = STOPPED
        self.changes: list[tuple[str, Any]] = []

    def answer(self, asked: Asked) -> Answer:
        for name, app in self.apps.items():
            if f"/{name}-w-0:8080/proxy/tasks" in asked.path:
                return Answer(body={"tasks": [self.told[name]]})
            if f"app%3D{name}" in asked.path:
                return Answer(body={"items": [worker(name)]})
            if asked.path.partition("?")[0].endswith(f"/namespaces/shop/streamapps/{name}"):
                if asked.method == "PATCH":
                    self.change(name, app, asked)
                return Answer(body=app)
        status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such object"}
        return Answer(code=404, body=status)

    def change(self, name: str, app: dict[str, Any], asked: Asked) -> None:
        assert "fieldManager=headwater-cli" in asked.path
        tests, [change] = asked.body[:-1], asked.body[-1:]
        assert {each["op"] for each in tests} == {"test"}
        self.changes.append((name, change))
        if change["path"] == "/metadata/annotations":
            app["metadata"]["annotations"] = change["value"]
        else:
            app["metadata"]["generation"] = 2
        app["status"] = self.after.to_dict()


def stream_app(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name, "uid": name, "resourceVersion": "7", "generation": 1},
        "spec": {"topology": {"module": "a:b"}},
        "status": RUNNING.to_dict(),
    }


def worker(app: str) -> dict[str, Any]:
    spec = WorkerSpec(app=app, active=(TaskId(0, 0),))
    return StreamWorker(name=f"{app}-w-0", spec=spec).to_dict()


def task(lag: int, committed: int) -> dict[str, Any]:
    return {"role": "Active", "lag": lag, "committed": {"orders-0": committed}}


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def config(tmp_path: Path, shop: Shop) -> Iterator[str]:
    with ScriptedApi(tmp_path, shop.answer) as api:
        server = f"https://{api.access.host}:{api.access.port}"
        document = kubeconfig(server, tmp_path / podcontract.CA_FILE, token="token-1")
        yield str(write_kubeconfig(tmp_path / "config", document))


def run(config: str, command: str) -> int:
    return main([*command.split(), "--namespace", "shop", "--kubeconfig", config])


def test_the_old_version_is_suspended_once_the_new_one_has_caught_up(
    shop: Shop, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config, "promote new --over old --yes") == 0

    assert shop.changes == [("old", {"op": "add", "path": "/spec/suspend", "value": True})]
    assert "old is suspended, with its state and offsets kept; new goes on" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("command", "new", "said", "code"),
    [
        ("promote new --over old --yes", {"told": task(3, 9)}, "new still has 3 records", 3),
        # It has not heard of what the old one has read already.
        ("promote new --over old --yes", {"told": task(0, 8)}, "new still has 1 record to", 3),
        ("promote new --over old --yes", {"spec": {"paused": True}}, "new is paused, with 0", 3),
        ("promote new --over old --yes", {"spec": {"suspend": True}}, "new is suspended", 3),
        ("promote new --over old --yes", {"spec": {"engine": "Spark"}}, "Spark runs new", 2),
        ("promote new --over other --yes", {}, "there is no StreamApp 'other'", 2),
        ("promote old --over old --yes", {}, "old is named twice", 2),
        ("promote new --over old", {}, "Say --yes where nobody can be asked", 2),
        ("reset other --yes", {}, "there is no StreamApp 'other' in namespace shop", 2),
        ("reset new", {}, "state of new? Say --yes", 2),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_changed(
    shop: Shop,
    config: str,
    capsys: pytest.CaptureFixture[str],
    command: str,
    new: dict[str, Any],
    said: str,
    code: int,
) -> None:
    shop.told["new"] = new.get("told", shop.told["new"])
    shop.apps["new"]["spec"] |= new.get("spec", {})
    before = deepcopy(shop.apps)

    found = run(config, command)

    assert said in capsys.readouterr().err
    assert (found, shop.changes, shop.apps) == (code, [], before)


def test_a_reset_that_cannot_be_carried_out_is_named_with_the_way_back(
    shop: Shop, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.apps["new"]["metadata"]["annotations"] = {"mine": "kept"}
    shop.after = SHIFT_REFUSED

    assert run(config, "reset new --shift-by -5 --yes") == 2

    wanted = {"mine": "kept", RESET_ANNOTATION: "shift:-5"}
    assert shop.changes == [
        ("new", {"op": "add", "path": "/metadata/annotations", "value": wanted})
    ]
    told = capsys.readouterr().err
    assert "new (new-w-0): the shift may be done already" in told
    assert f"kubectl annotate streamapp new --namespace shop {RESET_ANNOTATION}-" in told
    assert run(config, "reset new --to-earliest --yes") == 2
    assert "a reset of new is under way, to 'shift:-5'" in capsys.readouterr().err
