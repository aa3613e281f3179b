"""It grows and shrinks: by hand, by its load, and in size; no other pod comes to its volume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.settings import READ_WRITE_ONCE_POD
from tests.e2e.site import PATIENCE_S, restricted_pod, say
from tests.e2e.tools import asked_all_the_while

if TYPE_CHECKING:
    from tests.e2e.counted import Counted
    from tests.e2e.settings import Settings
    from tests.e2e.site import Site

SECOND = "second"
AUTOSCALING = {
    "mode": "Auto",
    "minReplicas": 1,
    "maxReplicas": 2,
    "targetCatchUp": "30s",
    "behavior": {
        "scaleUp": {"stabilizationWindow": "4s"},
        "scaleDown": {"stabilizationWindow": "6s"},
    },
}


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


def test_the_number_of_workers_follows_the_load(site: Site, counted: Counted) -> None:
    site.patch(autoscaling=AUTOSCALING)
    with counted.under_load(heavy=True):
        site.until(lambda: site.autoscaled() == 2, "more workers to be wanted")
        site.until_settled(2)
        say(site.kubectl("get", "sapp,sw,pods", "--output=wide"))
        counted.until_more()
    with counted.under_load():
        site.until(lambda: site.autoscaled() == 1, "one worker to be enough")
        site.until_settled(1)
        site.until(lambda: len(site.pods()) == 1, "the pod of the other to go")
        counted.until_more()
    counted.until_exact()
    told = site.kubectl("get", "events", "--field-selector=reason=Autoscaled")
    assert "from 1 to 2 workers" in told
    assert "from 2 to 1 workers" in told
    site.patch(autoscaling=None)
    site.until_settled(1)


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
    pod = restricted_pod(SECOND, image, "sleep", "3600")
    [container] = pod["spec"]["containers"]
    container["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    volume = {"name": "state", "persistentVolumeClaim": {"claimName": claim}}
    pod["spec"]["volumes"] = [volume]
    return pod


def is_kept_off(pod: dict[str, Any]) -> bool:
    """Whether a pod waits because another one has its volume."""
    phase, conditions = pod["status"]["phase"], pod["status"].get("conditions") or ()
    said = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
    return phase == "Pending" and READ_WRITE_ONCE_POD in "".join(said)
