"""Another image, one that cannot be pulled, and another engine are rolled out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.settings import NO_SUCH_TAG, bad_image
from tests.e2e.site import DRIVER, say
from tests.support import spark_classes

if TYPE_CHECKING:
    from tests.e2e.counted import Counted
    from tests.e2e.settings import Settings
    from tests.e2e.site import Site


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
