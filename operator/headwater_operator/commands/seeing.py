"""The words that show something: ``status``, ``tasks``, ``lag``, ``why``."""
# ruff: noqa: PLC0415  # every command imports this module: nothing heavy at the top

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import EnvironmentProblemError
from headwater_operator.commands import completing
from headwater_operator.commands.arguments import (
    Parsers,
    add_app,
    add_output,
    natural,
    set_completer,
)
from headwater_operator.commands.output import Form, print_blocks, print_document
from headwater_operator.commands.places import chosen, place_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from headwater_operator.commands.output import Block
    from headwater_operator.overview.snapshot import Snapshot

NOT_SO = 1
"""The exit code of a question whose answer is no."""


def add_status(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``status``."""
    parser = parsers.add_parser(
        "status",
        help="show how applications are, or one in full",
        description="Show all applications in a line each, or one with its workers, the conditions "
        "that are not as they should be, and its last events.",
        epilog="Exit code 1: one of those shown does not process all that it is to.",
    )
    app = parser.add_argument(
        "app", nargs="?", metavar="APP", help="in full (default: all, in short)"
    )
    set_completer(app, completing.apps)
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="of Kubernetes, instead of one"
    )
    add_output(parser)
    parser.set_defaults(run=run_status)
    return parser


def add_tasks(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``tasks``."""
    parser = parsers.add_parser(
        "tasks",
        help="show the tasks of an application",
        description="Show every task with its worker, lag, rate, state and copies; -o wide adds "
        "committed offsets and the reason for its place.",
    )
    add_app(parser)
    add_output(parser)
    parser.set_defaults(run=run_tasks)
    return parser


def add_lag(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``lag``."""
    parser = parsers.add_parser(
        "lag",
        help="show how far an application is behind",
        description="Show lag and speed of each sub-topology.",
        epilog="Exit code 1: the lag is more than --max.",
    )
    add_app(parser)
    parser.add_argument(
        "--max", type=natural, metavar="N", help="end with exit code 1 if the lag is more"
    )
    add_output(parser)
    parser.set_defaults(run=run_lag)
    return parser


def add_why(parsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``why``."""
    parser = parsers.add_parser(
        "why",
        help="say why a task is where it is",
        description="Say where a task is and since when, the reasons for its place and those of "
        "its copies, what it waits for, and what would move it.",
        epilog="Exit code 1: the task does not run.",
    )
    task = parser.add_argument(
        "task", metavar="TASK", help="sub-topology and partition, such as 0_3"
    )
    set_completer(task, completing.tasks)
    add_app(parser, is_option=True)
    add_output(parser)
    parser.set_defaults(run=run_why)
    return parser


def run_status(args: argparse.Namespace) -> int:
    """``status``.

    Raises:
        SpecError: there is no such application.
        KubeApiError: the API server refuses, or does not answer.
    """
    from headwater_operator.commands import showing

    form = Form(args.output)
    with place_of(args) as place:
        if args.app is not None:
            found = place.look(args.app)
            _show(found, form, showing.status)
            return 0 if found.is_ready else NOT_SO
        fleet, where = place.fleet(), place.name
    if form.is_document:
        from headwater_operator.overview.document import document

        print_document([document(one) for one in fleet], form)
    elif fleet:
        print_blocks(showing.fleet(fleet), form)
    else:
        print_blocks([showing.nothing_here(where)])
    return 0 if all(one.is_ready for one in fleet) else NOT_SO


def run_tasks(args: argparse.Namespace) -> int:
    """``tasks``.

    Raises:
        SpecError: there is no such application.
        UserError: none is named, and there are several.
        KubeApiError: the API server refuses, or does not answer.
    """
    from headwater_operator.commands import showing

    with place_of(args) as place:
        found = place.look(chosen(place, args.app))
    _show(found, Form(args.output), showing.tasks)
    return 0


def run_lag(args: argparse.Namespace) -> int:
    """``lag``.

    Raises:
        SpecError: there is no such application.
        UserError: none is named, and there are several.
        EnvironmentProblemError: the lag of a task is not known, and --max asks for it.
        KubeApiError: the API server refuses, or does not answer.
    """
    from headwater_operator.commands import showing

    with place_of(args) as place:
        found = place.look(chosen(place, args.app))
    _show(found, Form(args.output), showing.lag)
    if args.max is None:
        return 0
    unknown = [str(row.task) for row in found.tasks if row.lag is None]
    if not found.tasks or unknown or found.unassigned:
        which = ", ".join(unknown) or "its tasks"
        raise EnvironmentProblemError(
            f"{found.app}: the lag of {which} is not known, so --max {args.max} cannot be "
            f"answered; the command status {found.app} says what is missing"
        )
    return 0 if found.lag <= args.max else NOT_SO


def run_why(args: argparse.Namespace) -> int:
    """``why``.

    Raises:
        SpecError: there is no such application or task.
        UserError: no application is named, and there are several.
        KubeApiError: the API server refuses, or does not answer.
    """
    from headwater_operator.commands import showing
    from headwater_operator.overview.document import as_json
    from headwater_operator.overview.reasons import explain, task_named

    task = task_named(args.task)
    with place_of(args) as place:
        told = explain(place.look(chosen(place, args.app)), task)
    form = Form(args.output)
    if form.is_document:
        print_document(as_json(told), form)
    else:
        print_blocks(showing.why(told), form)
    return NOT_SO if told.waits_for else 0


def _show(found: Snapshot, form: Form, blocks: Callable[[Snapshot], list[Block]]) -> None:
    if form.is_document:
        from headwater_operator.overview.document import document

        shown: Any = document(found)
        print_document(shown, form)
    else:
        print_blocks(blocks(found), form)
