"""Completion of words and names in shells.

``headwater completion SHELL`` prints what a shell has to read for ``headwater``. ``kubectl`` asks
the program ``kubectl_complete-headwater``, whose answer is a line each, and a number last that says
how to go on (cobra's ``ShellCompDirective``).
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.errors import EnvironmentProblemError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from headwater_operator.commands.arguments import Parsers

SHELLS: Final = ("bash", "zsh", "fish")
_NO_FILES: Final = 4
"""``ShellCompDirectiveNoFileComp``: names of files are no answer."""
_BREAK: Final = "\v"


def add_completion(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``completion``."""
    parser = parsers.add_parser(
        "completion",
        help="print what a shell needs to complete commands and names",
        description="Print what a shell needs to complete commands and names. For bash: "
        "source <(headwater completion bash). kubectl headwater needs no more than "
        "kubectl_complete-headwater on the path, which comes with it.",
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run_completion)
    return parser


def run_completion(args: argparse.Namespace) -> int:
    """``headwater completion``.

    Raises:
        EnvironmentProblemError: argcomplete is not installed.
    """
    try:
        from argcomplete.shell_integration import shellcode  # noqa: PLC0415 - it is an extra's
    except ModuleNotFoundError as error:
        raise EnvironmentProblemError(
            "completion needs argcomplete: pip install 'headwater[local]'"
        ) from error
    sys.stdout.write(shellcode(["headwater"], shell=args.shell))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer ``kubectl``: the words so far, the last of which may be incomplete or empty."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for completion in completions(words):
        sys.stdout.write(f"{completion}\n")
    sys.stdout.write(f":{_NO_FILES}\n")
    return 0


def completions(words: Sequence[str]) -> list[str]:
    """Return what the last word may be completed to.

    Args:
        words: behind ``kubectl headwater``.
    """
    try:
        from argcomplete.finders import CompletionFinder  # noqa: PLC0415 - it is an extra's
    except ModuleNotFoundError:
        return []
    from headwater_operator.commands.plugin import build_parser  # noqa: PLC0415 - a circle

    *whole, last = words or [""]
    line = shlex.join(["kubectl-headwater", *whole]) + " " + last
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": _BREAK,
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line.encode())),
        "COMP_TYPE": "",
    }
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)
    answer = io.StringIO()
    try:
        CompletionFinder()(
            build_parser(),
            always_complete_options=False,
            exit_method=_done,
            output_stream=answer,
        )
    except _DoneError:
        pass
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return [text for text in answer.getvalue().split(_BREAK) if text]


class _DoneError(Exception):
    """argcomplete has answered; it would end the process."""


def _done(_code: int = 0) -> NoReturn:
    raise _DoneError
