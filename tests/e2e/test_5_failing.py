"""Pods are deleted, and a node's kubelet is away: no count is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import say, shell

if TYPE_CHECKING:
    from tests.e2e.counted import Counted
    from tests.e2e.settings import Settings
    from tests.e2e.site import Site


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
