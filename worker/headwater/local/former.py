"""Fences a private broker's former run before the next one begins (docs/adr/0030).

A lone controller starts on the same metadata, misses the broker's heartbeats, and writes down that
its partitions have no leader. So the broker that starts next leads nothing until it is registered:

    broker ended, leader 1 ──► lone controller ──► leader none ──► broker starts ──► leader 1

Without it the broker leads at once, is fenced while it does, and leads again; a coordinator of
transactions that loses its partitions' leaders at such a moment drops markers (KAFKA-20734).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headwater.errors import LocalKafkaError
from headwater.local.guarded import GuardedProgram

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

LOGGING: Final = (
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller.QuorumController=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller.ReplicationControlManager=info",
)
"""What makes the controller say what we wait for."""

_ACTIVE: Final = b"Becoming the active controller"
_FENCED: Final = b"handleBrokerFenced: changing"
_READY_S: Final = 120.0
_POLL_S: Final = 0.02
_NOTHING_TO_FENCE_S: Final = 3.0
"""A controller that has been active for so long has fenced whom it had to."""
_WRITTEN_S: Final = 0.2
"""The record is on the disk so long after the controller has spoken of it, at the latest."""
_STOP_GRACE_S: Final = 5.0


def fence_former_run(
    command: Sequence[str], *, log_file: Path, descriptors: Collection[int]
) -> None:
    """Run a lone controller until it has fenced the broker.

    Args:
        command: runs it, with ``LOGGING``.
        log_file: what it prints; written anew each time.
        descriptors: open files that it inherits.

    Raises:
        LocalKafkaError: it ended, or did not become active in time (with its log's name).
    """
    log_file.unlink(missing_ok=True)
    controller = GuardedProgram(command, log_file=log_file, descriptors=descriptors)
    try:
        _wait_fenced(controller, log_file)
    finally:
        controller.stop(grace_s=_STOP_GRACE_S)


def _wait_fenced(controller: GuardedProgram, log_file: Path) -> None:
    deadline = time.monotonic() + _READY_S
    active_at: float | None = None
    while True:
        now = time.monotonic()
        said = log_file.read_bytes()
        if _FENCED in said:
            time.sleep(_WRITTEN_S)
            return
        if active_at is None and _ACTIVE in said:
            active_at = now
        if active_at is not None and now - active_at > _NOTHING_TO_FENCE_S:
            return
        if not controller.is_running() or now > deadline:
            ended = "did not become active" if controller.is_running() else "ended"
            raise LocalKafkaError(
                f"the private Kafka's controller {ended} while its last run was being closed; "
                f"see its log {log_file}"
            )
        time.sleep(_POLL_S)
