"""What a user does with Headwater on a cluster, from installing it to removing it, step by step.

One application lives through all steps, and its counts are exact after each: what was sent, counted
in plain Python, is what a reader of committed records finds, and no count was ever written twice.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.e2e.settings import NO_SUCH_TAG, OPERATOR_MAX_MB, WORKER_MAX_MB, bad_image
from tests.e2e.site import APP, CRDS, PATIENCE_S, RELEASE, say, shell
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.e2e.counted import Counted
    from tests.e2e.settings import Settings
    from tests.e2e.site import Site

SOURCE = "word-count-topology"


def test_it_is_installed_and_an_application_becomes_ready(site: Site, counted: Counted) -> None:
    site.install()
    source = {"topology.py": counted.topology}
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
                "state": {"size": "1Gi"},
            },
        },
    )

    site.kubectl("wait", "--for=condition=Ready", f"sapp/{APP}", f"--timeout={PATIENCE_S}s")

    say(site.kubectl("get", "sapp", "--output=wide"))
    site.until_settled(1)
    with counted.under_load():
        counted.until_more()
    counted.until_exact()


def test_the_images_are_small(site: Site, settings: Settings) -> None:
    for image, most_mb in (
        (settings.worker_image, WORKER_MAX_MB),
        (settings.operator_image, OPERATOR_MAX_MB),
    ):
        size = site.image_bytes(image)
        if size is None:
            say(f"{image}: no node says how large it is")
            continue
        say(f"{image}: {size / 1e6:.0f} MB of {most_mb}")
        assert size < most_mb * 1e6


def test_it_grows_and_shrinks_under_load(site: Site, counted: Counted) -> None:
    with counted.under_load():
        site.scale(3)
        site.until_settled(3)
        say(site.kubectl("get", "sapp,sw,pods,pvc"))
        counted.until_more()
        site.scale(1)
        site.until_settled(1)
        site.until(lambda: len(site.pods()) == 1, "the pods of two workers to go")
        counted.until_more()
    counted.until_exact()


@pytest.mark.parametrize("options", [(), ("--grace-period=0", "--force")], ids=["told", "forced"])
def test_a_pod_that_is_deleted_comes_again(
    site: Site, counted: Counted, options: tuple[str, ...]
) -> None:
    site.scale(2)
    site.until_settled(2)
    before = site.uids()
    victim = min(before)

    with counted.under_load():
        counted.until_more()
        say(site.kubectl("delete", "pod", victim, *options))
        site.until(
            lambda: site.uids().get(victim, before[victim]) != before[victim],
            f"another pod of {victim}",
        )
        site.until_settled(2)
        counted.until_more()
    counted.until_exact()


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
        site.until(
            lambda: site.conditions("Ready")[0][0] == "True",
            "the other workers to have all tasks",
        )
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


def test_what_is_uninstalled_leaves_volumes_and_nothing_else(site: Site, counted: Counted) -> None:
    counted.until_exact()
    mistakes = [line for line in site.operator_log().splitlines() if " ERROR " in line]
    # As spec.state.retention says when it says nothing, and as the chart's crds.keep.
    claims = {f"persistentvolumeclaim/{APP}-w-{number}-state" for number in range(3)}
    crd = "customresourcedefinition.apiextensions.k8s.io"
    definitions = {f"{crd}/streamapps.headwater.dev", f"{crd}/streamworkers.headwater.dev"}
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
