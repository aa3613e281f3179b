"""What a user does with Headwater on a cluster, from installing it to removing it, step by step.

One application lives through all steps, and its counts are exact after each: what was sent, counted
in plain Python, is what a reader of committed records finds, and no count was ever written twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from headwater_operator.dashboards import DASHBOARDS
from headwater_operator.spec import custom_resource_definitions
from tests.e2e.counted import Counted
from tests.e2e.settings import (
    NO_SUCH_TAG,
    OPERATOR_MAX_MB,
    READ_WRITE_ONCE_POD,
    SPARK_MAX_MB,
    WORKER_MAX_MB,
    backfill_job,
    bad_image,
    example,
)
from tests.e2e.site import APP, CRDS, DRIVER, EXAMPLE, PATIENCE_S, RELEASE, say, shell
from tests.e2e.tools import (
    COMPARE,
    NEW,
    OLD,
    PAUSE,
    QUERY,
    RESET,
    STORE,
    TOTALS,
    TWICE,
    Versions,
    answer_for,
    asked_all_the_while,
    missing_rights,
    worker_answers,
)
from tests.support import spark_classes
from tests.support.pages import blocks
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.e2e.settings import Settings
    from tests.e2e.site import Site
    from tests.e2e.tools import Reader
    from tests.kube.fixtures import Command

SOURCE = "word-count-topology"
SECOND = "second"
BACKFILL = f"{APP}-backfill"
PATCH = ("patch", "sapp", "--type=merge")


def test_it_is_installed_and_an_application_becomes_ready(
    site: Site, counted: Counted, settings: Settings
) -> None:
    site.install()
    maps = site.list("configmaps", "--selector=grafana_dashboard=1")
    assert {name for each in maps for name in each["data"]} == {
        f"{it.uid}.json" for it in DASHBOARDS
    }
    source = {"topology.py": counted.topology}
    mode = settings.state_access_mode
    access = {"accessMode": mode} if mode else {}
    site.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SOURCE}, "data": source},
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": APP},
            # Image and Kafka are those that the installation names.
            "spec": {
                "applicationId": counted.prefix,
                "topology": {"configMapRef": {"name": SOURCE}},
                "processingGuarantee": "exactly_once_v2",
                # Every commit costs Kafka a transaction for each thread.
                "config": {"commit.interval.ms": 500},
                "state": {"size": "1Gi", **access},
            },
        },
    )

    site.kubectl("wait", "--for=condition=Ready", f"sapp/{APP}", f"--timeout={PATIENCE_S}s")

    say(site.kubectl("get", "sapp", "--output=wide"))
    site.until_settled(1)
    with counted.under_load():
        counted.until_more()
    counted.until_exact()


@pytest.mark.needs("example_image")
def test_the_committed_example_counts_words(site: Site, settings: Settings) -> None:
    topics = {"source": "TextLinesTopic", "result": "WordsWithCountsTopic"}
    with Counted(settings.bootstrap, APP, **topics) as counted, site.beside() as kubectl:
        # The very file, but for what the image is called here.
        manifest = example(EXAMPLE.read_text(), settings.example_image)
        if manifest == EXAMPLE.read_text():
            kubectl("apply", "--filename", str(EXAMPLE))
        else:
            kubectl("apply", "--filename=-", stdin=manifest)
        kubectl("wait", "--for=condition=Ready", f"sapp/{APP}", f"--timeout={PATIENCE_S}s")
        say(kubectl("get", "sapp,sw,pods,pvc"))

        with counted.under_load():
            counted.until_more()
        counted.until_exact()

        kubectl("delete", f"sapp/{APP}", f"--timeout={PATIENCE_S}s")
        counted.until_exact()
        if not settings.backfill_image:
            return

        # All its state is made anew by a Job with executors in pods; workers go on from there.
        [written] = blocks("backfill.md", "yaml")
        job = backfill_job(written, settings.backfill_image, settings.bootstrap)
        kubectl("apply", "--filename=-", stdin=job)
        wait_for(lambda: job_ended(kubectl), what="the backfill", timeout_s=PATIENCE_S, every_s=2)
        told = kubectl("logs", f"job/{BACKFILL}", "--tail=-1")
        say(told)
        assert f"{APP}: backfill" in told
        assert "is committed; workers go on from its offsets" in told
        kubectl("apply", "--filename=-", stdin=manifest)
        with counted.under_load():
            counted.until_more()
        counted.until_exact()
        kubectl("delete", f"sapp/{APP}", f"--timeout={PATIENCE_S}s")
        counted.until_exact()


def job_ended(kubectl: Command) -> bool:
    """Whether the backfill's Job has ended, one way or the other."""
    status = json.loads(kubectl("get", "job", BACKFILL, "--output=json"))["status"]
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in status.get("conditions", ())
    )


