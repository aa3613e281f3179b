"""The command lines of the private Kafka's Java programs."""

from __future__ import annotations

import hashlib
import os
import shlex
from typing import TYPE_CHECKING, Final

from headwater.local.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FIRST_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""Of a program that is over before Java's second compiler has earned what it costs."""
_LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    # When it coordinates transactions, and which markers it skips: docs/adr/0030.
    *(
        f"-Dorg.slf4j.simpleLogger.log.kafka.coordinator.transaction.{name}=info"
        for name in ("TransactionCoordinator", "TransactionMarkerChannelManager")
    ),
)
_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData", *_LOGGING)
# Java says nothing of an archive that it passes over.
_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def kafka_command(
    java: Path, class_path: str, *main: str, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the command line of a program of Kafka.

    Args:
        java: the program ``java``.
        class_path: Kafka's jars.
        main: the class, and its arguments.
        options: more options for Java; those of ``HEADWATER_KAFKA_OPTS`` come after them, as those
            of ``KAFKA_OPTS`` do in Kafka's own scripts.
    """
    archive = archive_of(java, class_path)
    shared = (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive.exists() else ()
    more = shlex.split(os.environ.get("HEADWATER_KAFKA_OPTS", ""))
    return (str(java), *_OPTIONS, *shared, *options, *more, "-cp", class_path, *main)


def archive_of(java: Path, class_path: str) -> Path:
    """Return where the class data of one Java and one class path lie (``class_data``)."""
    runtime = java.resolve()
    of = f"{runtime} {runtime.stat().st_mtime_ns} {class_path}"
    return cache_dir() / "class-data" / f"kafka-{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"
