"""Where the local cluster keeps its things: one directory, by default ``./.headwater``.

<root>/                         $HEADWATER_HOME, else ./.headwater
  supervisor.{lock,json,log}    who runs this cluster
  loop.log                      the control loop's log
  kafka/  kafka.log             the private Kafka
  apps/<app>/                   the *cluster directory* of the workers' carrier is <root>/apps
    app.json                    the StreamApp as applied; written by commands
    streamapp.json              the same with the broker's address, for the workers
    status.json                 what the control loop says of it
    events.jsonl                what it did and why
    workers/<worker>/
      spec.json                 StreamWorker.spec; written by the control loop
      status.json               StreamWorker.status; written by the worker
      lease.json                the worker's sign of life
      pod.json                  which process there should be; written by the control loop
      process.json              which process there is; written by the supervisor
      worker.log                what it printed
    driver/                     of Spark's driver: pod.json, process.json, worker.log
    state/<worker>/             stores: the worker's volume
    state/driver/               what Spark keeps; driver.json says where the driver listens,
                                ended.json why it has ended
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HOME_VARIABLE = "HEADWATER_HOME"
_DEFAULT_ROOT = ".headwater"


@dataclass(frozen=True, slots=True)
class WorkerDir:
    """The resources of one worker."""

    path: Path

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.path.name

    @property
    def spec(self) -> Path:
        """``StreamWorker.spec``."""
        return self.path / "spec.json"

    @property
    def status(self) -> Path:
        """``StreamWorker.status``."""
        return self.path / "status.json"

    @property
    def lease(self) -> Path:
        """The worker's Lease."""
        return self.path / "lease.json"

    @property
    def pod(self) -> Path:
        """Which process there should be."""
        return self.path / "pod.json"

    @property
    def process(self) -> Path:
        """Which process there is, or was."""
        return self.path / "process.json"

    @property
    def log(self) -> Path:
        """Standard output and error of the worker's processes."""
        return self.path / "worker.log"


@dataclass(frozen=True, slots=True)
class AppDir:
    """One application."""

    path: Path

    @property
    def name(self) -> str:
        """The StreamApp's name."""
        return self.path.name

    @property
    def app(self) -> Path:
        """The StreamApp as applied."""
        return self.path / "app.json"

    @property
    def streamapp(self) -> Path:
        """The StreamApp as the workers read it: with the address of the broker."""
        return self.path / "streamapp.json"

    @property
    def status(self) -> Path:
        """What the control loop says of it."""
        return self.path / "status.json"

    @property
    def events(self) -> Path:
        """What the control loop did, one JSON object a line."""
        return self.path / "events.jsonl"

    def worker(self, name: str) -> WorkerDir:
        """The resources of the worker ``name``."""
        return WorkerDir(self.path / "workers" / name)

    def workers(self) -> list[WorkerDir]:
        """All workers that have resources here, by name."""
        return [WorkerDir(path) for path in _directories(self.path / "workers")]

    @property
    def driver(self) -> WorkerDir:
        """Which driver there should be and is, and its log; it has no StreamWorker."""
        return WorkerDir(self.path / "driver")

    def programs(self) -> list[WorkerDir]:
        """All workers, and the driver if there ever was one."""
        return [*self.workers(), *([self.driver] if self.driver.pod.exists() else [])]

    @property
    def driver_state(self) -> Path:
        """The directory of the driver's stores and checkpoints."""
        return self.path / "state" / "driver"

    @property
    def driver_end(self) -> Path:
        """Why the driver has ended by itself; written by it."""
        return self.driver_state / "ended.json"

    @property
    def driver_address(self) -> Path:
        """Where the driver listens; written by it."""
        return self.driver_state / "driver.json"

    def state(self, worker: str) -> Path:
        """The directory of a worker's stores."""
        return self.path / "state" / worker


@dataclass(frozen=True, slots=True)
class ClusterDir:
    """Everything of one local cluster."""

    root: Path

    @property
    def lock(self) -> Path:
        """Locked by the supervisor while it lives."""
        return self.root / "supervisor.lock"

    @property
    def supervisor(self) -> Path:
        """What the supervisor says of itself."""
        return self.root / "supervisor.json"

    @property
    def supervisor_log(self) -> Path:
        """The supervisor's log."""
        return self.root / "supervisor.log"

    @property
    def loop_log(self) -> Path:
        """The control loop's log."""
        return self.root / "loop.log"

    @property
    def kafka_data(self) -> Path:
        """The private Kafka's directory."""
        return self.root / "kafka"

    @property
    def kafka_log(self) -> Path:
        """What the private Kafka's owner printed."""
        return self.root / "kafka.log"

    @property
    def apps_root(self) -> Path:
        """The cluster directory as the workers' carrier understands it."""
        return self.root / "apps"

    def app(self, name: str) -> AppDir:
        """The application ``name``."""
        return AppDir(self.apps_root / name)

    def apps(self) -> list[AppDir]:
        """All applications that were applied here, by name."""
        return [app for path in _directories(self.apps_root) if (app := AppDir(path)).app.exists()]


def default_root() -> Path:
    """``$HEADWATER_HOME``, else ``.headwater`` in the working directory; absolute."""
    return Path(os.environ.get(HOME_VARIABLE) or _DEFAULT_ROOT).absolute()


def _directories(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
