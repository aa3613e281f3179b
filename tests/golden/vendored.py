"""Fetches the libraries and the font of the page: ``python -m tests.golden.vendored``.

Built files, exactly as published, with their licences. The packages are named below with the
digest of what the registry sends; npm, as it is set up on this machine, knows where that is. The
digests of the files are written to ``checksums.json``, by which ``test_vendored.py`` finds a file
that has changed, without a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "operator/headwater_operator/web/static/vendor"
CHECKSUMS = VENDOR / "checksums.json"


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the npm registry.

    Attributes:
        name: its name.
        version: the one that is taken.
        sha512: of its archive, in base64, as npm's ``integrity`` has it.
        files: what is taken from it, by the name that it gets here.
    """

    name: str
    version: str
    sha512: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "@dagrejs/dagre",
        "3.1.3",
        "X4aUTwOReZvthaZWOVHqlJ52/ZdhZFEM4+Lh/uR4XooUSLE6p71bcy7MPGzYnNUcNh+nj+i/qJQpCMIdQnSmrg==",
        {"dagre.esm.js": "dist/dagre.esm.js", "dagre.LICENSE.txt": "LICENSE"},
    ),
    Package(
        "uplot",
        "1.6.32",
        "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {
            "uPlot.iife.min.js": "dist/uPlot.iife.min.js",
            "uPlot.min.css": "dist/uPlot.min.css",
            "uPlot.LICENSE.txt": "LICENSE",
        },
    ),
    Package(
        "@fontsource-variable/inter",
        "5.3.0",
        "OupL48va4JNofb97w6NYeF9S7W/kHNKM0Er8Dem5nqi4jeOLrVJDoE8tZEpnMJmtkvNbB1EIPPwHcdkF6b1oUA==",
        {
            "inter-latin-wght-normal.woff2": "files/inter-latin-wght-normal.woff2",
            "inter.LICENSE.txt": "LICENSE",
        },
    ),
)


def digest(data: bytes) -> str:
    """Return the SHA-256 that is written down for a file."""
    return hashlib.sha256(data).hexdigest()


def fetch(package: Package, folder: Path) -> dict[str, bytes]:
    """Return the files of a package by the names that they get.

    Raises:
        SystemExit: what the registry sends is not what was locked.
    """
    name = f"{package.name}@{package.version}"
    packed = subprocess.run(
        ["npm", "pack", "--silent", "--ignore-scripts", name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[-1]
    archive = folder / packed
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != package.sha512:
        sys.exit(f"{name}: its archive has the digest {found}, not {package.sha512}")
    files: dict[str, bytes] = {}
    with tarfile.open(archive) as content:
        for own, path in package.files.items():
            member = content.extractfile(f"package/{path}")
            assert member is not None, path
            files[own] = member.read()
    return files


def main() -> None:
    """Write the files and their digests."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    written: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES:
            written |= fetch(package, Path(folder))
    for path in VENDOR.iterdir():
        if path.name not in written:
            path.unlink()
    for name, data in written.items():
        (VENDOR / name).write_bytes(data)
    checksums = {name: digest(data) for name, data in sorted(written.items())}
    CHECKSUMS.write_text(json.dumps(checksums, indent=2) + "\n")


if __name__ == "__main__":
    main()
