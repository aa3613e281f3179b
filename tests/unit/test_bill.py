"""The bill of materials of an image has its base image in it, and a wrong one is found."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from images import bill as bills
from tests.support.bills import PROBE, invalid, wrong

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
STATUS = """\
Package: libstdc++6
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Source: gcc-12 (12.2.0-14+deb12u1)
Version: 12.2.0-14+deb12u1+b1
Depends: gcc-12-base (= 12.2.0-14), libc6 (>= 2.36)
Description: GNU Standard C++ Library v3
 A line of the description: with a colon
 .
 Version: 1

Package: libssl3
Status: hold ok installed
Architecture: amd64
Source: openssl
Version: 3.0.17-1~deb12u2

Package: login
Status: install ok installed
Architecture: amd64
Source: shadow (1:4.13+dfsg1-1)
Version: 1:4.13+dfsg1-1

Package: netbase
Status: deinstall ok config-files
Architecture: all
Version: 6.4

Package: tzdata
Status: install ok installed
Architecture: all
Version: 2025b-0+deb12u2
"""
BARE: dict[str, Any] = {
    "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "metadata": {
        "component": {"bom-ref": "root", "type": "library", "name": "headwater", "version": "1"}
    },
    "components": [
        {
            "bom-ref": "mmh3==5.3.1",
            "type": "library",
            "name": "mmh3",
            "version": "5.3.1",
            "purl": "pkg:pypi/mmh3@5.3.1",
        }
    ],
}


def made(
    *, status: str | None = STATUS, release: str = RELEASE, python: str | None = None
) -> dict[str, Any]:
    return bills.completed(BARE, status=status, release=release, python=python)


def urls(bill: dict[str, Any]) -> list[str]:
    return [each["purl"] for each in bill["components"] if "purl" in each]


def test_packages_of_debian_are_listed_with_release_and_source() -> None:
    bill = made()

    assert urls(bill) == [
        "pkg:pypi/mmh3@5.3.1",
        "pkg:deb/debian/libssl3@3.0.17-1~deb12u2?arch=amd64&distro=debian-12&upstream=openssl",
        (
            "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1%2Bb1?arch=amd64&distro=debian-12"
            "&upstream=gcc-12%4012.2.0-14%2Bdeb12u1"
        ),
        "pkg:deb/debian/login@1:4.13%2Bdfsg1-1?arch=amd64&distro=debian-12&upstream=shadow",
        "pkg:deb/debian/tzdata@2025b-0%2Bdeb12u2?arch=all&distro=debian-12",
    ]
    [system] = [each for each in bill["components"] if "purl" not in each]
    assert (system["type"], system["name"], system["version"]) == (
        "operating-system",
        "debian",
        "12",
    )
    assert "compositions" not in bill
    assert invalid(bill) == []


def test_a_python_that_is_no_package_of_the_system_is_listed() -> None:
    bill = made(python="3.13.5")

    [python] = [each for each in bill["components"] if each["name"] == "python"]
    assert python["purl"] == "pkg:generic/python@3.13.5"
    assert python["cpe"] == "cpe:2.3:a:python:python:3.13.5:*:*:*:*:*:*:*"
    assert invalid(bill) == []


def test_a_base_without_dpkg_makes_a_bill_that_says_what_it_lacks() -> None:
    bill = made(status=None, release="ID=alpine\nVERSION_ID=3.22.1\n", python="3.13.5")

    assert urls(bill) == ["pkg:pypi/mmh3@5.3.1", "pkg:generic/python@3.13.5"]
    [said] = bill["compositions"]
    assert said["aggregate"] == "incomplete"
    assert said["assemblies"] == [
        each["bom-ref"] for each in bill["components"] if each["name"] == "alpine"
    ]
    assert invalid(bill) == []


def test_an_invalid_bill_is_refused() -> None:
    text = json.dumps(made() | {"components": [{"type": "library"}]})

    with pytest.raises(
        bills.BillError, match=r"not valid CycloneDX 1\.6: \$\.components\[0\]: 'name'"
    ):
        bills.check(text)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The bill of a small environment, made as in an image, beside what is installed there."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("this machine has no dpkg")
    place = tmp_path_factory.mktemp("bill")
    python, path = small_environment(place / "environment"), place / "headwater.cdx.json"
    debian = place / "dpkg"
    (debian / "info").mkdir(parents=True)
    (debian / "status").write_text(STATUS)
    environment = {**os.environ, "DPKG_ADMINDIR": str(debian)}
    project = ROOT / "pyproject.toml"
    listing = ["-m", "cyclonedx_py", "environment", "--no-validate", "--output-reproducible"]
    listing += ["--pyproject", str(project), "--output-file", str(path), str(python)]
    for command in (
        [sys.executable, *listing],
        [sys.executable, str(ROOT / "images" / "bill.py"), str(path)],
    ):
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    command = [str(python), "-c", PROBE, str(path)]
    done = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=300
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def small_environment(place: Path) -> Path:
    """Make an environment with a few packages that are installed here; return its Python."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=300
    )
    [packages] = place.glob("lib/python*/site-packages")
    for name in ("headwater", "mmh3", "PyYAML"):
        noted = Path(str(distribution(name).locate_file("")))
        [folder] = [
            each
            for each in noted.glob("*.dist-info")
            if each.name.lower().startswith(f"{name.lower()}-")
        ]
        shutil.copytree(folder, packages / folder.name)
    return place / "bin" / "python"


