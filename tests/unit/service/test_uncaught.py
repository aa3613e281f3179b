"""Who decides about an error that has ended a StreamThread, and what follows of each answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from tests.support.worker_table import T0, Worker

from headwater import StreamThreadExceptionResponse
from headwater.config import StreamsConfig
from headwater.errors import ConfigError, HeadwaterError, ProcessingError
from headwater.native.messages import Failed, Initialized
from headwater.service.decide.actions import StartThread
from headwater.service.decide.failing import is_for_handler
from headwater.service.decide.observations import StopAsked, ThreadSaid, UpdaterSaid
from headwater.service.decide.report import status_of
from headwater.service.uncaught import UncaughtHandler

if TYPE_CHECKING:
    from headwater.service.decide.observations import Observation

REPLACE = StreamThreadExceptionResponse.REPLACE_THREAD
CLIENT = StreamThreadExceptionResponse.SHUTDOWN_CLIENT
APPLICATION = StreamThreadExceptionResponse.SHUTDOWN_APPLICATION

RAISED = Failed(
    error="ProcessingError", message="node X", cause=cloudpickle.dumps(ValueError("bad"))
)


class Refusing:
    """As a configuration names one."""

    def handle(self, exception: Exception) -> StreamThreadExceptionResponse:
        return REPLACE if isinstance(exception.__cause__, ValueError) else CLIENT


def said(failure: Failed = RAISED) -> ThreadSaid:
    return ThreadSaid(slot=0, message=failure)


def running() -> Worker:
    worker = Worker(threads=1)
    worker.run(T0)
    return worker


def answered(handler: object, observation: Observation | None = None) -> Any:
    asked = UncaughtHandler(handler).asked(running().table, observation or said(), 1_000_000)
    assert isinstance(asked, ThreadSaid)
    return asked.response


def test_a_handler_is_a_function_an_object_or_a_class() -> None:
    assert answered(lambda _: APPLICATION) is APPLICATION
    assert answered(Refusing()) is REPLACE
    assert answered(Refusing) is REPLACE
    assert answered(Refusing, said(Failed(error="ProcessingError", message="x"))) is CLIENT
    with pytest.raises(ConfigError, match="takes \\(exception\\)"):
        UncaughtHandler("replace")


def test_what_it_hears_is_the_error_with_its_cause() -> None:
    heard: list[Exception] = []

    def handler(exception: Exception) -> StreamThreadExceptionResponse:
        heard.append(exception)
        return CLIENT

    answered(handler)
    answered(handler, said(Failed(error="KeyError", message="'x'", cause=b"no pickle")))

    assert isinstance(heard[0], ProcessingError)
    assert isinstance(heard[0].__cause__, ValueError)
    assert type(heard[1]) is HeadwaterError
    assert str(heard[1]) == "KeyError: 'x'"
    assert heard[1].__cause__ is None


def test_one_that_raises_or_says_nothing_shuts_the_client_down() -> None:
    assert answered(lambda _: None) is CLIENT
    assert answered(lambda _: 1 / 0) is CLIENT


@pytest.mark.parametrize(
    ("named", "response"),
    [
        ("shutdown-client", None),  # nobody is asked: the worker ends as ever
        ("replace-thread", REPLACE),
        ("shutdown-application", APPLICATION),
        ("tests.unit.service.test_uncaught:Refusing", REPLACE),
    ],
)
def test_the_configuration_names_one(
    named: str, response: StreamThreadExceptionResponse | None
) -> None:
    config = StreamsConfig.parse({"application.id": "a", "uncaught.exception.handler": named})

    asked = UncaughtHandler.of(config).asked(running().table, said(), 1_000_000)

    assert isinstance(asked, ThreadSaid)
    assert asked.response is response


def test_a_name_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="did you mean 'replace-thread'"):
        StreamsConfig.parse({"application.id": "a", "uncaught.exception.handler": "replace-thred"})


def test_a_thread_is_replaced_at_once_then_later_and_later() -> None:
    worker = running()
    for pause_ms in (0, 1_000, 2_000, 4_000):
        done = worker.sees(ThreadSaid(slot=0, message=RAISED, response=REPLACE))
        if pause_ms:
            assert StartThread(slot=0) not in [*done, *worker.passes(pause_ms - 1)]
            done = worker.passes(1)
        assert StartThread(slot=0) in done
        worker.said(0, Initialized())
    assert status_of(worker.table).error is None


@pytest.mark.parametrize("response", [None, CLIENT, APPLICATION])
def test_a_worker_that_is_to_end_says_who_else_is(
    response: StreamThreadExceptionResponse | None,
) -> None:
    worker = running()

    worker.sees(ThreadSaid(slot=0, message=RAISED, response=response))

    error = status_of(worker.table).error
    assert error is not None
    assert (error.error, error.message) == ("ProcessingError", "node X")
    assert error.shuts_down_application == (response is APPLICATION)
    assert worker.table.exit_code == 4


def test_it_decides_about_what_would_end_the_worker_and_all_that_nobody_expected() -> None:
    table = running().table

    def is_asked(failure: Failed) -> bool:
        return is_for_handler(table, said(failure), 1_000_000)

    assert is_asked(RAISED)
    assert is_asked(Failed(error="ZeroDivisionError", message="x"))
    assert not is_asked(Failed(error="KafkaUnavailableError", message="x"))
    assert not is_asked(Failed(error="FencedError", message="x", fenced=True))
    assert not is_asked(Failed(error="StoreLockedError", message="x"))
    table.slots[0].failures = 4
    assert is_asked(Failed(error="StoreLockedError", message="x"))


def test_of_a_copy_that_cannot_follow_and_of_a_worker_that_ends_it_does_not_hear() -> None:
    worker = running()
    failed = Failed(error="ProcessingError", message="x", following=True)
    assert not is_for_handler(worker.table, UpdaterSaid(updater=0, message=failed), 1_000_000)
    restore = Failed(error="ChangelogLostError", message="x", task=T0)
    assert is_for_handler(worker.table, UpdaterSaid(updater=0, message=restore), 1_000_000)

    worker.sees(StopAsked())
    assert not is_for_handler(worker.table, said(), 1_000_000)
