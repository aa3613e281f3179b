"""Jars on this machine: fetched once by jgo, checked against the committed sums, kept in the cache.

A jar that lies in the cache has been verified: it is fetched into a directory of its own, summed,
and only then renamed into place. A marker per lock says that all its jars are there. Processes that
fetch at the same time take turns under a file lock.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import LocalKafkaError
from headwater.local import jar_sets
from headwater.local.filelock import FileLock, FileLockHeldError
from headwater.local.paths import cache_dir
from headwater.local.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.local.jar_sets import Jar, JarSet
    from headwater.local.progress import Progress

FETCH_COMMAND = "headwater kafka fetch"
NO_FETCH_VARIABLE = "HEADWATER_NO_FETCH"
"""Where this variable is set, nothing is fetched; its value is the command that fills the cache."""
_FETCH_TIMEOUT_S = 900.0


def store() -> Path:
    """Directory of the jars within the cache."""
    return cache_dir() / "jars"


def class_path(*names: str) -> list[Path]:
    """Jars of the named sets of :mod:`headwater.local.jar_sets`, fetched if need be, no repeats.

    Raises:
        LocalKafkaError: a jar is neither in the cache nor to be fetched, or is not the locked one.
    """
    found: dict[Path, None] = {}
    for name in names:
        for path in ensure(jar_sets.load(name)):
            found[path] = None
    return list(found)


def ensure(jar_set: JarSet) -> list[Path]:
    """Paths of all jars of a set, after fetching those that the cache lacks.

    Raises:
        LocalKafkaError: as for :func:`class_path`.
    """
    place = store()
    paths = [place / jar.path for jar in jar_set.jars]
    marker = place / f".{jar_set.name}-{jar_set.digest}"
    if marker.exists() and all(path.exists() for path in paths):
        return paths
    lock = FileLock(place / ".fetch.lock")
    try:
        lock.acquire(timeout_s=_FETCH_TIMEOUT_S)
    except FileLockHeldError as error:
        raise LocalKafkaError(
            f"process {error.holder} has been fetching jars into {place} for "
            f"{_FETCH_TIMEOUT_S:.0f} s; end it and run `{FETCH_COMMAND}` again"
        ) from error
    except OSError as error:
        raise LocalKafkaError(
            f"cannot write the cache {place}: {error.strerror}; "
            "set HEADWATER_CACHE to a directory that can be written"
        ) from error
    with lock:
        missing = [jar for jar in jar_set.jars if not _is_intact(place, jar)]
        if missing and (command := os.environ.get(NO_FETCH_VARIABLE)):
            raise LocalKafkaError(
                f"the cache {place} lacks {_shown(missing)} of {jar_set.name}, and nothing is "
                f"fetched where {NO_FETCH_VARIABLE} is set: run `{command}` first"
            )
        if missing:
            _fetch(place, jar_set, missing)
        marker.touch()
    return paths


def _is_intact(place: Path, jar: Jar) -> bool:
    """Whether the cache holds this very jar; one that is damaged is removed."""
    path = place / jar.path
    if not path.exists():
        return False
    if _sha256(path) == jar.sha256:
        return True
    path.unlink()
    return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(place: Path, jar_set: JarSet, missing: list[Jar]) -> None:
    with (
        tempfile.TemporaryDirectory(dir=place, prefix=".fetching-") as staging,
        show_progress(f"fetching {jar_set.name}", total=len(missing)) as progress,
    ):
        download = _downloader(Path(staging), progress)
        for position, jar in enumerate(missing):
            try:
                fetched = download(jar)
            except Exception as error:
                # jgo and its HTTP client raise many kinds, and all of them mean "not fetched".
                raise _cannot_fetch(place, missing[position:], error) from error
            actual = _sha256(fetched)
            if actual != jar.sha256:
                raise LocalKafkaError(
                    f"{jar.coordinates} arrived with SHA-256 {actual}, but {jar.sha256} is locked; "
                    f"it was not kept. Check the repositories in jgo's configuration, "
                    f"then run `{FETCH_COMMAND}` again"
                )
            target = place / jar.path
            target.parent.mkdir(parents=True, exist_ok=True)
            fetched.replace(target)
            progress.finished(target.name)


def _downloader(staging: Path, progress: Progress) -> Callable[[Jar], Path]:
    """A function that fetches one jar into the staging directory, by jgo as it is configured."""
    try:
        # Of the extra `local`, slow to import and seldom needed: not at the top.
        from jgo.config import GlobalSettings  # noqa: PLC0415
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415
    except ImportError as error:
        raise LocalKafkaError(
            "the private Kafka needs the extra 'local': pip install 'headwater[local]'"
        ) from error

    @contextmanager
    def follow(_name: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield progress.received

    context = MavenContext(
        repo_cache=staging,
        remote_repos={"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories},
        resolver=PythonResolver(progress_callback=follow),
        timeout=30,
    )

    def download(jar: Jar) -> Path:
        group, artifact, version = jar.coordinates.split(":")
        return Path(context.project(group, artifact).at_version(version).artifact().resolve())

    return download


def _cannot_fetch(place: Path, missing: list[Jar], error: Exception) -> LocalKafkaError:
    found = f"cannot fetch {_shown(missing)} ({type(error).__name__}). "
    if _is_untrusted(error):
        return LocalKafkaError(
            f"{found}The certificate of the repository is not trusted here: behind a proxy that "
            "signs with its own, set REQUESTS_CA_BUNDLE to a file with the proxy's certificate, "
            f"then run `{FETCH_COMMAND}` again"
        )
    return LocalKafkaError(
        f"{found}With a network, run "
        f"`{FETCH_COMMAND}` once; without one, copy a filled cache from another machine to "
        f"{place.parent} (HEADWATER_CACHE chooses another place)"
    )


def _is_untrusted(error: BaseException | None) -> bool:
    """Whether a certificate that did not verify is behind an error."""
    while error is not None:
        if isinstance(error, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _shown(missing: list[Jar]) -> str:
    names = [jar.coordinates for jar in missing]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