def test_the_images_are_small(site: Site, settings: Settings) -> None:
    for image, most_mb in (
        (settings.worker_image, WORKER_MAX_MB),
        (settings.operator_image, OPERATOR_MAX_MB),
        *([(settings.spark_image, SPARK_MAX_MB)] if settings.spark_image else []),
    ):
        size = site.image_bytes(image)
        if size is None and os.environ.get("HEADWATER_REQUIRE_ALL"):
            # A node says so now and then only.
            what = f"a node to say how large {image} is"
            size = wait_for(partial(site.image_bytes, image), what=what, timeout_s=600, every_s=2)
        if size is None:
            say(f"{image}: no node says how large it is")
            continue
        say(f"{image}: {size / 1e6:.0f} MB of {most_mb}")
        assert size < most_mb * 1e6


def test_an_image_lists_what_it_is_made_of(site: Site) -> None:
    (pod, *_) = site.of_kind("worker")
    said = site.kubectl("exec", pod, "--", "cat", "/usr/local/share/sbom/headwater.cdx.json")

    listed = json.loads(said)
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "headwater"
    named = {component["name"] for component in listed["components"]}
    assert {"confluent-kafka", "rocksdict"} < named
    assert not {"kopf", "kubernetes", "cyclonedx-bom"} & named


def test_it_grows_and_shrinks_under_load(site: Site, counted: Counted) -> None:
    with counted.under_load(), asked_all_the_while(site, "all"):
        site.scale(3)
        site.until_settled(3)
        say(site.kubectl("get", "sapp,sw,pods,pvc"))
        counted.until_more()
        site.scale(1)
        site.until_settled(1)
        site.until(lambda: len(site.pods()) == 1, "the pods of two workers to go")
        counted.until_more()
    counted.until_exact()


@pytest.mark.needs("state_access_mode")
def test_no_second_pod_comes_to_a_volume(site: Site, counted: Counted, settings: Settings) -> None:
    [worker], before = site.pods(), site.uids()
    claim = f"{worker}-state"
    modes = site.get("pvc", claim)["spec"]["accessModes"]

    site.apply(second_pod(claim, settings.worker_image))
    try:
        site.until(lambda: is_kept_off(site.get("pod", SECOND)), "it to be kept off the volume")
        with counted.under_load():
            counted.until_more()
        assert is_kept_off(site.get("pod", SECOND))
    finally:
        site.kubectl("delete", "pod", SECOND, f"--timeout={PATIENCE_S}s")

    assert modes == [settings.state_access_mode]
    assert site.uids() == before
    counted.until_exact()


