"""All words: for ``headwater``, and for ``kubectl headwater``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headwater.errors import UserError
from headwater_operator.commands import acting, doing, seeing
from headwater_operator.commands.arguments import Parsers, add_place
from headwater_operator.commands.completion import add_completion
from headwater_operator.commands.query_command import add_query
from headwater_operator.commands.report_command import add_report
from headwater_operator.commands.topology import add_topology
from headwater_operator.commands.web_command import add_web
from headwater_operator.local import on_cluster

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_WORDS = (
    seeing.add_status,
    seeing.add_tasks,
    seeing.add_why,
    acting.add_move,
    acting.add_drain,
    acting.add_restart,
    add_topology,
    doing.add_scale,
    doing.add_pause,
    doing.add_resume,
    doing.add_reset,
    doing.add_logs,
    add_query,
    add_report,
    add_web,
)
"""Those that are the same in both."""


def register(subparsers: Parsers[argparse.ArgumentParser]) -> None:
    """Add the words to ``headwater``, where they are about this machine unless told otherwise."""
    for add in _WORDS:
        add_place(add(subparsers), is_plugin=False)
    _extend_lag(subparsers.choices["lag"])
    add_completion(subparsers)


def register_plugin(subparsers: Parsers[argparse.ArgumentParser]) -> None:
    """Add the words to ``kubectl headwater``, where they are about a cluster."""
    for add in (*_WORDS, seeing.add_lag):
        add_place(add(subparsers), is_plugin=True)


def _extend_lag(parser: argparse.ArgumentParser) -> None:
    """Have ``headwater lag`` tell of StreamApps on a cluster, too: here it asks Kafka itself."""
    here: Callable[[argparse.Namespace], int] = parser.get_default("run")
    on_cluster.add_arguments(parser)
    parser.set_defaults(run=partial(_run_lag, here))


def _run_lag(here: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    if not on_cluster.is_meant(args):
        return here(args)
    asks_kafka = {
        "--bootstrap": args.bootstrap,
        "--command-config": args.command_config,
        "--watch": args.watch or None,
    }
    if given := [option for option, value in asks_kafka.items() if value is not None]:
        raise UserError(
            f"{', '.join(given)}: only for what Kafka itself is asked. Leave it out, or leave out "
            "--namespace, --context and --kubeconfig and name the application id with --bootstrap"
        )
    return seeing.run_lag(args)
