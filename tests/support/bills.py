"""How a bill of materials differs from what is in an image, as others see it."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

PLACE: Final = "/usr/local/share/sbom/headwater.cdx.json"
"""Where an image has its bill."""

PROBE: Final = r"""
import base64, hashlib, importlib.metadata, json, pathlib, platform, subprocess, sys

bill, wants_files = sys.argv[1], sys.argv[2:] == ["files"]
changed, missing = [], {}

def look(package, path, kind, wanted, told):
    try:
        data = pathlib.Path(path).read_bytes()
    except PermissionError:
        return
    except FileNotFoundError:
        missing.setdefault(package, []).append(str(path))
        return
    if told(hashlib.new(kind, data)) != wanted:
        changed.append(str(path))

def of_python(digest):
    return base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")

python = []
for package in importlib.metadata.distributions():
    python.append([package.metadata["Name"], package.version])
    for file in package.files or () if wants_files else ():
        if file.hash is not None:
            name = package.metadata["Name"]
            look(name, file.locate(), file.hash.mode, file.hash.value, of_python)

if wants_files:
    for sums in pathlib.Path("/var/lib/dpkg/info").glob("*.md5sums"):
        for line in sums.read_text().splitlines():
            wanted, path = line.split(maxsplit=1)
            if not path.startswith(("usr/share/doc/", "usr/share/man/", "usr/share/info/",
                                    "usr/share/locale/", "usr/share/lintian/")):
                look(sums.stem, f"/{path}", "md5", wanted, lambda digest: digest.hexdigest())

fields = ("${Package}", "${Version}", "${Architecture}", "${source:Package}", "${source:Version}",
          "${db:Status-Status}")
shown = subprocess.run(
    ["dpkg-query", "--show", "--showformat", "\t".join(fields) + "\n"],
    capture_output=True, text=True, check=True,
).stdout
debian = [line.split("\t") for line in shown.splitlines()]
system = platform.freedesktop_os_release()
print(json.dumps({
    "bill": json.loads(pathlib.Path(bill).read_text()),
    "python": python,
    "debian": [each[:5] for each in debian if each[5] == "installed"],
    "interpreter": [sys.base_prefix, platform.python_version()],
    "system": [system["ID"], system["VERSION_ID"]],
    "changed": changed,
    "missing": missing,
}))
"""
"""A program that runs where a bill is: ``python3 -c PROBE BILL [files]``.

It asks Python and dpkg what is installed, and prints that beside the bill. With ``files`` it
compares each file with the digest that its package has noted, but for documents, which slim images
leave out.
"""

Found = dict[str, Any]
"""What the program prints."""


def wrong(found: Found) -> list[str]:
    """Return how a bill differs from what is installed, and from CycloneDX's schema."""
    bill = found["bill"]
    listed = [each for each in bill["components"] if "purl" in each]
    bare = [each for each in bill["components"] if "purl" not in each]
    said = [f"{url} is listed {count} times" for url, count in repeated(listed).items()]
    said += [
        f"not to be read as a package URL: {each['purl']}" for each in listed if not read(each)
    ]
    there, wanted = {read(each) for each in listed} - {None}, installed(found)
    said += [f"listed, and not installed: {each}" for each in sorted(map(str, there - wanted))]
    said += [f"installed, and not listed: {each}" for each in sorted(map(str, wanted - there))]
    said += [
        f"{each['purl']} is called {each['name']} {each.get('version')}"
        for each in listed
        if (url := read(each)) is not None
        and (canonical(each["name"]), each.get("version")) != (canonical(url.name), url.version)
    ]
    systems = [[each["type"], each["name"], each.get("version")] for each in bare]
    if systems != [["operating-system", *found["system"]]]:
        said.append(f"without package URL there are {systems}")
    root = bill["metadata"]["component"]
    if [root["name"], root["version"]] not in found["python"]:
        said.append(f"it is the bill of {root['name']} {root['version']}")
    return [*said, *invalid(bill)]


def invalid(bill: dict[str, Any]) -> list[str]:
    """Return what CycloneDX's own schema, of the version that a bill names, says of it."""
    version = SchemaVersion.from_version(bill["specVersion"])
    error = JsonStrictValidator(version).validate_str(json.dumps(bill))
    return [] if error is None else [f"not valid: {error.data.json_path}: {error.data.message}"]


def repeated(listed: list[dict[str, Any]]) -> dict[str, int]:
    """Return the package URLs that several components have."""
    counts = Counter(each["purl"] for each in listed)
    return {url: count for url, count in counts.items() if count > 1}


def read(component: dict[str, Any]) -> PackageURL | None:
    """Return the package URL of a component; ``None`` if it is none."""
    try:
        return PackageURL.from_string(component["purl"])
    except ValueError:
        return None


def installed(found: Found) -> set[PackageURL]:
    """Return the package URLs of what is installed beside the bill's subject."""
    root = canonical(found["bill"]["metadata"]["component"]["name"])
    urls = {
        PackageURL(type="pypi", name=canonical(name), version=version)
        for name, version in found["python"]
        if canonical(name) != root
    }
    system, release = found["system"]
    for name, version, architecture, source, source_version in found["debian"]:
        upstream = source if source_version == version else f"{source}@{source_version}"
        more = {} if upstream == name else {"upstream": upstream}
        qualifiers = {"arch": architecture, "distro": f"{system}-{release}", **more}
        urls.add(
            PackageURL(
                type="deb", namespace=system, name=name, version=version, qualifiers=qualifiers
            )
        )
    prefix, version = found["interpreter"]
    if prefix != "/usr":
        urls.add(PackageURL(type="generic", name="python", version=version))
    return urls


def canonical(name: str) -> str:
    """Return the name of a package of Python as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
