"""``kubectl headwater``: the program that ``kubectl`` finds as a plug-in."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from headwater.exitcodes import exit_code_of
from headwater.version import VERSION
from headwater_operator.commands import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EPILOG = (
    "Exit codes: 0 done, or the answer is yes; 1 the answer is no; 2 wrong input; 3 something "
    "around it: the API server, a missing right, a worker that does not answer."
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every word."""
    parser = argparse.ArgumentParser(
        prog="kubectl headwater",
        description="See and operate Kafka Streams applications in Python on a cluster",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"kubectl-headwater {VERSION}")
    words.register_plugin(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""

    def run() -> int:
        parsed = build_parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = parsed.run
        return command(parsed)

    return exit_code_of(run)


if __name__ == "__main__":
    sys.exit(main())
