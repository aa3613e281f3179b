"""What StreamThread processes log: as the application has set it up, else as its settings say."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from headwater.attribution import TASK
from headwater.config import StreamsConfig
from headwater.dsl.loading import SourceText
from headwater.errors import ConfigError, SpecError
from headwater.ids import TaskId
from headwater.jsonlog import JsonFormatter
from headwater.logsettings import DEFAULT_FORMAT, LogSettings
from headwater.model.changes import rolled_part
from headwater.model.streamapp import parse
from headwater.native import logs
from headwater.native.application import ApplicationSettings
from headwater.native.messages import ChildSettings
from headwater.native.process import ChildProcess
from headwater.service.settings import config_of

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILD = """
def build(builder):
    builder.stream("in").to("out")
"""
BASIC = """
import logging
logging.basicConfig(level=logging.INFO, format="MINE %(levelname)s %(name)s %(message)s")
"""
DICTIONARY = """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "formatters": {"mine": {"format": "MINE %(levelname)s %(name)s %(message)s"}},
    "handlers": {"mine": {"class": "logging.StreamHandler", "formatter": "mine"}},
    "root": {"level": "INFO", "handlers": ["mine"]},
})
"""
OURS = "headwater.native.thread"
SHORT = "SET %(levelname)s %(processName)s %(name)s %(message)s"


def lines_of(
    capfd: pytest.CaptureFixture[str],
    module: str = "",
    config: Mapping[str, object] | None = None,
    otherwise: LogSettings | None = None,
) -> list[str]:
    """Return what a child logs whose topology is of a module with this text."""
    parsed = StreamsConfig.parse({"application.id": "a", **(config or {})})
    settings = ChildSettings(
        application_id="a",
        worker="w-0",
        slot=0,
        application=ApplicationSettings(
            config={}, topology=SourceText(text=module + BUILD, function="build")
        ),
        state_dir="",
        cache_bytes=0,
        logs=logs.chosen(parsed, otherwise or LogSettings()),
    )
    child = ChildProcess("tests.support.children:logging_child", settings, name="w-0-thread")
    try:
        assert child.receive(60) == ["done"]
        assert child.wait(60) == 0
    finally:
        child.close()
    return capfd.readouterr().err.splitlines()


@pytest.mark.parametrize("module", [BASIC, DICTIONARY], ids=["basicConfig", "dictConfig"])
def test_what_the_module_sets_up_itself_stays(
    capfd: pytest.CaptureFixture[str], module: str
) -> None:
    assert lines_of(capfd, module, {"logging.format": SHORT}) == [
        f"MINE {level} {name} said by {name}"
        for name in ("mylib", OURS)
        for level in ("INFO", "WARNING")
    ]


def test_a_level_that_is_set_holds_for_a_module_with_a_set_up_of_its_own(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert lines_of(capfd, BASIC, {"logging.level": "mylib=DEBUG,headwater=ERROR"}) == [
        f"MINE {level} mylib said by mylib" for level in ("DEBUG", "INFO", "WARNING")
    ]


def test_without_a_set_up_level_and_format_are_settings(capfd: pytest.CaptureFixture[str]) -> None:
    config = {"logging.level": "error,mylib=INFO", "logging.format": SHORT}

    assert lines_of(capfd, "", config) == [
        f"SET {level} w-0-thread mylib said by mylib" for level in ("INFO", "WARNING")
    ]


def test_without_anything_warnings_are_logged_with_the_process_that_says_so(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = lines_of(capfd)

    assert [line.split(maxsplit=2)[2] for line in found] == [
        f"WARNING w-0-thread said by {name}" for name in ("mylib", OURS)
    ]


def test_a_programs_own_levels_and_format_are_those_of_its_processes() -> None:
    program = """
        import json, logging
        from headwater.native import logs
        logging.basicConfig(level="INFO", format="{levelname} {message}", style="{", datefmt="%H")
        logging.getLogger("mylib").setLevel("DEBUG")
        found = logs.of_this_program()
        print(json.dumps([dict(found.levels), found.format, found.date_format, found.style]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    levels, *rest = json.loads(done.stdout)
    assert (levels[""], levels["mylib"]) == (logging.INFO, logging.DEBUG)
    assert rest == ["{levelname} {message}", "%H", "{"]


def test_levels_and_fields_that_only_the_program_knows_do_no_harm_elsewhere(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = """
        import json, logging
        from headwater.native import logs
        logging.addLevelName(25, "NOTICE")
        logging.basicConfig(level="NOTICE", format="%(request_id)s %(message)s")
        logging.getLogger("mylib").setLevel(15)
        found = logs.of_this_program()
        print(json.dumps([dict(found.levels), found.format]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    levels, line = json.loads(done.stdout)
    assert (levels[""], levels["mylib"], line) == (25, 15, DEFAULT_FORMAT)
    found = lines_of(capfd, otherwise=LogSettings(levels=levels, format="%(levelname)s %(name)s"))
    assert found == ["INFO mylib", "WARNING mylib", f"WARNING {OURS}"]


def test_a_child_logs_as_its_program_does(capfd: pytest.CaptureFixture[str]) -> None:
    as_program = LogSettings(levels={"": "INFO"}, format="{levelname} {message}", style="{")

    assert lines_of(capfd, otherwise=as_program)[:2] == [
        "INFO said by mylib",
        "WARNING said by mylib",
    ]


def test_lines_are_json_with_worker_thread_and_task(capfd: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in lines_of(capfd, "", {"logging.format": "JSON"})]

    assert [(it["level"], it["logger"], it["message"]) for it in lines] == [
        ("WARNING", name, f"said by {name}") for name in ("mylib", OURS)
    ]
    assert {it["worker"] for it in lines} == {"w-0-thread"}
    assert all(it["time"].endswith("Z") for it in lines)


def test_a_line_of_json_says_where_it_comes_from_and_what_was_raised() -> None:
    record = logging.LogRecord("shop", logging.ERROR, "", 1, "no %s\nfor it", ("price",), None)
    record.processName = "orders-w-0-StreamThread-1"
    record.order = 17
    try:
        int("price")
    except ValueError:
        record.exc_info = sys.exc_info()

    named = TASK.set(TaskId(1, 3))
    try:
        text = JsonFormatter().format(record)
    finally:
        TASK.reset(named)

    fields = json.loads(text)
    assert "\n" not in text
    assert fields["worker"] == "orders-w-0"
    assert fields["thread"] == "orders-w-0-StreamThread-1"
    assert fields["task"] == "1_3"
    assert fields["message"] == "no price\nfor it"
    assert fields["order"] == 17
    assert "ValueError: invalid literal" in fields["exception"]


def test_a_program_that_logs_json_has_processes_that_do() -> None:
    program = """
        import logging, sys
        from headwater.jsonlog import log_to
        from headwater.native import logs
        log_to(sys.stderr, "INFO", "json")
        print(logs.of_this_program().format)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert done.stdout == "json\n"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("logging.level", "INFOO", "did you mean INFO"),
        ("logging.level", "INFO,mylib", "my.module=DEBUG"),
        ("logging.level", "=INFO", "my.module=DEBUG"),
        ("logging.format", "%(mesage)s", "there is no field 'mesage'"),
        ("logging.format", "%(levelname)s", r"%\(message\)s is missing"),
        ("logging.format", "%(message)s 100%", "incomplete format"),
        ("logging.levels", "INFO", "did you mean logging.level"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(option: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}.*{message}"):
        StreamsConfig.parse({"application.id": "a", option: value})


def document(**settings: object) -> dict[str, Any]:
    return {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "wc"},
        "spec": {"topology": {"module": "a:b"}, "logging": settings},
    }


def test_a_streamapp_says_what_its_workers_log_and_a_change_of_it_replaces_them() -> None:
    app = parse(document(level="INFO,mylib=DEBUG", format=SHORT))

    config = StreamsConfig.parse(config_of(app, {}))

    assert config.logging_level == {"": "INFO", "mylib": "DEBUG"}
    assert config.logging_format == SHORT
    assert rolled_part(app.spec)["logging"] == {"format": SHORT}, "the level is taken over live"


def test_a_level_that_is_none_is_refused_by_the_streamapp() -> None:
    with pytest.raises(SpecError, match=r"spec\.logging\.level"):
        parse(document(level="loud"))


def test_levels_that_are_named_no_more_are_as_they_were_before() -> None:
    first, second = logging.getLogger("given.first"), logging.getLogger("given.second")
    first.setLevel("ERROR")
    try:
        logs.give_levels({"given.first": "DEBUG", "given.second": "INFO"})
        assert (first.level, second.level) == (logging.DEBUG, logging.INFO)
        logs.give_levels({"given.second": "WARNING"})
        assert (first.level, second.level) == (logging.ERROR, logging.WARNING)
    finally:
        logs.give_levels({})
    assert (first.level, second.level) == (logging.ERROR, logging.NOTSET)
