"""The command line turns errors into messages and exit codes, and finds everybody's commands."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support import pages

from headwater.cli.kafka import directory_of
from headwater.cli.main import build_parser, main
from headwater.cli.options import command_config
from headwater.config import StreamsConfig
from headwater.errors import ConfigError, EnvironmentProblemError, UserError
from headwater_operator.local.layout import default_root

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("other", ["--until-eof", "--share"])
def test_an_error_of_ours_is_one_line_without_traceback(
    other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["kafka", "start", "--detach", other])

    assert code == UserError.exit_code
    assert capsys.readouterr().err.startswith(f"error: --detach and {other} contradict")


def test_status_without_a_broker_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["kafka", "status", "--data", str(tmp_path)])

    assert code == 1
    assert capsys.readouterr().out == f"no private Kafka runs in {tmp_path}\n"


@pytest.mark.parametrize("home", ["", "elsewhere"])
def test_who_shares_a_broker_means_the_one_of_headwater_up(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_HOME", home)
    expected = default_root() / "kafka"
    assert expected == tmp_path / (home or ".headwater") / "kafka"
    start = build_parser().parse_args

    assert directory_of(start(["kafka", "start", "--share"])) == expected
    assert directory_of(start(["kafka", "start", "--share", "--data", "there"])) == (
        tmp_path / "there"
    )
    assert main(["kafka", "status", "--share"]) == 1
    assert main(["kafka", "stop", "--share"]) == 0
    assert capsys.readouterr().out == f"no private Kafka runs in {expected}\n" * 2


def test_stopping_nothing_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["kafka", "stop", "--data", str(tmp_path)])

    assert code == 0
    assert capsys.readouterr().out == f"no private Kafka runs in {tmp_path}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["kafka", "start", "--port", "many"],
        ["kafka", "start", "--port", "65536"],
        ["logs", "app", "--tail", "-1"],
    ],
)
def test_a_wrong_command_line_ends_with_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert "usage: headwater" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [([], ("backfill", "up", "kafka", "worker")), (["kafka"], ("start", "stop", "status"))],
    ids=["headwater", "headwater kafka"],
)
def test_without_a_command_the_help_lists_them(
    arguments: list[str], commands: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"usage: {' '.join(['headwater', *arguments])} ")
    listed = {words[0] for line in said.err.splitlines() if (words := line.split())}
    assert listed >= set(commands)


@pytest.mark.parametrize("command", [["get"], ["up", "-f", "FILE"]])
def test_a_place_that_cannot_be_used_is_named(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(
        "{apiVersion: headwater.dev/v1alpha1, kind: StreamApp, metadata: {name: a},"
        " spec: {topology: {module: 'a:b'}, kafka: {bootstrapServers: '127.0.0.1:1'}}}"
    )
    arguments = [str(file) if word == "FILE" else word for word in command]

    code = main([*arguments, "--home", str(file)])

    assert code == EnvironmentProblemError.exit_code
    said = capsys.readouterr().err
    assert said.startswith("error: cannot use ")
    assert str(file) in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("module", "code", "out", "err"),
    [
        ("import no_such_module", 2, "", "warning: commands of greeter:register are not available"),
        (
            (
                "def register(subparsers):\n"
                "    greet = subparsers.add_parser('greet')\n"
                "    greet.set_defaults(run=lambda args: print('hello') or 7)\n"
            ),
            7,
            "hello\n",
            "",
        ),
    ],
    ids=["broken", "working"],
)
def test_another_package_can_add_commands_but_not_take_ours_away(
    tmp_path: Path, module: str, code: int, out: str, err: str
) -> None:
    (tmp_path / "greeter.py").write_text(module)
    info = tmp_path / "greeter-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[headwater.commands]\ngreeter = greeter:register\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headwater.cli.main", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    greeted = run("greet")

    assert (greeted.returncode, greeted.stdout) == (code, out)
    assert greeted.stderr.startswith(err)
    assert run("kafka", "status", "--data", str(tmp_path)).returncode == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol", "expected NAME=VALUE"),
        (None, "cannot be read"),
        ("security.protokol=SSL", "did you mean security.protocol?"),
    ],
)
def test_client_settings_that_cannot_be_used_are_named(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    if text is not None:
        file.write_text(f"# settings\n{text}\n")
    given = [f"--home={tmp_path}", "--bootstrap=localhost:1", f"--command-config={file}"]

    assert main(["lag", "group", *given]) == ConfigError.exit_code

    assert said in capsys.readouterr().err


def test_client_settings_are_for_a_broker_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", f"--home={tmp_path}", "--command-config=x"]) == UserError.exit_code

    assert "--bootstrap HOST:PORT" in capsys.readouterr().err


def test_client_settings_of_the_page_are_understood(tmp_path: Path) -> None:
    (text,) = pages.blocks("reprocessing-in-place.md", "properties")
    file = tmp_path / "client.properties"
    file.write_text(text)

    settings = command_config(file)

    assert len(settings) == len(text.splitlines())
    assert StreamsConfig.parse({"application.id": "a", **settings}).admin_overrides() == settings
