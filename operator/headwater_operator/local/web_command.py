"""The arguments of ``headwater web``: the page for what runs already."""
# ruff: noqa: PLC0415  # every `headwater` command imports this module: nothing heavy at the top

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headwater_operator.web.starting import add_token_arguments

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


class WebOptions(NamedTuple):
    """How a page is served.

    Attributes:
        address: ``HOST:PORT``, ``PORT``, or empty for the default.
        token_file: holds the token with which it may change something.
        names: by which browsers may call this host.
    """

    address: str
    token_file: Path | None = None
    names: tuple[str, ...] = ()


def add_web(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add the sub-command."""
    web = subparsers.add_parser(
        "web",
        help="serve a page that shows what runs",
        description="Serve a page that shows the applications of the cluster in this directory: "
        "their topologies, workers, tasks, time series and decisions. It runs until Ctrl-C.",
    )
    web.add_argument(
        "--web",
        default="",
        dest="address",
        metavar="HOST:PORT",
        help="where it listens (default: 127.0.0.1:8780; port 0 picks a free one)",
    )
    add_token_arguments(web)
    web.set_defaults(run=run_web)
    return web


def run_web(args: argparse.Namespace) -> int:
    """``headwater web``."""
    from headwater_operator.local import web
    from headwater_operator.local.layout import ClusterDir, default_root

    root = default_root() if args.home is None else args.home.absolute()
    options = WebOptions(args.address, args.web_token_file, tuple(args.web_host_name))
    return web.serve(ClusterDir(root), options)
