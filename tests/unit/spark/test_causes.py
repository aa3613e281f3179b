"""Why something has failed, in one line, and without what nobody is to see."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from headwater.errors import ConfigError, EnvironmentProblemError, StateError
from headwater.ids import TaskId
from headwater.model.engine import EngineRecord
from headwater.native.application import ApplicationSettings
from headwater.spark.causes import cause_of, last_words, without_secrets
from headwater.spark.turns import hosting, hosts
from headwater.spark.turns.driver import Continuous, ContinuousSettings
from headwater.spark.turns.hosting import Host
from headwater.spark.turns.messages import (
    Again,
    HostSettings,
    LateTurnError,
    Turn,
    TurnDone,
    TurnNumber,
)
from headwater.spark.turns.query import TurnsFailedError
from headwater.spark.turns.status import DriverStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater import StreamsBuilder

TURN = Turn(number=TurnNumber(0, 0, 1, 1), task=TaskId(1, 3), slot=0, ends={})
TOLD = HostSettings(
    application=ApplicationSettings(config={"application.id": "app"}, topology="a:b"),
    record=EngineRecord(),
    state_dir="nowhere",
)

# As Spark words it: the Python worker's stack in the executor's, both in the driver's.
OF_SPARK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception
Traceback (most recent call last):
  File "/x/pyspark/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/x/headwater/spark/query.py", line 131, in _take
    results = [pickle.loads(bytes(row[0])) for row in frame.collect()]
pyspark.errors.exceptions.captured.PythonException: [STDERR] An exception was thrown from the
Python worker. Please see the stack trace below.
'Traceback (most recent call last):
  File "/x/headwater/spark/hosts.py", line 60, in _ask
    return answer
EOFError

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1, in main
    process()
{line}
'
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(P.scala:5)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 3.0
\tat java.base/java.lang.Thread.run(Thread.java:840) SQLSTATE: XXKST"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "headwater.errors.EnvironmentProblemError: task 0_1: its host ended in turn 1.1.1.7",
            "task 0_1: its host ended in turn 1.1.1.7",
        ),
        ("headwater.errors.TopicError: task 0_1: KeyError: 'x'", "task 0_1: KeyError: 'x'"),
        (
            "ModuleNotFoundError: No module named 'words'",
            "ModuleNotFoundError: No module named 'words'",
        ),
    ],
)
def test_the_python_workers_own_words_are_found_in_sparks(line: str, said: str) -> None:
    assert last_words(Exception(OF_SPARK.replace("{line}", line))) == said


def test_the_cause_is_found_in_the_stack_traces() -> None:
    text = (
        "boom\n\tat org.X.y(X.scala:1)\nCaused by: java.net.SocketTimeoutException: too late\n\tat"
    )
    assert last_words(Exception(text)).endswith("SocketTimeoutException: too late")
    ours = f"headwater.errors.EnvironmentProblemError: task 0_0: its host ended\n{text}"
    assert "its host ended" in last_words(Exception(ours))


class FailingHost(Host):
    """Meets what nobody has thought of."""

    def take(self, turn: Turn) -> TurnDone:
        raise KeyError("no such\nthing")


class Nowhere(str):
    """A directory that has no name."""

    __slots__ = ()

    def __str__(self) -> str:
        raise KeyError("no such\nname")


def test_what_a_host_or_a_python_worker_meets_names_the_task() -> None:
    answer = hosting._answer(FailingHost(TOLD), TURN)
    assert answer == Again("task 1_3: KeyError: 'no such\\nthing'")

    told = dataclasses.replace(TOLD, state_dir=Nowhere("x"))
    with pytest.raises(EnvironmentProblemError, match=r"^task 1_3: KeyError: 'no such\\nname"):
        hosts._done(told, TURN)


def test_a_late_turn_is_answered_with_a_sentence() -> None:
    late = dataclasses.replace(TURN, number=TurnNumber(0, 7, 1, 1))
    answer = hosting._answer(Host(TOLD), late)
    assert isinstance(answer, Again)
    assert "task 1_3: turn 0.7.1.1 is of another driver" in answer.message
    assert issubclass(LateTurnError, EnvironmentProblemError)


def test_an_exception_says_its_name_unless_it_is_ours() -> None:
    assert cause_of(StateError("store x is locked")) == "store x is locked"
    assert cause_of(ValueError("no number\nat all")) == "ValueError: no number"
    assert cause_of(AssertionError()) == "AssertionError"


def test_passwords_are_struck_out() -> None:
    config = {"sasl.password": "hunter2", "ssl_key_password": "hunter", "client.id": "me"}
    spark = {"spark.hadoop.fs.s3a.secret.key": "s3cr3t", "spark.x.password": ""}

    said = without_secrets("me: hunter2, hunter and s3cr3t", config, spark)

    assert said == "me: ***, *** and ***"


def build(builder: StreamsBuilder) -> None:
    """Read, and do nothing."""
    builder.stream("in")


class Refused(Continuous):
    """A driver that fails with a password in its mouth."""

    def _take_over_and_run(
        self, on_begin: Callable[[], None], on_session: Callable[[], None]
    ) -> None:
        raise ConfigError('no such value "hunter2"')


def test_what_ends_the_driver_holds_no_password(tmp_path: Path) -> None:
    config = {
        "application.id": "app",
        "bootstrap.servers": "127.0.0.1:1",
        "sasl.password": "hunter2",
    }
    settings = ContinuousSettings(
        application=ApplicationSettings(config=config, topology=f"{__name__}:build"),
        state_dir=tmp_path / "state",
    )
    with pytest.raises(ConfigError, match=r'no such value "\*\*\*"') as raised:
        Refused(settings, DriverStatus("app")).run()
    assert "hunter2" not in repr(settings)
    assert raised.value.__suppress_context__


class Told(DriverStatus):
    """What is served, as it was told."""

    def __init__(self) -> None:
        super().__init__("app")
        self.errors: list[str] = []

    def stumbled(self, error: str) -> None:
        super().stumbled(error)
        self.errors.append(error)


def test_what_makes_the_query_begin_anew_is_told_without_passwords(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "application.id": "app",
        "bootstrap.servers": "127.0.0.1:1",
        "sasl.password": "hunter2",
    }
    settings = ContinuousSettings(
        application=ApplicationSettings(config=config, topology=f"{__name__}:build"),
        spark={"spark.hadoop.fs.s3a.secret.key": "s3cr3t"},
        state_dir=tmp_path / "state",
    )
    status = Told()

    Continuous(settings, status)._stumble(TurnsFailedError("login failed with hunter2 and s3cr3t"))

    assert status.errors == ["login failed with *** and ***"]
    assert "beginning the query anew: login failed with ***" in caplog.text
    assert "hunter2" not in caplog.text
