"""How a program ends: our errors, signals and closed pipes as exit codes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from headwater.errors import EnvironmentProblemError, HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Callable

_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141


def exit_code_of(run: Callable[[], int]) -> int:
    """Run a command; return its exit code, or that of the error with which it ends.

    Args:
        run: the command. Errors that are not ours go through.
    """
    try:
        return run()
    except HeadwaterError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Who read our output has had enough (`headwater get | head`); nothing is left to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            raise
        sys.stderr.write(
            f"error: cannot use {error.filename}: {error.strerror}; check that it is what the "
            "command needs and that you may use it, or name another place\n"
        )
        return EnvironmentProblemError.exit_code
