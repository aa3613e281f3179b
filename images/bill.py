"""Completes a bill of materials with what an image has beside Python packages.

``cyclonedx-py environment`` lists the packages of Python. This adds the base image: its operating
system, its Debian packages, and a Python that is none of them. It runs while an image is built, in
the environment of that tool: ``python bill.py BILL``. What comes out is checked with the schema of
CycloneDX (https://cyclonedx.org), so an image whose bill is invalid is not built.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Bill = dict[str, Any]

RELEASE = Path("/etc/os-release")
SYSTEM = "operating-system"
"""What other parts of the bill call the component of the operating system."""


class BillError(Exception):
    """The bill does not keep to the schema."""


class Package(NamedTuple):
    """A Debian package as dpkg knows it.

    Attributes:
        name: of the binary package.
        version: Debian's, with epoch and revision.
        architecture: ``all``, or that of the image.
        source: name of the source package, which advisories of Debian name; with ``@`` and its
            version, if that is another one.
    """

    name: str
    version: str
    architecture: str
    source: str


def installed(status: str) -> Iterator[Package]:
    """Yield the packages that are installed, from the text of dpkg's status file (deb822)."""
    for paragraph in status.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line and not line.startswith(" ")
        )
        if fields.get("Status", "").endswith(" installed"):
            yield Package(
                fields["Package"], fields["Version"], fields["Architecture"], _source(fields)
            )


def _source(fields: Mapping[str, str]) -> str:
    """Return the source package; the field is left out if it is called like the binary one."""
    name, _, version = fields.get("Source", fields["Package"]).partition(" ")
    version = version.strip("()")
    return f"{name}@{version}" if version not in ("", fields["Version"]) else name


def release_of(text: str) -> dict[str, str]:
    """Return the variables of ``/etc/os-release``, without their quotes."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, value in pairs}


def component_of(package: Package, release: Mapping[str, str]) -> dict[str, str]:
    """Return the component of a package.

    Its package URL has ``distro`` and ``upstream`` beside ``arch``: scanners look advisories up by
    the release of the distribution and by the source package.
    """
    qualifiers = {
        "arch": package.architecture,
        "distro": f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', 'unstable')}",
    }
    if package.source != package.name:
        qualifiers["upstream"] = package.source
    url = str(
        PackageURL(
            type="deb",
            namespace=release.get("ID", "debian"),
            name=package.name,
            version=package.version,
            qualifiers=qualifiers,
        )
    )
    return {
        "bom-ref": url,
        "name": package.name,
        "purl": url,
        "type": "library",
        "version": package.version,
    }


def system_of(release: Mapping[str, str]) -> dict[str, str]:
    """Return the component of the operating system of the base image."""
    found = {
        "bom-ref": SYSTEM,
        "description": release.get("PRETTY_NAME", ""),
        "name": release.get("ID", "linux"),
        "type": "operating-system",
        "version": release.get("VERSION_ID", ""),
    }
    return {name: text for name, text in found.items() if text}


def interpreter_of(version: str) -> dict[str, str]:
    """Return the component of a Python that is no Debian package, as in Python's own images."""
    url = str(PackageURL(type="generic", name="python", version=version))
    return {
        "bom-ref": url,
        "cpe": f"cpe:2.3:a:python:python:{version}:*:*:*:*:*:*:*",
        "name": "python",
        "purl": url,
        "type": "platform",
        "version": version,
    }


def completed(bill: Bill, *, status: str | None, release: str, python: str | None) -> Bill:
    """Return the bill with the base image in it.

    Args:
        bill: of the Python packages.
        status: text of dpkg's status file; ``None`` if the base image has none. The bill then says
            that the packages of the operating system are missing from it.
        release: text of ``/etc/os-release``.
        python: version of the interpreter, unless it is one of Debian's packages.
    """
    names = release_of(release)
    more = [system_of(names)]
    if python is not None:
        more.append(interpreter_of(python))
    if status is None:
        incomplete = {"aggregate": "incomplete", "assemblies": [SYSTEM]}
        bill = {**bill, "compositions": [*bill.get("compositions", []), incomplete]}
    else:
        more += [component_of(each, names) for each in installed(status)]
    components = sorted([*bill.get("components", []), *more], key=lambda each: each["bom-ref"])
    return {**bill, "components": components}


def check(text: str) -> None:
    """Raise ``BillError`` unless a bill keeps to the schema of the version it names."""
    version = json.loads(text)["specVersion"]
    found = JsonStrictValidator(SchemaVersion.from_version(version)).validate_str(text)
    if found is not None:
        said = f"{found.data.json_path}: {found.data.message}"
        raise BillError(f"the bill of materials is not valid CycloneDX {version}: {said}")


def read_status() -> str | None:
    """Return the text of dpkg's status file; ``None`` if the base image has none."""
    path = Path(os.environ.get("DPKG_ADMINDIR") or "/var/lib/dpkg") / "status"
    return path.read_text() if path.exists() else None


def complete(path: Path) -> None:
    """Complete the bill in a file with the base image that this runs in."""
    status = read_status()
    # A virtual environment of Debian's Python has it in /usr.
    is_of_debian = status is not None and Path(sys.base_prefix) == Path("/usr")
    python = None if is_of_debian else platform.python_version()
    bill = json.loads(path.read_text())
    release = RELEASE.read_text() if RELEASE.exists() else ""
    text = json.dumps(
        completed(bill, status=status, release=release, python=python), indent=2, sort_keys=True
    )
    check(text)
    path.write_text(text + "\n")
    if status is None:
        print(f"{path}: the base image has no dpkg, so the bill lacks the packages of it")


if __name__ == "__main__":
    complete(Path(sys.argv[1]))
