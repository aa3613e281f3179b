"""The command ``headwater``: finds the sub-commands, runs one, turns our errors into exit codes.

A sub-command is a function ``register(subparsers)`` that adds a parser and sets its default ``run``
to a function that takes the parsed arguments and returns the exit code. Ours are listed in
``BUILTIN``; other packages offer theirs through the entry-point group ``headwater.commands``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

from headwater.cli.options import add_commands
from headwater.exitcodes import exit_code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # Python's documentation offers no public name for what add_subparsers() returns.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001
    Register = Callable[[Subparsers], None]

# Modules named here import nothing heavy at the top: `headwater --help` imports them all.
BUILTIN = (
    "headwater.cli.backfill:register",
    "headwater.cli.describe:register",
    "headwater.cli.journey:register",
    "headwater.cli.diff:register",
    "headwater.cli.explain:register",
    "headwater.cli.kafka:register",
    "headwater.cli.lag:register",
    "headwater.cli.plan:register",
    "headwater.cli.spark:register",
    "headwater.cli.worker:register",
)
_COMPLETION = "_ARGCOMPLETE"
ENTRY_POINT_GROUP = "headwater.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""

    def run() -> int:
        parser = build_parser()
        if _COMPLETION in os.environ:
            _complete(parser)
        parsed = parser.parse_args(arguments)
        command: Callable[[Any], int] = parsed.run
        return command(parsed)

    return exit_code_of(run)


def _complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asks what a word may be completed to, and end; nothing if we cannot."""
    with suppress(ModuleNotFoundError):
        argcomplete = importlib.import_module("argcomplete")
        argcomplete.autocomplete(parser, always_complete_options=False)


def build_parser() -> argparse.ArgumentParser:
    """The parser with every sub-command that can be loaded."""
    parser = argparse.ArgumentParser(
        prog="headwater", description="Kafka Streams applications in Python, on Kubernetes"
    )
    parser.add_argument(
        "--version", action="version", version=f"headwater {metadata.version('headwater')}"
    )
    subparsers = add_commands(parser)
    for target in BUILTIN:
        module, _, function = target.partition(":")
        getattr(importlib.import_module(module), function)(subparsers)
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        _register_plugin(entry_point, subparsers)
    return parser


def _register_plugin(
    entry_point: metadata.EntryPoint,
    subparsers: Subparsers,
) -> None:
    try:
        register: Register = entry_point.load()
    except ImportError as error:
        # A broken plug-in must not take the other commands away.
        sys.stderr.write(f"warning: commands of {entry_point.value} are not available: {error}\n")
        return
    register(subparsers)


if __name__ == "__main__":
    sys.exit(main())
