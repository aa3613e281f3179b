"""A Spark cluster of this machine that is there before its drivers: one master, one worker."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Self

import pyspark

from headwater.spark.java import java_home
from tests.support.backfills import ROOT
from tests.support.waiting import wait_for

_START_S = 240
_DEPLOY = "org.apache.spark.deploy"


class Standalone:
    """A cluster with two cores, reached at ``spark://...``; end it by leaving the block.

    Args:
        directory: for logs, and what executors write.
        environment: variables of its executors.
    """

    def __init__(self, directory: Path, **environment: str) -> None:
        self._directory = directory
        self._environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "--port", "0")
            said = re.compile(r"Starting Spark master at (spark://\S+)")
            self.master = self._wait_said("master.Master", said)
            where = ("--work-dir", str(self._directory / "work"))
            self._start("worker.Worker", "--cores", "2", "--memory", "2g", *where, self.master)
            self._wait_said("worker.Worker", re.compile("(Successfully registered)"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()  # the worker ends its executors then
            process.wait(_START_S)

    def _start(self, role: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        java = java_home() / "bin" / "java"
        modules = "--add-opens=java.base/java.nio=ALL-UNNAMED"
        at = ("--host", "127.0.0.1", "--webui-port", "0")
        with self._log(role).open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [
                        *(java, "-Xmx256m", modules, "-cp", f"{home}/jars/*"),
                        *(f"{_DEPLOY}.{role}", *at, *arguments),
                    ],
                    cwd=ROOT,
                    env={
                        **os.environ,
                        "SPARK_HOME": str(home),
                        "SPARK_SCALA_VERSION": "2.13",
                        **self._environment,
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait_said(self, role: str, words: re.Pattern[str]) -> str:
        def said() -> str:
            found = words.search(self._log(role).read_text(errors="replace"))
            return found[1] if found else ""

        return wait_for(said, what=words.pattern, timeout_s=_START_S)

    def _log(self, role: str) -> Path:
        return self._directory / f"{role}.log"
