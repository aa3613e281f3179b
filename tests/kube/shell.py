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
        done = self._done(
            program, "headwater", *words.split(), "--namespace", self._user.namespace, code=code
        )
        return done.stdout if code == 0 else done.stdout + done.stderr

    def completed(self, words: str) -> list[str]:
        """Return what ``kubectl`` offers for the last word, when Tab is pressed behind it."""
        program = str(self._user.kubectl.program)
        done = self._done(program, "__complete", "headwater", *words.split(" "))
        *found, directive = done.stdout.splitlines()
        assert directive == ":4", done.stdout + done.stderr
        return found

    def run_as(self, version: str, words: str) -> str:
        """Run a command as a plug-in of another version would; return what it complains about."""
        be = (
            f"import headwater.version as v; v.VERSION = {version!r}; "
            "from headwater_operator.commands.plugin import main; import sys; sys.exit(main())"
        )
        namespace = self._user.namespace
        return self._done(sys.executable, "-c", be, *words.split(), "--namespace", namespace).stderr

    def _done(self, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as the user."""
        done = subprocess.run(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done

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