def second_pod(claim: str, image: str) -> dict[str, Any]:
    """Somebody else's pod with the volume of a worker."""
    container = {
        "name": "only",
        "image": image,
        "command": ["sleep", "3600"],
        "securityContext": {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    volume = {"name": "state", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"containers": [container], "volumes": [volume]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": SECOND}, "spec": spec}


def is_kept_off(pod: dict[str, Any]) -> bool:
    """Whether a pod waits because another one has its volume."""
    phase, conditions = pod["status"]["phase"], pod["status"].get("conditions") or ()
    said = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
    return phase == "Pending" and READ_WRITE_ONCE_POD in "".join(said)


@pytest.mark.parametrize("options", [(), ("--grace-period=0", "--force")], ids=["told", "forced"])
def test_a_pod_that_is_deleted_comes_again(
    site: Site, counted: Counted, options: tuple[str, ...]
) -> None:
    site.scale(2)
    site.until_settled(2)
    pods, before = site.pods(), site.uids()
    victim = min(before)
    grace_s = pods[victim]["spec"]["terminationGracePeriodSeconds"]

    with counted.under_load():
        counted.until_more()
        began = time.monotonic()
        # It waits until the pod is gone.
        say(site.kubectl("delete", "pod", victim, *options))
        took_s = time.monotonic() - began
        say(f"gone in {took_s:.0f} s of {grace_s}")
        assert took_s < grace_s, "it ends by itself when it is told to"
        site.until(
            lambda: site.uids().get(victim, before[victim]) != before[victim],
            f"another pod of {victim}",
        )
        site.until_settled(2)
        counted.until_more()
    counted.until_exact()


def test_its_stores_are_asked_through_the_api_server(
    site: Site, counted: Counted, reader: Reader
) -> None:
    site.scale(2)
    site.until_settled(2)
    counted.until_exact()
    one, _ = QUERY

    assert f" {counted.sent['streams']} " in reader.run(one)
    of_all = one.replace(" streams", " --range '' ''")
    told = reader.run(f"{of_all} --limit 1000 -o json")
    rows = {row["key"]: row for row in json.loads(told)["rows"]}
    assert {key: row["value"] for key, row in rows.items()} == dict(counted.sent)
    for key in keys_of_each_worker(site, rows):
        told = answer_for(site, key)
        assert {name: told[name] for name in rows[key]} == rows[key]
    assert "has no 'nothing'" in reader.run(one.replace("streams", "nothing"), code=1)
    assert "no-such-store" in reader.run(one.replace(STORE, "no-such-store"), code=2)
    missing_rights(site, reader)

    site.patch(assignment={"standbyReplicas": 1})
    site.until(lambda: site.conditions("StandbysReady")[0][:2] == ("True", "CaughtUp"), "standbys")
    task = f"1_{rows['streams']['partition']}"
    [standby] = [
        sw["metadata"]["name"] for sw in site.list("sw") if task in sw["spec"].get("standby", ())
    ]
    path = f"/state/{STORE}/keys/streams"
    status, answer = worker_answers(site, standby, path)
    assert (status, answer["value"]) == (200, counted.sent["streams"])
    status, answer = worker_answers(site, standby, f"{path}?requireActive=true")
    assert (status, answer["error"]) == (503, "NOT_ACTIVE")
    assert f" {counted.sent['streams']} " in reader.run(f"{one} --stale")
    site.patch(assignment={"standbyReplicas": 0})


def keys_of_each_worker(site: Site, rows: dict[str, Any]) -> list[str]:
    """One key of each worker's tasks."""
    found = {
        sw["metadata"]["name"]: key
        for sw in site.list("sw")
        for key, row in rows.items()
        if f"1_{row['partition']}" in sw["spec"].get("active", ())
    }
    assert len(found) == 2
    return sorted(found.values())


def test_it_pauses_and_changes_its_threads_without_another_pod(
    site: Site, counted: Counted, reader: Reader
) -> None:
    pause, until_paused, more_threads, resume = PAUSE
    before = site.uids()
    reader.run(pause)
    reader.run(until_paused)
    paused_at = counted.until_exact()
    with counted.under_load():
        reader.run(more_threads)
        site.until(lambda: site.threads() == dict.fromkeys(before, 2), "two threads in each")
        assert counted.read() == paused_at
        reader.run(resume)
        counted.until_more()
    counted.until_exact()
    site.until_settled(2)
    assert site.uids() == before


def test_a_new_version_is_compared_and_promoted_and_reset(
    site: Site, settings: Settings, reader: Reader
) -> None:
    save, diff, promote = COMPARE
    [reset] = RESET
    with Versions(site, settings.bootstrap) as versions:
        versions.apply()
        site.kubectl(*PATCH, NEW, '--patch={"spec":{"paused":true}}')
        versions.wait(NEW, "Paused")
        versions.feed()
        versions.until_written(OLD, TOTALS[OLD])
        at_once = promote.replace("--wait 300", "")
        assert f"{NEW} is paused, with 6 records to read" in reader.run(at_once, code=3)
        assert (versions.written(NEW), versions.spec(OLD).get("suspend", False)) == ({}, False)
        site.kubectl(*PATCH, NEW, '--patch={"spec":{"paused":false}}')

        reader.run(save)
        assert "different   'bob': 2 -> 3" in reader.run(diff, code=1)
        assert f"{OLD} is suspended" in reader.run(promote)
        assert versions.has_read_everything(OLD)
        versions.feed()
        versions.until_written(NEW, TWICE)
        assert versions.written(OLD) == TOTALS[OLD]

        count = versions.records(NEW)
        with versions.stranger(NEW):
            process = reader.start(reset)
            site.until(lambda: versions.fails_for(NEW) == "GroupInUseError", "it to be named")
            assert versions.records(NEW) == count
        assert f"{NEW} is reset, and begins at these offsets" in reader.finish(process)
        versions.wait(NEW, "Ready")
        site.until(lambda: versions.has_read_everything(NEW), "the orders to be read again")
        assert versions.written(NEW) == TWICE
        assert versions.records(NEW) >= count + len(TWICE)


@pytest.mark.needs("stop_kubelet", "start_kubelet")
def test_a_kubelet_that_is_away_costs_no_count(
    site: Site, counted: Counted, settings: Settings
) -> None:
    site.scale(2)
    site.until_settled(2)
    before = site.uids()
    with counted.under_load():
        counted.until_more()
        try:
            shell(settings.stop_kubelet)
            site.until(site.nodes_away, "a node to be found NotReady")
            say(site.kubectl("get", "nodes,pods,sapp"))
            # Containers need no kubelet, and workers say for themselves that they live.
            counted.until_more()
            assert site.uids() == before

            # Nobody ends the process of this one: it has to be fenced.
            victim = site.pods_on(site.nodes_away())[0]
            site.kubectl("delete", "pod", victim, "--grace-period=0", "--force")
            site.until(lambda: site.runs_without(victim), f"all tasks of {victim} to run elsewhere")
            counted.until_more()
        finally:
            shell(settings.start_kubelet)
        site.until(lambda: not site.nodes_away(), "all nodes to be Ready")
        site.until_settled(2)
        counted.until_more()
    counted.until_exact()


@pytest.mark.needs("next_worker_image")
def test_another_tag_is_rolled_out(site: Site, counted: Counted, settings: Settings) -> None:
    before = site.uids()

    with counted.under_load():
        site.patch(image=settings.next_worker_image)
        site.until_settled(len(before))
        counted.until_more()

    assert site.images() == {settings.next_worker_image}
    assert not set(site.uids().values()) & set(before.values())
    counted.until_exact()


def test_a_bad_tag_halts_the_roll_out_and_costs_nothing(
    site: Site, counted: Counted, settings: Settings
) -> None:
    before, good = site.uids(), site.images()
    bad = bad_image(settings.worker_image)

    with counted.under_load():
        site.patch(image=bad)
        site.until(lambda: has_halted(site), "the halt, and its cause in the conditions")
        for _, reason, message in site.conditions("Ready", "Degraded"):
            say(f"{reason}: {message}")
        site.until(site.runs_all_tasks, "the other workers to have all tasks")
        counted.until_more()
        assert len(set(site.uids().values()) & set(before.values())) == len(before) - 1
        assert site.images() == good | {bad}

        [back] = good
        site.patch(image=back)
        site.until_settled(len(before))
        counted.until_more()

    assert site.images() == good
    assert len(set(site.uids().values()) & set(before.values())) == len(before) - 1
    counted.until_exact()


def has_halted(site: Site) -> bool:
    """Whether the roll-out has halted for want of the image, and says so."""
    progressing, *causes = site.conditions("Progressing", "Ready", "Degraded")
    return progressing[1] == "RolloutHalted" and all(
        reason == "ImagePullFailed" and NO_SUCH_TAG in message and "correct spec.image" in message
        for _, reason, message in causes
    )


@pytest.mark.needs("spark_image")
def test_it_goes_to_spark_and_back(site: Site, counted: Counted, settings: Settings) -> None:
    before = site.images()
    [native] = before
    small = {
        # So that all of them fit on a small machine.
        "spark.driver.memory": "512m",
        "spark.executor.memoryOverhead": "768m",
        "spark.kubernetes.driver.request.cores": "100m",
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.driver.extraJavaOptions": spark_classes.QUICK,
        "spark.executor.extraJavaOptions": spark_classes.QUICK,
    }
    site.scale(2)
    site.until_settled(2)
    with counted.under_load():
        spark = {"config": small, "triggerInterval": "1s"}
        site.patch(engine="Spark", image=settings.spark_image, spark=spark)
        site.until_on_spark(2)
        say(site.kubectl("get", "sapp,sw,pods,svc,pdb"))
        counted.until_more()

        victim = min(site.of_kind("executor"))
        site.kubectl("delete", "pod", victim, "--grace-period=1")
        site.until(lambda: len(set(site.of_kind("executor")) - {victim}) == 2, "another executor")
        counted.until_more()
        site.until_on_spark(2)

        driver = site.driver()
        site.kubectl("delete", "pod", DRIVER, "--grace-period=1")
        site.until_on_spark(2, but=driver)
        counted.until_more()

        site.patch(engine="Native", image=native)
        site.until_settled(2)
        site.until(lambda: not site.of_kind("driver") | site.of_kind("executor"), "Spark to go")
        counted.until_more()
    assert site.images() == before
    counted.until_exact()


def test_what_is_uninstalled_leaves_volumes_and_nothing_else(site: Site, counted: Counted) -> None:
    counted.until_exact()
    mistakes = [line for line in site.operator_log().splitlines() if " ERROR " in line]
    # As spec.state.retention says when it says nothing, and as the chart's crds.keep.
    claims = {f"persistentvolumeclaim/{APP}-w-{number}-state" for number in range(3)}
    crd = "customresourcedefinition.apiextensions.k8s.io"
    definitions = {f"{crd}/{name}" for name in custom_resource_definitions()}
    kept = site.before | claims | definitions | {f"configmap/{SOURCE}"}

    def left() -> set[str]:
        return (site.everything() | site.of_the_cluster()) - kept

    site.kubectl("delete", "streamapps", "--all", f"--timeout={PATIENCE_S}s")
    site.helm("uninstall", RELEASE, "--wait", f"--timeout={PATIENCE_S}s")
    # What the cluster itself removes follows in its own time.
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not left(), what="the rest to go", timeout_s=180, every_s=2)
    assert left() == set()
    assert site.everything() >= claims
    assert site.of_the_cluster() == definitions

    site.kubectl("delete", "--filename", str(CRDS))
    site.until(lambda: site.of_the_cluster() == set(), "the definitions to go")
    assert mistakes == []
