"""An application under ``headwater up``, under load, handed over between workers and Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from headwater.model.lifecycle import Engine
from headwater_operator.local import control, manifest
from headwater_operator.local.driver import PROGRAM_VARIABLE
from headwater_operator.local.files import tail
from headwater_operator.local.observe import read_process
from headwater_operator.local.pods import Phase
from tests.chaos.proof import counted_once_each
from tests.support.local_cluster import (
    APP,
    Load,
    LocalCluster,
    create_topics,
    read_counts,
    streamapp,
)
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from types import TracebackType

    from headwater_operator.local.pods import PodProcess

PARTITIONS = 2
WITHOUT_SPARK = {PROGRAM_VARIABLE: "tests.support.driver"}
"""Environment of a cluster whose driver does without Spark."""
LEASE_MS = 6_000


class Switching:
    """One application, two workers or one driver, and a load that goes on all the time."""

    def __init__(self, root: Path, bootstrap_servers: str, prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = prefix
        self.cluster = LocalCluster(root, prefix)
        self._file = root / "streamapp.yaml"
        self._load = Load(bootstrap_servers, prefix, records_per_s=500)

    def document(self, engine: Engine, **spec: object) -> dict[str, object]:
        config = {
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 200,
            "session.timeout.ms": LEASE_MS,
        }
        spark = {
            "master": "local[1]",
            "triggerInterval": "200ms",
            "config": {"spark.driver.memory": "512m"},
        }
        given = {"replicas": 2, "config": config, "spark": spark, **spec}
        return streamapp(self.bootstrap_servers, self.prefix, engine=engine.value, **given)

    def up(self, engine: Engine, **environment: str) -> None:
        create_topics(self.bootstrap_servers, self.prefix, partitions=PARTITIONS)
        self.cluster.up(self.document(engine), **environment)
        self._load.start()

    def edit(self, engine: Engine) -> None:
        """Apply the StreamApp with another engine, as a second ``headwater up`` does."""
        self._file.write_text(yaml.safe_dump(self.document(engine)))
        [app] = manifest.load(self._file)
        control.apply(self.cluster.cluster, app, import_path=(Path.cwd(),))

    # -- waiting ---------------------------------------------------------------------------------

    def _wait(self, condition: object, what: str, timeout_s: float = 400) -> None:
        assert callable(condition)
        try:
            wait_for(condition, what=what, timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from error

    def story(self) -> str:
        """What has happened, for a failing test to show."""
        driver = tail(self.cluster.cluster.app(APP).driver.log, 60)
        return (
            f"{self.cluster.status}\n{self.cluster.output}\n== driver\n{driver}\n"
            f"{self.cluster.worker_logs()}\n== loop\n{tail(self.cluster.cluster.loop_log, 60)}"
        )

    def wait_spark(self) -> None:
        """Wait until Spark runs everything, and nothing of the workers is left."""

        def runs() -> bool:
            status = self.cluster.status
            return status.engine.name is Engine.SPARK and status.state == "RUNNING"

        self._wait(runs, "Spark to run")

    def wait_native(self) -> None:
        """Wait until the workers run everything, and no driver is left."""

        def runs() -> bool:
            status = self.cluster.status
            is_native = status.engine.name is Engine.NATIVE
            return is_native and status.state == "RUNNING" and status.replicas == 2

        self._wait(runs, "the workers to run")

    def wait_some_counted(self) -> None:
        """Wait until more is counted than now."""
        before = sum(read_counts(self.bootstrap_servers, self.prefix).values())
        self._wait(
            lambda: sum(read_counts(self.bootstrap_servers, self.prefix).values()) > before + 500,
            "records to be counted",
        )

    def wait_new_loop(self, generation: int) -> None:
        """Wait until a control loop after that generation has decided."""
        self._wait(
            lambda: self.cluster.decided_by > generation,
            "another control loop",
        )

    def wait_taken(self, *, after: int) -> None:
        """Wait until the application was taken over once more."""
        self._wait(lambda: self.cluster.status.engine.generation > after, "a take-over")

    def kill_loop_by(self, trap: Path) -> None:
        """Open a trap with a fail point that kills; wait for the next control loop."""
        generation = self.cluster.supervisor.generation
        trap.unlink()
        self._wait(trap.exists, "the control loop to be killed")
        self.wait_new_loop(generation)

    @property
    def driver(self) -> PodProcess:
        """The driver's process, or its last one."""
        process = read_process(self.cluster.cluster.app(APP).driver)[1]
        assert process is not None
        return process

    def wait_another_driver(self, before: PodProcess) -> None:
        """Wait until a driver runs that is another one."""
        self._wait(
            lambda: self.driver.attempt > before.attempt and self.driver.phase is Phase.RUNNING,
            "another driver",
        )

    def finish(self) -> None:
        """Stop the load; wait until all is counted; every record was counted exactly once."""
        self._load.stop()

        def all_counted() -> bool:
            counts = read_counts(self.bootstrap_servers, self.prefix)
            return all(counts.get(key, 0) >= number for key, number in self._load.sent.items())

        self._wait(all_counted, "all records to be counted")
        self.cluster.interrupt()
        assert self.cluster.wait(240) == 0, self.story()
        counted_once_each(self.bootstrap_servers, f"{self.prefix}-out", self._load.sent)

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._load.end()
        self.cluster.__exit__(kind, error, traceback)
