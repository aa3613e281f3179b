"""What the pod of Spark's driver says of it, without asking the driver itself."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import FencedError, UserError
from headwater.model.drivercontract import END_WORDS
from headwater_operator.decide.observed import DriverView
from headwater_operator.manifests.names import (
    EXECUTORS_ANNOTATION,
    GENERATION_ANNOTATION,
    STARTED_FROM_ANNOTATION,
)
from headwater_operator.observe.pods import terminated_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater_operator.kube.api import Manifest
    from headwater_operator.views import PodView

_DISRUPTED: Final = "DisruptionTarget"
_EXIT_OK: Final = 0
_ERROR: Final = "error: "
"""What the command line begins its last line with."""


def read_driver(
    manifest: Manifest, pod: PodView, executors: Sequence[PodView] | None
) -> DriverView:
    """Return what is known of a driver.

    Args:
        manifest: of its pod.
        pod: the same, read.
        executors: the pods of executors; ``None`` if it has them elsewhere.
    """
    annotations: Mapping[str, Any] = manifest["metadata"].get("annotations") or {}
    there = [
        each for each in executors or () if not each.state.is_proof_of_end and not each.is_deleting
    ]
    code = _exit_code(manifest)
    error, message = _last_error(manifest)
    return DriverView(
        process=pod.state,
        generation=_number(annotations, GENERATION_ANNOTATION),
        executors=_number(annotations, EXECUTORS_ANNOTATION),
        is_stopping=pod.is_deleting,
        attempt=zlib.crc32(pod.uid.encode()) or 1,
        end="" if code == _EXIT_OK else message or pod.ended,
        error=error,
        is_fenced=code == FencedError.exit_code,
        is_hopeless=code == UserError.exit_code,
        was_disrupted=_was_disrupted(manifest, code, pod),
        started_from=str(annotations.get(STARTED_FROM_ANNOTATION, "")),
        waits_for=pod.waits_for,
        executors_there=None if executors is None else len(there),
        executors_ready=sum(each.is_ready for each in there),
    )


def _exit_code(manifest: Manifest) -> int | None:
    """Return how its container ended; ``None`` while it has not, or nobody knows."""
    code = terminated_in(manifest).get("exitCode")
    return None if code is None else int(code)


def _last_error(manifest: Manifest) -> tuple[str, str]:
    """Return class and message of what a driver has ended with; empty if it has not told."""
    said = str(terminated_in(manifest).get("message") or "").strip().splitlines()
    if len(said) < 2 or not said[-2].startswith(END_WORDS) or not said[-1].startswith(_ERROR):
        return "", ""
    return said[-2].removeprefix(END_WORDS), said[-1].removeprefix(_ERROR)


def _was_disrupted(manifest: Manifest, code: int | None, pod: PodView) -> bool:
    """Whether something else than the process has ended it: an eviction, a machine that is gone."""
    status = manifest.get("status") or {}
    named = any(
        each.get("type") == _DISRUPTED and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    if named or status.get("reason"):
        return True
    # One whose init container has failed says so in its problem.
    return status.get("phase") == "Failed" and code is None and pod.problem is None


def _number(annotations: Mapping[str, Any], name: str) -> int:
    """Return a number that we wrote; what somebody has put there instead fits no driver."""
    text = str(annotations.get(name, ""))
    return int(text) if text.isdecimal() and len(text) < 19 else -1
