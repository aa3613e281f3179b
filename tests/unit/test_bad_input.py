"""Every kind of bad input has its tests; what a person wrote wrong ends a command with one line."""

from __future__ import annotations

import ast
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.bad_input import COVERAGE

from headwater.cli.main import main
from headwater.errors import ConfigError, ImportPathError, SpecError, TopologyError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("row", COVERAGE)
def test_every_kind_of_bad_input_has_tests(row: str) -> None:
    for test in COVERAGE[row]:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


GOOD: dict[str, Any] = {
    "apiVersion": "headwater.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "orders"},
    "spec": {
        "topology": {"module": "examples.word_count.app:build"},
        "kafka": {"bootstrapServers": "127.0.0.1:1"},
    },
}


def changed(path: str, value: object) -> str:
    """The good document, as YAML, with one field changed; ``None`` takes it away."""
    document = yaml.safe_load(yaml.safe_dump(GOOD))
    *parents, last = path.split(".")
    place = document
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    if value is None:
        del place[last]
    return yaml.safe_dump(document)


FILES = [
    pytest.param(changed("spec.replcas", 2), ["spec.replcas", "replicas"], id="unknown field"),
    pytest.param(changed("spec.replicas", "two"), ["spec.replicas", "'two'"], id="wrong type"),
    pytest.param(changed("spec.replicas", True), ["spec.replicas"], id="truth for a number"),
    pytest.param(
        changed("spec.processingGuarantee", "exactly_twice"),
        ["spec.processingGuarantee", "exactly_once_v2"],
        id="unknown choice",
    ),
    pytest.param(changed("spec.topology", None), ["spec.topology"], id="missing field"),
    pytest.param(changed("kind", "StreamUp"), ["kind"], id="another kind"),
    pytest.param("spec: [", ["streamapp.yaml"], id="no YAML"),
    pytest.param("- 1\n- 2\n", [], id="no mapping"),
    pytest.param(b"\xff\xfe\x00", ["streamapp.yaml"], id="no text"),
    pytest.param(None, ["streamapp.yaml"], id="no file"),
]


@pytest.mark.parametrize("command", ["up", "worker"])
@pytest.mark.parametrize(("text", "words"), FILES)
def test_a_mistake_in_the_file_is_named_in_one_line_by_every_command(
    command: str,
    text: str | bytes | None,
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "streamapp.yaml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    arguments = {
        "up": ["up", "--plain", "-f", str(file), "--home", str(tmp_path / "home")],
        "worker": worker(tmp_path, "--streamapp", str(file)),
    }

    code = main(arguments[command])

    assert code == SpecError.exit_code
    assert_one_line(capsys, words)
    assert not (tmp_path / "home").exists()


def worker(tmp_path: Path, *arguments: str) -> list[str]:
    return [
        *("worker", "--app", "orders", "--name", "orders-w-0"),
        *("--cluster-dir", str(tmp_path / "cluster"), "--state-dir", str(tmp_path / "state")),
        *arguments,
    ]


def assert_one_line(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert [word for word in words if word not in said] == [], said


@pytest.fixture
def applications(tmp_path: Path) -> Iterator[str]:
    """A directory with an application that cannot be built, to be put on the import path."""
    directory = tmp_path / "applications"
    directory.mkdir()
    (directory / "bad_applications.py").write_text(
        "number = 3\n"
        "def raises(builder): raise ValueError('no luck')\n"
        "def misspells(builder): builder.stream('a').to('a', value_serde='strnig')\n"
        "def twice(builder): builder.table('a', store='s'); builder.table('b', store='s')\n"
    )
    (directory / "needs_more.py").write_text("import no_such_package\n")
    return str(directory)


MISTAKES = [
    pytest.param(
        "spec.topology.module", "no_such_module:build", ImportPathError,
        ["no_such_module", "PYTHONPATH"], id="no module",
    ),
    pytest.param(
        "spec.topology.module", "needs_more:build", ImportPathError,
        ["no_such_package", "install"], id="module that fails",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:missing", ImportPathError,
        ["has no 'missing'"], id="no function",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:number", ImportPathError,
        ["not a function"], id="no function but a number",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:raises", ImportPathError,
        ["ValueError: no luck"], id="function that raises",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:twice", TopologyError,
        ["already called 's'"], id="topology that breaks a rule",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:misspells", TopologyError,
        ["value_serde is 'strnig'", "Serdes.string"], id="unknown serde in the topology",
    ),
    pytest.param(
        "spec.config", {"default.value.serde": "strnig"}, ConfigError,
        ["default.value.serde", "'strnig'", "did you mean 'string'"], id="unknown default serde",
    ),
    pytest.param(
        "spec.config", {"commit.interval.ms": "soon"}, ConfigError,
        ["commit.interval.ms", "'soon'"], id="wrong type of an option",
    ),
    pytest.param(
        "spec.config", {"max.poll.interval.ms": "soon"}, ConfigError,
        ["max.poll.interval.ms", "'soon'"], id="wrong type of a client's setting",
    ),
    pytest.param(
        "spec.config", {"buffer.memory": "64MB"}, ConfigError,
        ["buffer.memory", "'64MB'"], id="a unit where a number belongs",
    ),
    pytest.param(
        "spec.kafka.bootstrapServers", "nowhere", UserError,
        ["nowhere", "host:port"], id="address without port",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "error", "words"), MISTAKES)
def test_a_mistake_that_only_a_worker_sees_is_named_in_one_line(
    path: str,
    value: object,
    error: type[UserError],
    words: list[str],
    tmp_path: Path,
    applications: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(changed(path, value))

    code = main(worker(tmp_path, "--streamapp", str(file), "--import-path", applications))

    assert code == error.exit_code
    assert_one_line(capsys, words)


FLAGS = [
    pytest.param("spec", ["--topology", "a:b"], SpecError, ["spec: expected"], id="spec is none"),
    pytest.param(
        "spec.kafka", ["--bootstrap", "a:1"], SpecError, ["spec.kafka: exp"], id="kafka is none"
    ),
    pytest.param("", ["--http-port", "99999"], ConfigError, ["99999", "--http-port"], id="port"),
    pytest.param("", ["--config", "a"], ConfigError, ["--config a", "NAME=VALUE"], id="no value"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "flags", "error", "words"), FLAGS)
def test_a_flag_beside_a_wrong_file_or_with_a_wrong_value_is_named_in_one_line(
    path: str,
    flags: list[str],
    error: type[UserError],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(changed(path, 3) if path else yaml.safe_dump(GOOD))

    code = main(worker(tmp_path, "--streamapp", str(file), *flags))

    assert code == error.exit_code
    assert_one_line(capsys, words)


def test_a_port_that_is_taken_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        code = main(worker(tmp_path, "--streamapp", str(file), "--http-port", port))

    assert code == ConfigError.exit_code
    assert_one_line(capsys, [f"127.0.0.1:{port}", "Address already in use", "--http-port"])


def test_a_level_of_the_log_that_does_not_exist_is_named_wherever_it_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_LOG_LEVEL", "LOUD")

    assert main(worker(tmp_path)) == ConfigError.exit_code
    assert_one_line(capsys, ["'LOUD'", "WARNING"])
