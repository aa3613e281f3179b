"""Programs of tests that come from the system's packages: a browser and Prometheus.

    python -m tests.debian

finds them, or installs what is missing from Debian's packages where it may (root, with apt-get);
elsewhere it says what to install. ``make caches`` does so with ``--all``; a test asks :func:`find`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class Program:
    """A program, under the names that systems give it.

    Attributes:
        package: the package of Debian that has it.
        names: of the program, the preferred one first.
        what: it is, in words.
    """

    package: str
    names: tuple[str, ...]
    what: str

    @property
    def path(self) -> Path | None:
        """Where it is; ``None`` if it is not there."""
        found = (shutil.which(name) for name in self.names)
        return next((Path(each) for each in found if each is not None), None)


CHROMIUM: Final = Program("chromium", ("chromium", "chromium-browser"), "the browser Chromium")
PROMETHEUS: Final = Program("prometheus", ("prometheus",), "Prometheus")
PROMTOOL: Final = Program("prometheus", ("promtool",), "Prometheus' promtool")
PROGRAMS: Final = (CHROMIUM, PROMETHEUS, PROMTOOL)


class ProgramMissingError(Exception):
    """A program that a test needs is not on this machine; the message says how it gets there."""


def find(program: Program) -> Path:
    """Return where a program is.

    Raises:
        ProgramMissingError: it is nowhere on the PATH.
    """
    if (found := program.path) is not None:
        return found
    raise ProgramMissingError(
        f"{program.what} is missing: install your system's package {program.package} "
        "(make caches does it where it may)"
    )


def prepare() -> None:
    """Install what is missing.

    Raises:
        ProgramMissingError: it may not, or the packages cannot be had.
    """
    missing = sorted({each.package for each in PROGRAMS if each.path is None})
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing from the system's packages: {', '.join(missing)}", flush=True)
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *missing)
    for each in PROGRAMS:
        find(each)


def _apt_get(*arguments: str) -> None:
    options = ("-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300", "-q")
    done = subprocess.run(
        ["apt-get", *options, *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip())[-2_000:]
        raise ProgramMissingError(f"apt-get {arguments[0]} failed:\n{told}")


def main() -> int:
    """Install what is missing, say where everything is; return the exit status."""
    try:
        prepare()
    except ProgramMissingError as error:
        print(f"make caches: {error}", file=sys.stderr)
        return 1
    print(", ".join(f"{each.what} is {each.path}" for each in PROGRAMS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
