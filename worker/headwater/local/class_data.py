"""Class data of the private Kafka's Java: written once, read by every start from then on.

Without it a broker spends a third of the processor time of its start on reading classes out of
jars. The archive (50 MB) is of one Java and one class path. Java passes over one that does not fit,
so that no start depends on it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.errors import LocalKafkaError
from headwater.local import jar_sets, jars
from headwater.local.broker import KafkaBroker
from headwater.local.filelock import FileLock, FileLockHeldError
from headwater.local.java import find_java
from headwater.local.jvm import archive_of

_WRITTEN_S: Final = 120.0


def prepare() -> list[Path]:
    """Fetch Kafka's jars if need be, write the class data if there are none; return the jars.

    Where nothing may be fetched (``HEADWATER_NO_FETCH``) nothing is written either.

    Raises:
        LocalKafkaError: a jar is neither in the cache nor to be fetched, or is not the locked one.
    """
    found = jars.class_path(jar_sets.KAFKA)
    archive = archive_of(find_java(), os.pathsep.join(map(str, found)))
    if not archive.exists() and not os.environ.get(jars.NO_FETCH_VARIABLE):
        # Without them Kafka only starts more slowly. If it does not start at all, the start that
        # follows says why. If somebody else writes them, we need not.
        with suppress(LocalKafkaError, FileLockHeldError, OSError):
            _write(archive)
    return found


def _write(archive: Path) -> None:
    """Run a broker for a moment; as it ends it writes down the classes that it has loaded."""
    with FileLock(archive.with_suffix(".lock")) as lock:
        lock.acquire(timeout_s=0.0)
        sys.stderr.write("preparing Kafka's classes, so that it starts faster from now on\n")
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".writing-") as staging:
            fresh = Path(staging, archive.name)
            broker = KafkaBroker(jvm_options=[f"-XX:ArchiveClassesAtExit={fresh}"])
            broker.start()
            broker.stop(grace_s=_WRITTEN_S)
            fresh.replace(archive)
