"""spec.imageCatalogRef: the image is looked up by a version, and another one is rolled out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support import pages
from tests.support.kube_rig import IMAGE, NAMESPACE, KubeRig, streamapp

from headwater_operator.kube.api import PODS, STREAM_IMAGE_CATALOGS

if TYPE_CHECKING:
    from headwater_operator.kube.api import Manifest

NEWER = "example/worker:2"


def by_catalog(version: str = "1") -> Manifest:
    app = streamapp(imageCatalogRef={"name": "shop", "version": version})
    del app["spec"]["image"]
    return app


def publish(rig: KubeRig, **images: str) -> None:
    """Write the catalogue: what ``v1`` stands for is version 1."""
    spec = {"images": [{"version": name[1:], "image": image} for name, image in images.items()]}
    found = rig.api.get(STREAM_IMAGE_CATALOGS, NAMESPACE, "shop")
    if found is not None:
        rig.api.replace(STREAM_IMAGE_CATALOGS, {**found, "spec": spec})
        return
    named = {"name": "shop", "namespace": NAMESPACE}
    rig.api.create(STREAM_IMAGE_CATALOGS, {"metadata": named, "spec": spec})


def images(rig: KubeRig) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in rig.api.list(PODS, NAMESPACE)}


def pods(rig: KubeRig) -> dict[str, str]:
    return {name: rig.uid(PODS, name) for name in rig.names(PODS)}


@pytest.fixture
def serving(rig: KubeRig) -> KubeRig:
    publish(rig, v1=IMAGE, v2=NEWER)
    rig.apply(by_catalog())
    rig.until(rig.is_ready)
    return rig


def test_workers_run_the_image_of_the_version(serving: KubeRig) -> None:
    assert images(serving) == {IMAGE}


def test_another_image_for_the_version_is_rolled_out(serving: KubeRig) -> None:
    publish(serving, v1=NEWER)

    serving.until(lambda: images(serving) == {NEWER} and serving.is_ready(), turns=2_000)

    after = pods(serving)
    serving.turn(300)
    assert pods(serving) == after


def test_what_others_run_is_nobodys_reason_for_a_roll_out(serving: KubeRig) -> None:
    before = pods(serving)

    publish(serving, v1=IMAGE, v2="example/worker:3")
    serving.turn(400)

    assert pods(serving) == before


def test_another_version_is_rolled_out(serving: KubeRig) -> None:
    serving.set("/spec/imageCatalogRef/version", "2")

    serving.until(lambda: images(serving) == {NEWER} and serving.is_ready(), turns=2_000)


def test_the_same_image_from_the_catalogue_replaces_nobody(rig: KubeRig) -> None:
    publish(rig, v1=IMAGE)
    rig.apply(streamapp())
    rig.until(rig.is_ready)
    before = pods(rig)

    rig.apply(by_catalog())
    rig.turn(200)

    assert rig.is_ready()
    assert pods(rig) == before


def test_a_version_that_is_gone_is_named_and_what_runs_goes_on(serving: KubeRig) -> None:
    before = pods(serving)

    publish(serving, v2=NEWER, v3=NEWER)
    serving.until(lambda: serving.condition("SpecValid")[0] == "False", turns=400)
    serving.turn(100)

    said = serving.condition("SpecValid")
    assert said[1] == "InvalidSpec"
    assert "StreamImageCatalog 'shop' has no version '1'; it has: 2, 3" in said[2]
    assert pods(serving) == before
    assert serving.status()["readyReplicas"] == 2
    publish(serving, v1=IMAGE)
    serving.until(serving.is_ready, turns=400)
    assert pods(serving) == before


def test_a_catalogue_that_is_gone_is_named_and_what_runs_goes_on(serving: KubeRig) -> None:
    before = pods(serving)

    serving.api.delete(STREAM_IMAGE_CATALOGS, NAMESPACE, "shop")
    serving.until(lambda: serving.condition("SpecValid")[0] == "False", turns=400)

    assert "there is no StreamImageCatalog 'shop'" in serving.condition("SpecValid")[2]
    assert pods(serving) == before


def test_a_catalogue_that_comes_later_is_found(rig: KubeRig) -> None:
    rig.apply(by_catalog())
    rig.until(lambda: rig.condition("Ready")[1] == "InvalidSpec")
    assert rig.names(PODS) == []

    publish(rig, v1=IMAGE)

    rig.until(rig.is_ready, turns=1_000)


def test_the_resources_of_the_page_run_what_they_name(rig: KubeRig) -> None:
    catalog, app = map(yaml.safe_load, pages.blocks("live-changes.md", "yaml")[2:4])
    for each in (catalog, app):
        each["metadata"]["namespace"] = NAMESPACE
    app["spec"]["kafka"] = {"bootstrapServers": "broker:9092"}
    rig.api.create(STREAM_IMAGE_CATALOGS, catalog)

    rig.apply(app)
    rig.until(lambda: images(rig))

    assert images(rig) == {"registry.example.com/shop:1.4.2"}
