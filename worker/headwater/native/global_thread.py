"""The GlobalStreamThread: a process that keeps the global stores of a worker (KIP-99).

    bootstrap: every store up to the end of its topic ─► GlobalProgress(filled) ─► tasks may start
    then: read, apply, write, publish, until Stop

StreamThreads read the stores from its files (``native.global_sight``). A process that is started
again goes on at the stored positions. What it cannot handle ends it, and is told in ``Failed``.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater import failpoints
from headwater.ids import global_thread_id
from headwater.kafka.access import Access
from headwater.native import logs
from headwater.native.blocks import shared_blocks
from headwater.native.clients import global_consumer
from headwater.native.clock import SystemClock
from headwater.native.garbage import tune_garbage_collection
from headwater.native.global_places import GlobalPlaces
from headwater.native.global_reader import GlobalReader
from headwater.native.loading import child_topology
from headwater.native.locating import locate
from headwater.native.measured import GlobalNumbers
from headwater.native.messages import Configure, GlobalProgress, Stopped
from headwater.state.directory import StateDirectory
from headwater.state.global_store import shared_groups

if TYPE_CHECKING:
    from headwater.native.messages import ChildSettings
    from headwater.native.process import Link

log = logging.getLogger(__name__)

_REPORT_S: Final = 0.5
_POLL_S: Final = 0.1


class _StopAskedError(Exception):
    """Main wants an end while the stores are being filled."""


def run(settings: ChildSettings, link: Link) -> None:
    """Run a GlobalStreamThread until ``Stop``; the target of a ``ChildProcess``.

    Args:
        settings: ``slot`` counts the processes that the worker has started for this before.
        link: to the worker's main process.

    Raises:
        HeadwaterError: why it cannot go on; what it has written is complete up to its positions.
    """
    thread = GlobalStreamThread(settings, link)
    tune_garbage_collection()
    thread.run()


class GlobalStreamThread:
    """Keeps the global stores of a worker (Kafka's ``GlobalStreamThread``).

    Args:
        settings: who it is.
        link: to the worker's main process.
    """

    def __init__(self, settings: ChildSettings, link: Link) -> None:
        config = settings.application.parsed()
        topology = child_topology(settings)
        self._config = config
        self._link = link
        link.locate = partial(locate, threading.get_ident())
        base = config.client_id or config.application_id
        access = self._access = Access.of(
            config,
            client_id=f"{base}-{global_thread_id(settings.worker)}",
            timeout_s=config.request_timeout_ms / 1000,
        )
        self._places = GlobalPlaces(
            StateDirectory(Path(settings.state_dir), settings.application_id),
            f"GlobalStreamThread of {settings.worker}",
            shared_blocks(config),
            is_first=settings.slot == 0,
        )
        clock = SystemClock()
        self._numbers = GlobalNumbers(config, clock, global_thread_id(settings.worker))
        self._reader = GlobalReader(
            shared_groups(topology),
            access,
            lambda: global_consumer(access),
            clock,
            self._heartbeat,
            self._places,
            self._numbers.measures,
            link.send if settings.tells_restores else None,
        )
        self._filled = False
        self._report_due = 0.0

    def run(self) -> None:
        """Fill the stores, then follow their topics until told to stop."""
        try:
            self._access.admin.check_reachable(self._config.request_timeout_ms / 1000)
            self._heartbeat()
            self._reader.bootstrap()
            failpoints.hit("globals.filled")
            self._filled = True
            self._report_due = 0.0
            self._numbers.look_soon()
            while True:
                self._heartbeat()
                self._reader.update(_POLL_S)
        except _StopAskedError:
            self._link.send(Stopped())
        finally:
            self._reader.close()
            self._places.close()

    def _heartbeat(self) -> None:
        """Report if it is time, and look for commands."""
        for command in self._link.commands():
            if isinstance(command, Configure):
                logs.give_levels(command.levels)
                # What is measured is compiled into what reads: the next process begins with it.
                told = command.metrics_level, command.rocksdb
                if told == (self._config.metrics.level, self._config.rocksdb):
                    continue
            raise _StopAskedError
        now = time.monotonic()
        if now >= self._report_due:
            self._report_due = now + _REPORT_S
            lost_s = self._access.connection.lost_for_s
            self._link.offer(
                GlobalProgress(
                    records=self._reader.records,
                    remaining=self._reader.remaining,
                    filled=self._filled,
                    problem=f"no broker has answered for {lost_s:.0f} s" if lost_s > 1 else "",
                    tree=self._numbers.tree(self._reader.measured),
                )
            )
