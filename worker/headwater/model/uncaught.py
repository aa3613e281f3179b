"""What becomes of an application when one of its StreamThreads ends with an error (KIP-671)."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from headwater.references import REPLACE_THREAD, SHUTDOWN_APPLICATION, SHUTDOWN_CLIENT


class StreamThreadExceptionResponse(StrEnum):
    """The answer of a handler (``StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse``).

    Its values are the names of the built-in handlers, which always answer the same.
    """

    REPLACE_THREAD = REPLACE_THREAD
    """Another StreamThread goes on from the last commit."""
    SHUTDOWN_CLIENT = SHUTDOWN_CLIENT
    """This worker, or embedded application, ends in the state ERROR."""
    SHUTDOWN_APPLICATION = SHUTDOWN_APPLICATION
    """All workers of the application end."""


class StreamsUncaughtExceptionHandler(Protocol):
    """Decides about an error that has ended a StreamThread, after all other handlers."""

    def __call__(self, exception: Exception) -> StreamThreadExceptionResponse:
        """Answer for ``exception``, a ``HeadwaterError``; its cause is what user code raised."""
        ...
