"""From settings to a worker that runs, and what is told of one that cannot begin."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.model.cluster import WorkerError, WorkerStatus
from headwater.service.carrier import CarrierUnavailableError
from headwater.service.importing import watched_import
from headwater.service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.service.carrier import Carrier
    from headwater.service.settings import WorkerSettings


def run_worker(
    settings: WorkerSettings, carrier: Carrier, started: Callable[[Worker], None]
) -> int:
    """Run a worker until it ends.

    Args:
        settings: what it was told.
        carrier: its way to its StreamWorker and Lease.
        started: told of the worker before it lives.

    Returns:
        the exit code.

    Raises:
        HeadwaterError: it could not begin; the status says so as well.
    """
    incarnation = str(uuid.uuid4())
    with (
        reporting_failure(carrier, incarnation),
        watched_import(settings, carrier, incarnation),
    ):
        worker = Worker(settings, carrier, incarnation)
    started(worker)
    return worker.run()


@contextlib.contextmanager
def reporting_failure(carrier: Carrier, incarnation: str | None = None) -> Iterator[None]:
    """Tell the control loop of whatever keeps a worker from beginning."""
    try:
        yield
    except HeadwaterError as error:
        failure = WorkerError(error=type(error).__name__, message=str(error))
        with contextlib.suppress(CarrierUnavailableError):
            carrier.write_status(
                WorkerStatus(incarnation=incarnation or str(uuid.uuid4()), error=failure)
            )
        raise
