"""The command lines of the private Kafka's Java programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.local.jvm import archive_of, kafka_command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "java"
    program.touch()
    return program


def shared(command: tuple[str, ...]) -> list[str]:
    return [part for part in command if part.startswith("-XX:SharedArchiveFile=")]


def test_class_data_are_read_where_there_are_some(java: Path) -> None:
    archive = archive_of(java, "a.jar:b.jar")
    assert shared(kafka_command(java, "a.jar:b.jar", "kafka.Kafka")) == []

    archive.parent.mkdir(parents=True)
    archive.touch()

    assert shared(kafka_command(java, "a.jar:b.jar", "kafka.Kafka")) == [
        f"-XX:SharedArchiveFile={archive}"
    ]


def test_class_data_are_of_one_java_and_one_class_path(java: Path, tmp_path: Path) -> None:
    other = tmp_path / "other-java"
    other.touch()

    places = {archive_of(java, "a.jar"), archive_of(java, "b.jar"), archive_of(other, "a.jar")}

    assert len(places) == 3


def test_options_of_the_environment_come_last(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_KAFKA_OPTS", "-Xmx1g -Da='b c'")

    command = kafka_command(java, "a.jar", "kafka.Kafka", "file", options=["-Xmx512m"])

    assert command[-4:] == ("-cp", "a.jar", "kafka.Kafka", "file")
    assert command.index("-Xmx512m") < command.index("-Xmx1g") < command.index("-Da=b c")
