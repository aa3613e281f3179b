"""A plain program with ``KafkaStreams`` in it, under test: run as ``python -m``, told by JSON.

It prints each state it comes to, and at its end, instead of Python's traceback, the class and the
message of what was raised: a traceback in its output would be one that we have printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headwater import KafkaStreams
from tests.support.topologies import TOPIC_VARIABLE
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from headwater.errors import HeadwaterError
    from tests.support.worker import Counting

ROOT = Path(__file__).parents[2]


def main(topology: str, config: str) -> None:
    """What a person writes, and a state listener."""
    sys.excepthook = lambda kind, error, _: print(f"raised {kind.__name__}: {error}", flush=True)
    streams = KafkaStreams(topology, json.loads(config))
    streams.set_state_listener(lambda new, _: print(f"state {new}", flush=True))
    with streams:
        streams.wait()


class EmbeddedProgram:
    """The program, started anew after each end, over one state directory."""

    def __init__(
        self,
        counting: Counting,
        directory: Path,
        *,
        topology: str = "tests.support.topologies:counts",
        **config: Any,
    ) -> None:
        self.state_dir = directory / "state"
        self.topology = topology
        self.config: dict[str, Any] = {
            "application.id": counting.application_id,
            "bootstrap.servers": counting.bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "state.dir": str(self.state_dir),
            **config,
        }
        self._environment = {**os.environ, TOPIC_VARIABLE: counting.topic}
        self._output = directory / "program.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> Self:
        """Start it with the options that are not ``None``."""
        config = {name: value for name, value in self.config.items() if value is not None}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, self.topology, json.dumps(config)],
                cwd=ROOT,
                env={**self._environment, **environment},
                stdout=output,
                stderr=output,
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def runs(self) -> Self:
        """Wait until it processes records."""

        def is_running() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.said
            return self.said.splitlines().count("state RUNNING") > 0

        wait_for(is_running, what="RUNNING", timeout_s=240)
        return self

    def ends_with(
        self, error: type[HeadwaterError], *words: str, started: bool = True, timeout_s: float = 240
    ) -> None:
        """Wait for its end; check its exit code, its last state, and what a person reads."""
        assert self._process is not None
        code = self._process.wait(timeout_s)
        said = self.said
        last = said.rstrip().splitlines()[-1]
        assert last.startswith(f"raised {error.__name__}: "), said
        assert [word for word in words if word not in last] == [], said
        assert code == 1, said
        assert "Traceback" not in said
        states = [line for line in said.splitlines() if line.startswith("state ")]
        assert states[-2:] == (["state PENDING_ERROR", "state ERROR"] if started else []), said

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        # Shown only of a test that has failed.
        if self._output.exists():
            sys.stdout.write(self.said[-20_000:])


if __name__ == "__main__":
    main(*sys.argv[1:])
