"""The driver of an engine that is not Native, on one machine: its program, and how it is seen.

It is a pod as the workers' are: the control loop writes which process there should be, the
supervisor keeps it. So it outlives a control loop, and the next one finds it.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headwater.errors import FencedError, SpecError, UserError
from headwater_operator.actions import StartDriver, StopDriver, StopHow
from headwater_operator.decide.observed import DriverView
from headwater_operator.local import files
from headwater_operator.local.endings import describe_end
from headwater_operator.local.observe import process_state, read_process
from headwater_operator.local.pods import Phase, Pod, Wish
from headwater_operator.observe.driver import DriverAnswer, question
from headwater_operator.overview.events import Event, EventKind

if TYPE_CHECKING:
    from headwater_operator.local.layout import AppDir
    from headwater_operator.local.pods import PodProcess
    from headwater_operator.local.records import AppRecord
    from headwater_operator.observe.driver_told import DriverTold

PROGRAM_VARIABLE: Final = "HEADWATER_DRIVER_PROGRAM"
"""Names the module that is run as the driver, for tests without Spark."""


def driver_command(directory: AppDir, record: AppRecord, generation: int) -> tuple[str, ...]:
    """Return the command that runs the driver on one machine."""
    program = os.environ.get(PROGRAM_VARIABLE) or "headwater.cli.main"
    paths = [part for path in record.import_path for part in ("--import-path", path)]
    return (
        *(sys.executable, "-m", program, "spark", "-f", str(directory.streamapp)),
        *("--generation", str(generation), "--http-port", "0"),
        *("--state-dir", str(directory.driver_state), *paths),
    )


def start_driver(directory: AppDir, record: AppRecord, action: StartDriver) -> Event | None:
    """Wish for a driver; ``None`` if one runs, or may begin at any moment."""
    pod, process = read_process(directory.driver)
    if not process_state(pod, process).is_proof_of_end:
        return None
    last = max(pod.attempt if pod else 0, process.attempt if process else 0)
    wanted = Pod(
        attempt=max(last + 1, int(time.time() * 1000)),
        command=driver_command(directory, record, action.generation),
        import_path=record.import_path,
        generation=action.generation,
        executors=action.executors,
    )
    files.replace(directory.driver.pod, wanted.to_dict())
    why = "" if process is None else describe_end(process, directory.driver.log)
    said = f"started again; it had ended: {why}" if why else f"started: {action.reason}"
    return _event(EventKind.STARTED, f"{said} (generation {action.generation})")


def stop_driver(directory: AppDir, action: StopDriver) -> Event | None:
    """Wish for the driver's end; ``None`` if that was wished before."""
    pod, process = read_process(directory.driver)
    if pod is None or process_state(pod, process).is_proof_of_end:
        return None
    wish = Wish.STOP if action.how is StopHow.GRACEFULLY else Wish.KILL
    if pod.wish in {wish, Wish.KILL}:
        return None
    files.replace(directory.driver.pod, replace(pod, wish=wish).to_dict())
    verb = "told to stop" if wish is Wish.STOP else "killed"
    return _event(EventKind.STOPPED, f"{verb}: {action.reason}")


def _event(kind: EventKind, text: str) -> Event:
    return Event(at_ms=int(time.time() * 1000), kind=kind, text=text, worker="driver")


def observe_driver(directory: AppDir, told: DriverTold, now_ms: int) -> DriverView:
    """Look at the driver, and ask it.

    Args:
        directory: the application's.
        told: remembers what it has said.
        now_ms: of a clock that never goes back.

    Raises:
        SpecError: a file that only we write is damaged.
    """
    pod, process = read_process(directory.driver)
    state = process_state(pod, process)
    if pod is None:
        return DriverView(process=state)
    view = DriverView(
        process=state,
        generation=pod.generation,
        executors=pod.executors,
        is_stopping=pod.wish is not Wish.RUN,
        attempt=pod.attempt,
    )
    if process is not None and process.attempt == pod.attempt and process.phase is Phase.ENDED:
        error, message = _last_error(directory, process)
        return replace(
            view,
            end=message or describe_end(process, directory.driver.log),
            error=error,
            is_fenced=process.exit_code == FencedError.exit_code,
            is_hopeless=process.exit_code == UserError.exit_code,
        )
    return told.take_in(view, answer_of(directory), now_ms)


def _last_error(directory: AppDir, process: PodProcess) -> tuple[str, str]:
    """Return class and message of what a process has ended with; empty if it has not told."""
    try:
        told = files.read(directory.driver_end)
    except SpecError:
        return "", ""
    if process.exit_code <= 0 or told is None or told.get("pid") != process.pid:
        return "", ""
    return str(told.get("error", "")), str(told.get("message", ""))


def answer_of(directory: AppDir) -> DriverAnswer:
    """Ask the driver that runs now; an empty answer if it cannot be asked, or was another one."""
    _, process = read_process(directory.driver)
    try:
        told = files.read(directory.driver_address)
    except SpecError:
        return DriverAnswer()
    if process is None or told is None or told.get("pid") != process.pid:
        return DriverAnswer()
    return question(str(told.get("http", ""))).answer()
