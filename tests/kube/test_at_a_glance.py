"""What people and tools see and do with kubectl and the scale subresource, on a real API server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.golden.crds import ROOT
from tests.golden.explain import CASES, DIRECTORY, TABLES, file_of, table_of
from tests.kube.definitions import (
    ACTIONS,
    APPS,
    GROUP,
    VERSION,
    WORKERS,
    RefusedError,
    Resources,
    are_served,
)
from tests.kube.situations import EPOCH, RUNNING, apply_all, facts_of, status
from tests.support.documents import MINIMAL
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.kube.fixtures import Command

pytestmark = pytest.mark.usefixtures("crds")

EXAMPLE = ROOT / "examples" / "word_count" / "streamapp.yaml"
WORD_COUNT = status("word-count", facts_of(RUNNING))


# -- the definitions ------------------------------------------------------------------------------


def test_the_committed_definitions_apply_on_client_and_server_side(kubectl: Command) -> None:
    kubectl("apply", "--dry-run=server", "--filename", str(ROOT / "crds"))
    kubectl("apply", "--server-side", "--force-conflicts", "--filename", str(ROOT / "crds"))
    # Client-side apply keeps each as JSON in an annotation, which holds 256 KiB at most.
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "crds").glob("*.yaml")]
    assert max(len(json.dumps(yaml.safe_load(text))) for text in texts) < 160_000


@pytest.mark.parametrize("plural", [APPS, WORKERS, ACTIONS])
def test_the_api_server_finds_a_definition_structural_and_free_of_conflicts(
    plural: str, kube_api: ApiClient
) -> None:
    from kubernetes.client import ApiextensionsV1Api

    found = ApiextensionsV1Api(kube_api).read_custom_resource_definition(f"{plural}.{GROUP}")

    conditions = {item.type: item.status for item in found.status.conditions}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert found.status.stored_versions == [VERSION]


def test_kubectl_explains_every_field(kubectl: Command, kube_api: ApiClient) -> None:
    # A server that was restarted a moment ago does not know the fields yet.
    wait_for(lambda: are_served(kube_api), what="the fields to be known")

    for case in CASES:
        assert kubectl("explain", *case.split()) == file_of(case).read_text(), (
            "if the new text is right: python -m tests.golden.explain"
        )


# -- at a glance ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", TABLES, ids=str)
def test_every_situation_of_a_streamapp_is_told_at_a_glance(
    options: tuple[str, ...], kubectl: Command, stream_apps: Resources
) -> None:
    apply_all(stream_apps)

    shown = kubectl("get", "sapp", *options)

    assert _cells(shown) == _cells(table_of(options).read_text()), (
        f"if this is right: python -m tests.golden.explain\n{shown}"
    )


def test_tools_can_wait_for_a_streamapp_and_list_all_of_ours(
    kubectl: Command, stream_apps: Resources
) -> None:
    kubectl("apply", "--filename", str(EXAMPLE))
    early = kubectl.run("wait", "--for=condition=Ready", "sapp/word-count", "--timeout=1s")
    stream_apps.write_status("word-count", WORD_COUNT)

    assert early.returncode != 0
    assert kubectl("wait", "--for=condition=Ready", "sapp/word-count", "--timeout=10s")
    assert kubectl("wait", "--for=jsonpath={.status.tasks.running}=8", "sapp/word-count")
    assert kubectl("get", "headwater", "--output=name").split() == [
        "streamapp.headwater.dev/word-count"
    ]


def test_streamapps_are_found_by_their_application_id(
    kubectl: Command, stream_apps: Resources
) -> None:
    for name in ("one", "other"):
        body = yaml.safe_load(MINIMAL)
        body["metadata"]["name"], body["spec"]["applicationId"] = name, f"id-of-{name}"
        stream_apps.create(body)

    query = "--field-selector=spec.applicationId=id-of-one"
    found = kubectl("get", "sapp", query, "--output=name")

    assert found.split() == ["streamapp.headwater.dev/one"]


def test_a_stream_worker_is_shown_at_a_glance_and_found_by_its_app(
    kubectl: Command, stream_workers: Resources
) -> None:
    for app in ("one", "other"):
        data = json.loads((Path(DIRECTORY) / "stream-worker.json").read_text())
        data["metadata"]["name"], data["spec"]["app"] = f"{app}-w-0", app
        reported = data.pop("status")
        stream_workers.create(data)
        stream_workers.write_status(f"{app}-w-0", reported)

    shown = kubectl("get", "sw", "--output=wide", "--field-selector=spec.app=one")

    assert _cells(shown) == _cells((DIRECTORY / "get-sw-wide.out").read_text())


# -- writing --------------------------------------------------------------------------------------


def test_applying_twice_changes_nothing(kubectl: Command, stream_apps: Resources) -> None:
    apply = ("apply", "--server-side", "--filename", str(EXAMPLE))
    kubectl(*apply)
    before = stream_apps.read("word-count")

    kubectl(*apply)
    kubectl("diff", "--server-side", "--filename", str(EXAMPLE))

    once_more = stream_apps.read("word-count")
    kubectl(*apply)
    assert stream_apps.read("word-count") == once_more
    # The first status is a default, which the API server stores with the first update only.
    for each in (before, once_more):
        del each["metadata"]["resourceVersion"]
    assert once_more == before
    written = yaml.safe_load(EXAMPLE.read_text())
    assert before["spec"] == written["spec"]


def test_specification_and_status_are_written_apart(
    stream_apps: Resources, stream_workers: Resources
) -> None:
    worker: dict[str, Any] = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "StreamWorker",
        "metadata": {"name": "counter"},
        "spec": {"app": "counter", "epoch": 1},
    }
    app = yaml.safe_load(MINIMAL)
    for resources, body, reported, changed, later in (
        (stream_apps, app, {"assignmentEpoch": EPOCH}, {"replicas": 4}, {"reason": "x"}),
        (stream_workers, worker, {"acknowledgedEpoch": EPOCH}, {"epoch": 4}, {"endpoint": "x"}),
    ):
        created = resources.create({**body, "status": reported})
        resources.write_status("counter", reported, spec=changed)
        told = resources.read("counter")
        resources.patch("counter", {"spec": changed, "status": later})
        last = resources.read("counter")

        # A StreamApp's default says that nobody has seen it.
        unseen = {"observedGeneration": -1} if resources is stream_apps else None
        assert created.get("status") == unseen
        assert told["spec"] == created["spec"]
        assert last["spec"] == {**created["spec"], **changed}
        assert last["status"] == told["status"]
        assert told["status"].items() >= reported.items()
        assert [each["metadata"]["generation"] for each in (created, told, last)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"conditions": [{"type": "Ready", "status": "Maybe"}]}, "status.conditions[0].status"),
        ({"readyReplicas": -1}, "status.readyReplicas"),
        ({"state": "running"}, "status.state"),
    ],
    ids=["condition", "number", "state"],
)
def test_a_wrong_status_is_refused(
    wrong: dict[str, Any], field: str, stream_apps: Resources
) -> None:
    stream_apps.create(yaml.safe_load(MINIMAL))

    with pytest.raises(RefusedError) as caught:
        stream_apps.write_status("counter", wrong)

    assert field in {blamed for blamed, _ in caught.value.causes}


# -- scaling --------------------------------------------------------------------------------------


def test_kubectl_scales_through_the_scale_subresource(
    kubectl: Command, stream_apps: Resources
) -> None:
    kubectl("apply", "--filename", str(EXAMPLE))
    stream_apps.write_status("word-count", WORD_COUNT)

    kubectl("scale", "sapp/word-count", "--replicas=5", "--current-replicas=2")

    assert _scale(kubectl, "word-count") == {
        "spec": {"replicas": 5},
        "status": {"replicas": 2, "selector": WORD_COUNT["selector"]},
    }
    assert stream_apps.read("word-count")["spec"]["replicas"] == 5
    assert stream_apps.read("word-count")["status"] == WORD_COUNT


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--replicas=10001",), "10000"),
        (("--replicas=-1",), "--replicas"),
        (("--replicas=5", "--current-replicas=7"), "7"),
    ],
    ids=["too many", "negative", "not as many as believed"],
)
def test_a_scale_that_makes_no_sense_is_refused(
    arguments: tuple[str, ...], why: str, kubectl: Command, stream_apps: Resources
) -> None:
    kubectl("apply", "--filename", str(EXAMPLE))

    refused = kubectl.run("scale", "sapp/word-count", *arguments)

    assert refused.returncode != 0
    assert why in refused.stderr
    assert stream_apps.read("word-count")["spec"]["replicas"] == 2


def test_a_scale_that_was_never_given_is_one(kubectl: Command) -> None:
    kubectl("create", "--filename", "-", stdin=MINIMAL)

    assert _scale(kubectl, "counter")["spec"] == {"replicas": 1}


def test_an_autoscaler_holds_a_streamapp_within_its_bounds(
    kubectl: Command, stream_apps: Resources
) -> None:
    """No metrics are served here; bounds are kept without them."""
    kubectl("apply", "--filename", str(EXAMPLE))
    kubectl("scale", "sapp/word-count", "--replicas=9")
    stream_apps.write_status("word-count", WORD_COUNT)
    target = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "StreamApp", "name": "word-count"}
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "word-count"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3},
    }

    kubectl("apply", "--filename=-", stdin=json.dumps(autoscaler))

    def is_scaled() -> bool:
        return bool(stream_apps.read("word-count")["spec"]["replicas"] == 3)

    wait_for(is_scaled, what="the autoscaler to scale to its maximum")


def _scale(kubectl: Command, name: str) -> dict[str, Any]:
    scale = json.loads(kubectl("get", f"sapp/{name}", "--subresource=scale", "--output=json"))
    return {part: scale[part] for part in ("spec", "status")}


def _cells(table: str) -> list[dict[str, str]]:
    """Split kubectl's table by its head, without the ages, which differ from run to run."""
    head, *lines = table.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", head)]
    columns = list(zip(head.split(), starts, [*starts[1:], None], strict=True))
    return [
        {name: line[start:end].strip() for name, start, end in columns if name != "AGE"}
        for line in lines
    ]
