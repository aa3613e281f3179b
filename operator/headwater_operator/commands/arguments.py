"""Arguments that several words share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headwater_operator.commands import completing
from headwater_operator.commands.output import Form
from headwater_operator.local import on_cluster
from headwater_operator.local.layout import HOME_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

Parsers = argparse._SubParsersAction  # noqa: SLF001  # argparse has no public name for it


def add_place(parser: argparse.ArgumentParser, *, is_plugin: bool) -> None:
    """Add where the application is.

    Args:
        parser: of a word.
        is_plugin: of ``kubectl headwater``, which knows clusters only.
    """
    parser.set_defaults(is_plugin=is_plugin)
    if not is_plugin:
        parser.add_argument(
            "--home",
            type=Path,
            metavar="DIR",
            help=f"the local cluster's directory (default: ${HOME_VARIABLE}, else ./.headwater)",
        )
    on_cluster.add_arguments(parser)


def add_app(
    parser: argparse.ArgumentParser, *, is_option: bool = False, is_optional: bool = True
) -> None:
    """Add which application is meant.

    Args:
        parser: of a word.
        is_option: ``--app``, where something else is named first.
        is_optional: without it, the only one is meant.
    """
    said = "the application (default: the only one)" if is_optional else "the application"
    if is_option:
        action = parser.add_argument("--app", metavar="APP", help=said)
    else:
        count = "?" if is_optional else None
        action = parser.add_argument("app", metavar="APP", nargs=count, help=said)
    set_completer(action, completing.apps)


def set_completer(action: argparse.Action, completer: Callable[..., list[str]]) -> None:
    """Say what a shell may complete an argument to; argcomplete looks for it there."""
    action.completer = completer  # type: ignore[attr-defined]


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add the form of the answer.

    Args:
        parser: of a word.
        more: forms beside those of all words; the first is the default.
    """
    choices = (*more, *(form.value for form in Form if not more or form.is_document))
    parser.add_argument(
        "-o",
        "--output",
        choices=choices,
        default=choices[0],
        help="default: %(default)s",
    )


def natural(text: str) -> int:
    """Return a number that an argument is to be: 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)
