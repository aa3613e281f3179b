"""What ``KafkaStreams`` asks of the program that it is embedded in."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003
from typing import Any

import cloudpickle

from headwater.errors import ConfigError, HeadwaterError, ImportPathError
from headwater.native.loading import is_loading
from headwater.native.process import is_child


def ours(error: BaseException) -> HeadwaterError:
    """Return an error of ours as it is, and any other with its name."""
    if isinstance(error, HeadwaterError):
        return error
    return HeadwaterError(f"the worker ended: {type(error).__name__}: {error}")


def pickled(build: Callable[..., Any]) -> bytes:
    """Return a function as the StreamThread processes are sent it.

    Raises:
        ImportPathError: it cannot be sent.
    """
    try:
        sent: bytes = cloudpickle.dumps(build)
    except Exception as error:
        raise ImportPathError(
            f"the function {getattr(build, '__qualname__', build)!r} cannot be sent to the "
            f"StreamThread processes: {type(error).__name__}: {error}; let it use no locks, "
            "clients or open files from outside, or name it by its import path"
        ) from error
    return sent


def check_guard() -> None:
    """Refuse where a topology is imported: children would start the application again.

    Raises:
        ConfigError: this process, or thread, imports a topology.
    """
    if is_child() or is_loading():
        raise ConfigError(
            "KafkaStreams was made while its own topology was being imported: the program's module "
            "is imported by the StreamThread processes, too. Put what starts the application under "
            '`if __name__ == "__main__":`'
        )
