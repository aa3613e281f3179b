"""What ``make e2e-cluster`` makes of its settings; the journey itself needs a cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.node import IMAGES
from tests.e2e.settings import (
    NO_SUCH_TAG,
    OPTIONAL,
    REQUIRED,
    NotToldError,
    Settings,
    bad_image,
    chart_values,
    example,
    image_bytes,
    split_image,
    variable,
)

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "word_count" / "streamapp.yaml"
STEPS = ROOT / "tests" / "e2e"


def settings(**changes: str) -> Settings:
    told = {
        "kubeconfig": "config",
        "worker_image": "team/worker:1",
        "operator_image": "team/operator:1",
        "bootstrap": "kafka:9092",
    }
    return Settings(**{**told, **changes})


def collected(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(STEPS), "--collect-only", "-q", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("worker", ("worker", "")),
        ("worker:1.0", ("worker", "1.0")),
        ("registry.example:5000/team/worker", ("registry.example:5000/team/worker", "")),
        ("registry.example:5000/team/worker:1", ("registry.example:5000/team/worker", "1")),
        ("team/worker@sha256:abc", ("team/worker@sha256:abc", "")),
    ],
)
def test_an_image_has_a_tag_only_where_a_registry_would_find_one(
    image: str, parts: tuple[str, str]
) -> None:
    assert split_image(image) == parts
    assert bad_image(image) == f"{parts[0]}:{NO_SUCH_TAG}"


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ("team/operator:1", {"repository": "team/operator", "tag": "1", "digest": ""}),
        ("a:5000/b:1@sha256:c", {"repository": "a:5000/b", "tag": "", "digest": "sha256:c"}),
        ("a:5000/b@sha256:c", {"repository": "a:5000/b", "tag": "", "digest": "sha256:c"}),
    ],
)
def test_the_chart_is_told_images_and_kafka(image: str, named: dict[str, str]) -> None:
    values = chart_values(settings(operator_image=image, bootstrap="one:1,two:2"))

    assert values["image"] == named
    assert values["worker"] == {"image": "team/worker:1"}
    assert values["kafka"] == {"bootstrapServers": "one:1,two:2"}


def test_what_is_missing_is_named_with_the_whole_command() -> None:
    settings().check()
    with pytest.raises(
        NotToldError, match=r"not set: WORKER_IMAGE, BOOTSTRAP; .*KUBECONFIG=\.\.\."
    ):
        settings(worker_image="", bootstrap="").check()


def test_half_of_a_pair_another_access_mode_and_a_digest_to_roll_from_are_refused() -> None:
    with pytest.raises(NotToldError, match="STOP_KUBELET and START_KUBELET go together"):
        settings(stop_kubelet="systemctl stop kubelet").check()
    with pytest.raises(NotToldError, match=r"is ReadWriteOnce: .* or nothing"):
        settings(state_access_mode="ReadWriteOnce").check()
    with pytest.raises(NotToldError, match="give a tag, not a digest"):
        settings(worker_image="team/worker@sha256:abc").check()


def test_a_size_is_what_any_node_says_of_that_very_image() -> None:
    def node(*names: str, size: int) -> dict[str, Any]:
        return {"status": {"images": [{"names": list(names), "sizeBytes": size}]}}

    nodes = [
        {"status": {}},
        node("example.com/team/my-worker:1", "example.com/team/worker:2", size=5),
        node("example.com/team/worker@sha256:abc", "example.com/team/worker:1", size=7),
    ]

    assert image_bytes(nodes, "team/worker:1") == 7
    assert image_bytes(nodes, "example.com/team/worker:2") == 5
    assert image_bytes(nodes, "worker:3") is None


def test_the_example_is_applied_as_it_stands_unless_its_image_has_another_name() -> None:
    manifest = EXAMPLE.read_text()
    named = yaml.safe_load(manifest)["spec"]["image"]

    assert example(manifest, named) == manifest
    moved = yaml.safe_load(example(manifest, "a:5000/team/words:2"))
    assert moved == yaml.safe_load(manifest.replace(named, "a:5000/team/words:2"))


def test_the_example_names_the_image_that_the_page_and_the_node_build() -> None:
    named = yaml.safe_load(EXAMPLE.read_text())["spec"]["image"]

    for said in (ROOT / "docs" / "install.md", EXAMPLE.with_name("Dockerfile")):
        assert f"docker build -f examples/word_count/Dockerfile -t {named} ." in said.read_text()
    assert IMAGES[named][0] == "examples/word_count/Dockerfile"
    # The image that it begins at has been built before.
    begins_at = IMAGES[named][1].removeprefix("WORKER=")
    assert list(IMAGES).index(begins_at) < list(IMAGES).index(named)


def test_the_command_passes_on_every_setting() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ne2e-cluster:")[2].partition("\n\n")[0]
    passed = dict(re.findall(r'--([a-z-]+)="\$\$(\w+)"', recipe))

    names = (*REQUIRED, *OPTIONAL)
    assert passed == {name.replace("_", "-"): variable(name) for name in names}


def test_nobody_who_runs_all_tests_sets_out_on_the_journey() -> None:
    assert "no tests collected" in collected()


def test_the_steps_come_in_the_order_of_the_files_and_what_is_left_out_is_said() -> None:
    shown = collected("--worker-image=worker:1", "--next-worker-image=worker:2")
    found = re.findall(r"::(test_\w+)", shown)
    files = sorted(STEPS.glob("test_*.py"))
    written = [
        name
        for file in files
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    ]
    left_out = {
        "test_a_kubelet_that_is_away_costs_no_count",
        "test_the_committed_example_counts_words",
        "test_no_second_pod_comes_to_a_volume",
        "test_it_goes_to_spark_and_back",
    }

    assert left_out <= set(written)
    assert list(dict.fromkeys(found)) == [name for name in written if name not in left_out]
    assert "LEFT OUT: the kubelet stopped and started" in shown
    assert "LEFT OUT: the committed example" in shown
    assert "LEFT OUT: a roll to another tag" not in shown
