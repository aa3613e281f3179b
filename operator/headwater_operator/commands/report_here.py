"""What a report has of an application on this machine: its files, and what its workers answer."""

from __future__ import annotations

import json
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.local import files
from headwater_operator.local.observe import read_record, read_report, read_worker

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.commands.places import Here
    from headwater_operator.commands.report import Report

_TIMEOUT_S: Final = 5.0
_HTTP: Final = {"/tasks": "json", "/metrics": "txt"}


def collect(report: Report, place: Here, app: str, *, lines: int) -> None:
    """Add resources, events, logs and metrics.

    Args:
        report: gets them.
        place: where the application is.
        app: its name.
        lines: of each log.
    """
    cluster, directory = place.cluster, place.cluster.app(app)
    record, said = read_record(directory), read_report(directory)
    if record is not None:
        manifest: dict[str, Any] = {**record.app.to_dict(), "status": said.status.to_dict()}
        report.resources("streamapps", [manifest])
    workers = [worker for path in directory.workers() if (worker := read_worker(path)) is not None]
    report.resources("streamworkers", [worker.to_dict() for worker in workers])
    report.attempt("events", lambda: _file(report, "events.jsonl", directory.events, lines))
    for program in directory.programs():
        name = f"logs/{program.name}.log"
        report.attempt(name, partial(_file, report, name, program.log, lines))
    for name, path in (
        ("supervisor", cluster.supervisor_log),
        ("loop", cluster.loop_log),
        ("kafka", cluster.kafka_log),
    ):
        if path.exists():
            _file(report, f"logs/{name}.log", path, lines)
    for worker in workers:
        if worker.status.endpoint:
            for at in _HTTP:
                asked = partial(_http, report, worker.name, worker.status.endpoint, at)
                report.attempt(f"{at} of {worker.name}", asked)


def _file(report: Report, name: str, path: Path, lines: int) -> None:
    report.text(name, files.tail(path, lines))


def _http(report: Report, worker: str, endpoint: str, path: str) -> None:
    host, _, port = endpoint.rpartition(":")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
    name = f"http/{worker}{path}.{_HTTP[path]}"
    if _HTTP[path] == "json":
        report.document(name, json.loads(text))
    else:
        report.text(name, text)
