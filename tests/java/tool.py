"""Compiles Java sources with the fetched compiler and runs them: needs a Java runtime, no JDK."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.local import jar_sets, jars
from headwater.local.java import find_java
from headwater.local.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
_COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"
_COMPILE_TIMEOUT_S = 300


class JavaTool:
    """The programs in one directory of Java sources (no packages), compiled once per content."""

    def __init__(self, sources: Path, *, jar_set: str = jar_sets.STREAMS) -> None:
        self._sources = sorted(sources.glob("*.java"))
        assert self._sources, f"no Java sources in {sources}"
        self._name = sources.name
        self._jars = jars.class_path(jar_set)

    def compile(self) -> Path:
        """Directory of the classes; compiled now if these very sources never were."""
        digest = hashlib.sha256(":".join(path.name for path in self._jars).encode())
        for source in self._sources:
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
        target = cache_dir() / "classes" / f"{self._name}-{digest.hexdigest()[:16]}"
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=".compiling-"))
        compiled = subprocess.run(
            [
                *(str(find_java()), "-cp", str(jars.class_path(jar_sets.ECJ)[0]), _COMPILER),
                *("-17", "-nowarn", "-proc:none", "-encoding", "UTF-8"),
                *("-cp", os.pathsep.join(map(str, self._jars)), "-d", str(staging)),
                *map(str, self._sources),
            ],
            capture_output=True,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
        if compiled.returncode != 0:
            shutil.rmtree(staging)
            raise AssertionError(f"Java does not compile:\n{compiled.stdout}{compiled.stderr}")
        try:
            staging.rename(target)
        except OSError:
            shutil.rmtree(staging)  # another process compiled the same sources meanwhile
        return target

    def command(
        self, main_class: str, *arguments: str, jvm: Sequence[str] = ("-Xmx512m", QUIET)
    ) -> list[str]:
        """The command line that runs a main class."""
        class_path = os.pathsep.join(map(str, [self.compile(), *self._jars]))
        return [str(find_java()), *jvm, "-cp", class_path, main_class, *arguments]

    def start(self, main_class: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a main class with pipes to its standard input and output."""
        jvm = options.pop("jvm", ("-Xmx512m", QUIET))
        return subprocess.Popen(
            self.command(main_class, *arguments, jvm=jvm),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )


def _state() -> tuple[str, ...]:
    """Let the oracle keep its stores in memory, if there is a place for files there.

    On a disk it waits for each commit of each store: most of its time, on a busy machine.
    """
    memory = Path("/dev/shm")
    return (f"-Doracle.state={memory}",) if os.access(memory, os.W_OK | os.X_OK) else ()


class Answering:
    """A running Java program that answers each line of JSON with one.

    Args:
        sources: folder of its sources, beside this module.
        main_class: what is run.
        jar_set: what it is compiled against and runs with.
        heap: of the JVM.
    """

    def __init__(
        self,
        sources: str,
        main_class: str,
        *,
        jar_set: str = jar_sets.STREAMS,
        heap: str = "256m",
    ) -> None:
        tool = JavaTool(Path(__file__).parent / sources, jar_set=jar_set)
        jvm = (f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", QUIET, *_state())
        self._process = tool.start(main_class, jvm=jvm)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Put one request and return its answer."""
        self._put(request)
        return self._answer()

    def _put(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the program ended with status {self._process.wait(10)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.stdout.close()


class Oracle(Answering):
    """A running ``Oracle.java``: answers what Java makes of a topology (tests/oracle/FORMAT.md).

    Attributes:
        outcomes: how many random requests were asked, and how many could not be compared, and why.
    """

    def __init__(self, heap: str = "512m") -> None:
        super().__init__("oracle", "Oracle", heap=heap)
        self.outcomes: Counter[str] = Counter()
        self._asked = 0

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Put one request and return its answer, an ``error`` answer included."""
        self._asked += 1
        self._put({"id": self._asked, **request})
        while True:
            answer = self._answer()
            if answer["id"] == self._asked:  # or else it is for a test that was broken off
                return answer
