"""Runs tasks on Spark: one Spark task for each, on a local master or a real cluster."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import socket
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater import errors
from headwater.errors import (
    EnvironmentProblemError,
    HeadwaterError,
    RecordError,
    TopicError,
    UserError,
)
from headwater.files import replace_file
from headwater.local.paths import cache_dir
from headwater.model.secretnames import is_secret
from headwater.native.garbage import tune_garbage_collection
from headwater.spark import masters
from headwater.spark.causes import last_words
from headwater.spark.frames.computing import SHUFFLES, UnitDone, compute
from headwater.spark.java import java_home
from headwater.spark.tracking import tracked
from headwater.spark.troubles import end, hush, is_gone, troubles
from headwater.spark.turns.messages import TakenOverError
from headwater.spark.work import TaskDone, TaskWork, run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from headwater.spark.progress import Shown

from headwater.spark.frames.computing import UnitWork

_FINAL: Final = (RecordError, UserError, TopicError, errors.BackfillError, TakenOverError)
"""Errors that another attempt would meet as well."""
_ATTEMPTS: Final = 4
_CONNECT_S: Final = 5.0
_TEMPLATE_FILE: Final = "spark-executor.json"
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.app.name": "headwater-backfill",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A second copy of a task would only fence the first.
    "spark.speculation": "false",
    "spark.task.maxFailures": str(_ATTEMPTS),
    "spark.sql.adaptive.enabled": "false",
}


class SparkCluster:
    """A Spark session, made when the first task is to run.

    Args:
        master: as Spark writes it: ``local[*]``, ``local-cluster[2,1,1024]``, ``spark://...``,
            ``k8s://...``.
        settings: of Spark, which win over ours.
        is_apart: Ctrl-C in the terminal does not reach Spark's processes; see :func:`start`.
    """

    def __init__(self, master: str, settings: Mapping[str, str], *, is_apart: bool = False) -> None:
        self._master = master
        self._is_apart = is_apart
        self._settings = settings
        self._session: SparkSession | None = None

    def check(self) -> None:
        """Look at master and settings, without starting anything.

        Raises:
            ConfigError: it is no master, or a setting is missing that this one needs.
            EnvironmentProblemError: nobody listens where the master should.
        """
        check_master(self._master)
        masters.defaults(self._master, self._settings, "")

    def prepare(self) -> None:
        """Start Spark; on other machines, see that a Python worker there has Headwater.

        Raises:
            ConfigError: a setting is missing that this master needs.
            EnvironmentProblemError: Spark cannot be started, or its executors cannot run tasks.
        """
        session = self.session()
        if masters.is_here(self._master):
            return
        try:
            session.range(1).mapInArrow(_pass, "id long").collect()
        except troubles() as error:
            wanted = f"Python {sys.version_info.major}.{sys.version_info.minor}"
            raise EnvironmentProblemError(
                f"the executors of {self._master} cannot run tasks: {last_words(error)}; they need "
                f"{wanted} with headwater[spark] at {os.environ['PYSPARK_PYTHON']}, or where "
                f"spark.pyspark.python says ({masters.PAGE})"
            ) from error

    def session(self) -> SparkSession:
        """Return the session, started if need be.

        Raises:
            EnvironmentProblemError: Spark cannot be started.
        """
        if self._session is None:
            self._session = start(self._master, self._settings, is_apart=self._is_apart)
            hush(self._session)
        return self._session

    def run(self, works: Sequence[TaskWork]) -> list[TaskDone]:
        """Run every task in a Spark task of its own.

        Raises:
            HeadwaterError: why a task cannot reach the cut.
            EnvironmentProblemError: Spark cannot be started, has ended, or a task has failed too
                often.
        """
        session = self.session()
        runner: Any = partial(_run_rows, tuple(works))
        with _explained():
            frame = session.range(0, len(works), 1, len(works))
            rows = frame.mapInArrow(runner, "result binary").collect()
        results = [pickle.loads(bytes(row[0])) for row in rows]  # noqa: S301 - from our own tasks
        for result in results:
            if isinstance(result, HeadwaterError):
                raise result
        return results

    def compute(self, work: UnitWork, tell: Callable[[Shown], None]) -> UnitDone:
        """Compute sub-topologies as DataFrames and load their state.

        Args:
            work: the sub-topologies.
            tell: told now and then how far Spark is, from another thread.

        Raises:
            FencedError: another driver has taken over.
            EnvironmentProblemError: Spark cannot be started, has ended, or a task has failed too
                often.
        """
        session = self.session()
        with _explained():
            # Spark's own default suits a large cluster.
            chosen = None if SHUFFLES in self._settings else session.sparkContext.defaultParallelism
            with tracked(session.sparkContext, tell):
                return compute(session, work, shuffle_partitions=chosen)

    def close(self) -> None:
        """Stop Spark, and whatever it still runs."""
        if self._session is not None:
            end(self._session)
            self._session = None


@contextmanager
def _explained() -> Iterator[None]:
    """Say in our words why Spark has given up, or that it is gone.

    Raises:
        EnvironmentProblemError: in place of what pyspark has raised.
    """
    try:
        yield
    except troubles() as error:
        if is_gone(error):
            raise EnvironmentProblemError(
                f"Spark has ended, or does not answer ({last_words(error)}): look at what it has "
                "printed above and whether this machine has had enough memory, then run the "
                "backfill again to go on from what is committed"
            ) from error
        raise EnvironmentProblemError(
            f"Spark has given up a task after {_ATTEMPTS} attempts; run the backfill again to "
            f"go on from what is committed. The last attempt said: {last_words(error)}"
        ) from error


def check_master(master: str) -> None:
    """See that there is such a master, as far as that is quickly seen.

    Raises:
        ConfigError: it is none.
        EnvironmentProblemError: nobody listens at any address of a ``spark://`` master.
    """
    masters.check(master)
    refusals = []
    for address in masters.addresses(master):
        try:
            with socket.create_connection(address, timeout=_CONNECT_S):
                return
        except OSError as error:
            refusals.append(f"{address[0]}:{address[1]}: {error.strerror or error}")
    if refusals:
        raise EnvironmentProblemError(
            f"no master of Spark answers at {master} ({'; '.join(refusals)}); start it, or correct "
            "spec.spark.master or --master"
        )


def start(master: str, settings: Mapping[str, str], *, is_apart: bool = False) -> SparkSession:
    """Start a session whose Python workers are this interpreter.

    Args:
        master: of Spark.
        settings: of Spark, which win over ours.
        is_apart: Spark's processes are a session of their own. Its Python workers would else hear
            Ctrl-C with us, and print a traceback each. They end when our end of a pipe does.

    Raises:
        ConfigError: a setting is missing that this master needs.
        EnvironmentProblemError: pyspark or Java is missing, or the master cannot be reached.
    """
    template = cache_dir() / _TEMPLATE_FILE
    ours = {"spark.master": with_retries(master), **_SETTINGS}
    chosen = {**ours, **masters.defaults(master, settings, str(template)), **settings}
    try:
        from pyspark import SparkContext  # noqa: PLC0415 - heavy
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise EnvironmentProblemError(
            f"Spark needs {error.name}: pip install 'headwater[spark]'"
        ) from error
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = masters.python_of(master, settings, os.environ, sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if chosen.get(masters.TEMPLATE) == str(template):
        _written(template, json.dumps(masters.executor_template()))
    if name := masters.quiet(master, settings, os.environ):
        file = _written(cache_dir() / name, masters.LOG_SETTINGS)
        chosen[masters.DRIVER_JAVA] = f"-Dlog4j2.configurationFile=file:{file}"
    builder = SparkSession.Builder()
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        gateway = None
        if is_apart and SparkContext._gateway is None:  # noqa: SLF001
            launch: Any = importlib.import_module("pyspark.java_gateway").launch_gateway
            gateway = launch(_public(chosen), {"start_new_session": True})
        SparkContext._ensure_initialized(gateway=gateway, conf=_public(chosen))  # noqa: SLF001
        return builder.getOrCreate()
    except Exception as error:
        raise EnvironmentProblemError(
            f"Spark does not start with master {master}: {last_words(error)}; see what it has "
            "printed above"
        ) from error


def _public(chosen: Mapping[str, str]) -> SparkConf:
    """Return what the JVM is started with: its command line is seen by all users of the machine.

    The rest is told to the JVM once it runs, through its socket.
    """
    from pyspark import SparkConf  # noqa: PLC0415 - heavy

    conf = SparkConf(loadDefaults=False)
    return conf.setAll([(name, value) for name, value in chosen.items() if not is_secret(name)])


def _written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, text)
    return file


def with_retries(master: str) -> str:
    """Return a master that runs a failed task again: ``local[n]`` alone never does."""
    if master == "local":
        return f"local[1,{_ATTEMPTS}]"
    inside = master.removeprefix("local[").removesuffix("]")
    if master.startswith("local[") and "," not in inside:
        return f"local[{inside},{_ATTEMPTS}]"
    return master


def _pass(batches: Iterable[Any]) -> Iterator[Any]:
    """Do nothing, in a Python worker that has found this module."""
    yield from batches


def _run_rows(works: Sequence[TaskWork], batches: Iterable[Any]) -> Iterator[Any]:
    """Run the tasks whose numbers Spark hands to this Python worker."""
    pa: Any = importlib.import_module("pyarrow")  # heavy, and untyped

    tune_garbage_collection()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            result = pickle.dumps(outcome(works[number]))
            yield pa.RecordBatch.from_pydict({"result": pa.array([result], pa.binary())})


def outcome(work: TaskWork) -> TaskDone | HeadwaterError:
    """Run a task; return the error with which no other attempt of this driver would do better.

    A task that another copy of it has fenced is no such thing: if the copy fails, it is run again.

    Raises:
        HeadwaterError: for Spark to run the task again.
    """
    try:
        return run_task(work)
    except _FINAL as error:
        return type(error)(str(error))  # without what it holds on to, it can be pickled
