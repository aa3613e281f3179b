"""Somebody who runs ``kubectl headwater`` in a shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.journey import Journey

BIN = Path(sys.executable).parent


class Shell:
    """Somebody who runs ``kubectl headwater``.

    Args:
        user: the cluster, and where he is.
        kubeconfig: says who he is.
    """

    def __init__(self, user: Journey, kubeconfig: Path) -> None:
        self._user = user
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
        }

    def run(self, words: str, code: int = 0) -> str:
        """Run a command; return what it has printed, or complained about."""
        program = str(self._user.kubectl.program)
        done = subprocess.run(
            [program, "headwater", *words.split(), "--namespace", self._user.namespace],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stdout + done.stderr

    def completed(self, words: str) -> list[str]:
        """Return what ``kubectl`` offers for the last word, when Tab is pressed behind it."""
        program = str(self._user.kubectl.program)
        done = subprocess.run(
            [program, "__complete", "headwater", *words.split(" ")],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        *found, directive = done.stdout.splitlines()
        assert directive == ":4", done.stdout + done.stderr
        return found

    def run_as(self, version: str, words: str) -> str:
        """Run a command as a plug-in of another version would; return what it complains about."""
        be = (
            f"import headwater.version as v; v.VERSION = {version!r}; "
            "from headwater_operator.commands.plugin import main; import sys; sys.exit(main())"
        )
        done = subprocess.run(
            [sys.executable, "-c", be, *words.split(), "--namespace", self._user.namespace],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stderr

    @contextmanager
    def page(self) -> Iterator[str]:
        """Have ``kubectl headwater web`` run; yields its URL."""
        command = [str(self._user.kubectl.program), "headwater", "web", "--web", "127.0.0.1:0"]
        command += ["--namespace", self._user.namespace]
        with subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                url, _, said = process.stdout.readline().partition(" ")
                assert said == f"shows namespace {self._user.namespace}; Ctrl-C ends it\n"
                yield url
            finally:
                process.send_signal(signal.SIGINT)
        assert process.returncode == 0

    def document(self, words: str) -> Any:
        return json.loads(self.run(f"{words} -o json"))
