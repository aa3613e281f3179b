"""``headwater promote NEW --over OLD``: the new version goes on alone, once it has caught up.

Nothing is renamed: the old version is stopped, with its state and offsets kept, and who reads its
outputs is to read those of the new one (docs/adr/0075).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError, KafkaUnavailableError, UserError
from headwater.model.lifecycle import ClientState
from headwater_operator.decide.observed import Intent
from headwater_operator.local import control
from headwater_operator.local.observe import read_report, read_worker
from headwater_operator.local.resetting import confirmed
from headwater_operator.local.running import is_stopped, wait_until
from headwater_operator.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.model.topics import TopologyReport
    from headwater_operator.local.layout import ClusterDir

_STOP_S: Final = 60.0
_POLL_S: Final = 1.0
_ASK_S: Final = 120.0


def promote(
    cluster: ClusterDir, new: str, *, over: str, max_lag: int, wait_s: float, is_confirmed: bool
) -> int:
    """Stop an application once the one that is to replace it runs and has caught up.

    Args:
        cluster: of both.
        new: the application that goes on.
        over: the one that is stopped.
        max_lag: how many records the new one may have left to read.
        wait_s: how long to wait until it runs and has no more than that.
        is_confirmed: nobody is asked.

    Raises:
        UserError: it is the same application twice.
        SpecError: there is no such application.
        EnvironmentProblemError: the new one does not run or has not caught up; nothing was changed.
            Or the old one does not stop.
    """
    if new == over:
        raise UserError(f"{new} is named twice: name the version that goes on, and the one before")
    for name in (new, over):
        control.require(cluster, name)
    if control.running_supervisor(cluster) is None:
        raise EnvironmentProblemError(
            f"nothing runs in {cluster.root}: start {new} first (headwater up -f FILE)"
        )
    _await(cluster, new, max_lag=max_lag, wait_s=wait_s)
    if not is_confirmed and not confirmed(f"Stop {over}, and have {new} go on alone?"):
        sys.stdout.write("nothing was changed\n")
        return 1
    outputs = _outputs(cluster, over), _outputs(cluster, new)
    control.want(cluster, over, Intent.STOP)
    if not wait_until(lambda: is_stopped(cluster.app(over)), timeout_s=_STOP_S):
        raise EnvironmentProblemError(
            f"{over} did not stop within {_STOP_S:.0f} s: "
            f"{read_report(cluster.app(over)).status.reason}"
        )
    sys.stdout.write(
        f"{over} is stopped, with its state and offsets kept; {new} goes on\n"
        f"who reads {outputs[0]} is to read {outputs[1]} from now on\n"
        f"take {over} out of the file that `headwater up` is given: it would start it again\n"
        f"to go back: headwater promote {over} --over {new}, once {over} runs again\n"
    )
    return 0


def _await(cluster: ClusterDir, new: str, *, max_lag: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while (reason := _not_ready(cluster, new, max_lag)) is not None:
        if time.monotonic() >= deadline:
            raise EnvironmentProblemError(f"{reason}; wait for it with --wait SECONDS")
        time.sleep(_POLL_S)


def _not_ready(cluster: ClusterDir, new: str, max_lag: int) -> str | None:
    """Return why the new version cannot go on alone; ``None`` if it can."""
    status = read_report(cluster.app(new)).status
    if control.require(cluster, new).intent is not Intent.RUN:
        return f"{new} is not to run"
    if status.state is not ClientState.RUNNING:
        return f"{new} is {status.state}: {status.reason}"
    lag = _lag(cluster, new)
    if lag <= max_lag:
        return None
    return f"{new} still has {records(lag)} to read"


def _lag(cluster: ClusterDir, name: str) -> int:
    """Ask a worker's program how many records are unread: it has the Kafka client."""
    program = [sys.executable, "-m", "headwater.cli.main", "lag", name, "--output", "json"]
    return int(answer_of([*program, "--home", str(cluster.root)], name, _ASK_S)[0]["lag"])


def answer_of(program: Sequence[str], name: str, timeout_s: float) -> Any:
    """Return what a program that asks Kafka prints, as JSON values.

    Args:
        program: with its arguments.
        name: of the application that it asks for.
        timeout_s: for its answer.

    Raises:
        KafkaUnavailableError: it does not answer in time.
        EnvironmentProblemError: it has failed.
    """
    try:
        done = subprocess.run(
            program,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailableError(
            f"how many records {name} has left to read was not answered within {timeout_s:.0f} s; "
            f"nothing was changed; see `headwater lag {name}`"
        ) from error
    if done.returncode != 0:
        raise EnvironmentProblemError(done.stderr.strip().rpartition("error: ")[2])
    return json.loads(done.stdout)


def records(count: int) -> str:
    """Return a number of records in words."""
    return counted(count, "record")


def _outputs(cluster: ClusterDir, name: str) -> str:
    workers = map(read_worker, cluster.app(name).workers())
    return outputs_of((None if one is None else one.status.topology for one in workers), name)


def outputs_of(reports: Iterable[TopologyReport | None], name: str) -> str:
    """Return the topics that an application writes for others.

    Args:
        reports: of its workers.
        name: its own.
    """
    for report in reports:
        if report is None:
            continue
        found = {topic for each in report.subtopologies for topic in each.sink_topics}
        found -= {topic.name for each in report.subtopologies for topic in each.repartition_sources}
        return ", ".join(sorted(found)) or f"the outputs of {name}"
    return f"the outputs of {name}"