def test_a_bill_is_true_to_what_is_installed(found: dict[str, Any]) -> None:
    assert wrong(found) == []
    named = {component["name"] for component in found["bill"]["components"]}
    assert {"mmh3", "PyYAML", "libssl3", "tzdata"} <= named
    assert not {"headwater", "netbase"} & named


def test_all_packages_of_a_system_are_read_as_dpkg_reads_them() -> None:
    status = bills.read_status()
    if status is None:
        pytest.skip("this machine has no packages of dpkg")
    fields = ("Package", "Version", "Architecture", "source:Package", "source:Version")
    form = "".join(f"${{{name}}}\t" for name in fields) + "${db:Status-Status}\n"
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat", form],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout

    told = {tuple(line.split("\t")) for line in shown.splitlines() if line.endswith("\tinstalled")}
    read = set()
    for package in bills.installed(status):
        source, _, version = package.source.partition("@")
        whole = (*package[:3], source, version or package.version, "installed")
        read.add(whole)

    assert read == told
    assert read


def entry(bill: dict[str, Any], name: str) -> dict[str, Any]:
    [component] = [each for each in bill["components"] if each["name"] == name]
    found: dict[str, Any] = component
    return found


def forget(bill: dict[str, Any]) -> None:
    bill["components"].remove(entry(bill, "libssl3"))


def add(bill: dict[str, Any]) -> None:
    url = "pkg:pypi/kopf@0.0.1"
    more = {"bom-ref": "k", "type": "library", "name": "kopf", "version": "0.0.1", "purl": url}
    bill["components"].append(more)


def age(bill: dict[str, Any]) -> None:
    entry(bill, "mmh3")["purl"] = "pkg:pypi/mmh3@0.0.1"


def call_otherwise(bill: dict[str, Any]) -> None:
    entry(bill, "mmh3")["name"] = "murmur"


def double(bill: dict[str, Any]) -> None:
    bill["components"].append(entry(bill, "libssl3") | {"bom-ref": "again"})


def garble(bill: dict[str, Any]) -> None:
    entry(bill, "libssl3")["purl"] = "deb/debian/libssl3"


def hide_the_system(bill: dict[str, Any]) -> None:
    bill["components"] = [each for each in bill["components"] if "purl" in each]


def type_nothing(bill: dict[str, Any]) -> None:
    del entry(bill, "libssl3")["type"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (forget, "installed, and not listed: pkg:deb/debian/libssl3@"),
        (add, "listed, and not installed: pkg:pypi/kopf@0.0.1"),
        (age, "listed, and not installed: pkg:pypi/mmh3@0.0.1"),
        (call_otherwise, " is called murmur "),
        (double, " is listed 2 times"),
        (garble, "not to be read as a package URL: deb/debian/libssl3"),
        (hide_the_system, "without package URL there are []"),
        (type_nothing, "not valid: "),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_bill_that_is_not_true_is_found(
    found: dict[str, Any], spoil: Callable[[dict[str, Any]], None], said: str
) -> None:
    spoiled = copy.deepcopy(found)
    spoil(spoiled["bill"])

    assert any(said in each for each in wrong(spoiled)), wrong(spoiled)
