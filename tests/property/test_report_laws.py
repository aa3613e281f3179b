"""A secret that stands in any place where users have them is in no file of a report."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater_operator.commands.report import Report
from headwater_operator.overview.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK: Final = "zq7"
"""Begins every secret: no other text of a report contains it."""
_UNRESERVED: Final = "abcXYZ0189-_.~"
WORDS: Final = st.text(_UNRESERVED, min_size=6, max_size=20).map(lambda text: f"{_MARK}{text}")
"""Secrets that every format takes as they are."""
TEXTS: Final = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x17F, exclude_categories=["C", "Z"]),
    min_size=6,
    max_size=20,
).map(lambda text: f"{_MARK}{text}\"\\'e")
"""Secrets that have to be escaped nearly everywhere."""
NUMBERS: Final = st.text("0123456789", min_size=12, max_size=20)


def _pod(**container: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "w"}, "spec": {"containers": [container]}}


def _in_log(line: str) -> Callable[[Report, str], None]:
    return lambda report, secret: report.text("logs/w.log", line.replace("SECRET", secret) + "\n")


def _in_overview(report: Report, secret: str) -> None:
    why = f"KafkaError: sasl.password={secret}"
    report.overview(Snapshot(app="wc", reason=why, failure=why))


def _in_a_message_of_tasks(report: Report, secret: str) -> None:
    report.document("http/w/tasks.json", {"problem": f"login failed: password: {secret}"})


def _in_a_script(report: Report, secret: str) -> None:
    report.resources("pods", [_pod(command=["sh", "-c", f"run --token {secret}"])])
    report.text("logs/w.log", f"started with {secret}\n")


def _in_json_in_a_log(report: Report, secret: str) -> None:
    inner = json.dumps({"user": "ann", "password": secret})
    report.text("logs/w.log", json.dumps({"message": f"config {inner}", "level": "info"}) + "\n")


def _in_jaas(report: Report, secret: str) -> None:
    line = f'org.apache.kafka...PlainLoginModule required username="ann" password="{secret}";'
    config = {"sasl.jaas.config": line}
    report.resources("streamapps", [{"kind": "StreamApp", "spec": {"kafka": {"config": config}}}])
    report.text("logs/w.log", f"login with {secret}\nwith {line}\n{json.dumps({'is': line})}\n")


def _in_an_environment_with_a_url(report: Report, secret: str) -> None:
    value = f"postgres://ann:{secret}@db/shop"
    report.resources("pods", [_pod(env=[{"name": "DB", "value": value}])])
    report.text("logs/w.log", f"login with {secret}\n")


IN_WORDS: Final[dict[str, Callable[[Report, str], None]]] = {
    "overview": _in_overview,
    "message of tasks": _in_a_message_of_tasks,
    "script": _in_a_script,
    "jaas": _in_jaas,
    "environment with a URL": _in_an_environment_with_a_url,
    "assigned": _in_log("password=SECRET"),
    "pwd": _in_log("pwd=SECRET"),
    "option": _in_log("run --password SECRET --quiet"),
    "list of options": _in_log("run ['--password', 'SECRET']"),
    "bytes": _in_log("password=b'SECRET'"),
    "list": _in_log('"passwords": ["SECRET"]'),
    "URL with a password alone": _in_log("redis://:SECRET@cache:6379"),
    "URL with @ in a password": _in_log("http://ann:p@SECRET@host/x"),
    "URL with a token": _in_log("cloning https://SECRET@github.com/ann/shop"),
    "bearer": _in_log("Authorization: Bearer SECRET"),
}


@pytest.mark.parametrize("place", IN_WORDS)
@given(secret=WORDS)
@settings(max_examples=15)
def test_a_secret_is_in_no_file_of_a_report(place: str, secret: str) -> None:
    report = Report()

    IN_WORDS[place](report, secret)

    _expect_none(report, secret)


def _known_by_a_field(report: Report, secret: str) -> None:
    config = {"sasl.password": secret}
    report.resources("streamapps", [{"kind": "StreamApp", "spec": {"kafka": {"config": config}}}])


def _known_by_a_variable(report: Report, secret: str) -> None:
    report.resources("pods", [_pod(env=[{"name": "DATABASE", "value": secret}])])


def _known_by_an_argument(report: Report, secret: str) -> None:
    report.resources("pods", [_pod(args=["--quiet", "--password", secret, "--other"])])


def _known_by_an_assigned_argument(report: Report, secret: str) -> None:
    report.resources("pods", [_pod(args=[f"--api-key={secret}"])])


def _known_by_a_field_of_tasks(report: Report, secret: str) -> None:
    report.document("http/w-0/tasks.json", {"tasks": [{"sasl.password": secret}]})


def _known_by_a_config_map(report: Report, secret: str) -> None:
    data = {"app.json": json.dumps({"config": {"ssl.key.password": secret}})}
    report.resources("configmaps", [{"kind": "ConfigMap", "data": data}])


KNOWN: Final[dict[str, Callable[[Report, str], None]]] = {
    "field": _known_by_a_field,
    "variable": _known_by_a_variable,
    "argument": _known_by_an_argument,
    "assigned argument": _known_by_an_assigned_argument,
    "field of tasks": _known_by_a_field_of_tasks,
    "config map": _known_by_a_config_map,
}


@pytest.mark.parametrize("place", KNOWN)
@given(secret=WORDS | TEXTS | NUMBERS)
@settings(max_examples=15)
def test_a_value_that_was_left_out_is_in_no_other_file(place: str, secret: str) -> None:
    report = Report()
    # These come first: what is secret becomes known only later.
    report.overview(Snapshot(app="wc", reason=f"got {secret}", failure=f"got {secret}"))
    report.document("http/w-1/tasks.json", {"problem": f"got {secret}", f"at {secret}": 1})
    report.resources("events", [{"kind": "Event", "message": f"got {secret} of nobody"}])
    report.text("logs/w.log", f"got {secret}\n{json.dumps({'got': secret})}\n")
    report.missing.append(f"the log of x: not in the report: {secret}")

    KNOWN[place](report, secret)

    _expect_none(report, secret)


@given(secret=TEXTS)
@settings(max_examples=30)
def test_a_secret_in_json_in_a_json_line_is_taken_out(secret: str) -> None:
    report = Report()

    _in_json_in_a_log(report, secret)

    found = _expect_none(report, secret)
    assert _MARK not in found["logs/w.log"]
    assert "ann" in found["logs/w.log"]


def _expect_none(report: Report, secret: str) -> dict[str, str]:
    """Write a report; expect the secret in none of its files, escaped or not; return them."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "report.zip"
        report.write(file)
        with zipfile.ZipFile(file) as archive:
            found = {name: archive.read(name).decode() for name in archive.namelist()}
    forms = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    assert {name for name, text in found.items() if any(form in text for form in forms)} == set()
    assert {name for name, text in found.items() if _MARK in text} == set()
    return found
