"""``headwater web`` and ``kubectl headwater web``: the page for what runs already."""
# ruff: noqa: PLC0415  # every `headwater` command imports this module: nothing heavy at the top

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import UserError
from headwater_operator.commands import changing
from headwater_operator.commands.places import OnCluster, place_of
from headwater_operator.web.starting import WebOptions, add_token_arguments

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from headwater_operator.commands.arguments import Parsers
    from headwater_operator.web.cluster import ClusterSource

_CLUSTER_LOOK_S = 2.0


def add_web(subparsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the word."""
    web = subparsers.add_parser(
        "web",
        help="serve a page that shows what runs",
        description="Serve a page that shows applications: their topologies, workers, tasks, time "
        "series and decisions. It runs until Ctrl-C. What it shows of a cluster, and may do there, "
        "is up to the rights of whoever starts it.",
    )
    web.add_argument(
        "--web",
        default="",
        dest="address",
        metavar="HOST:PORT",
        help="where it listens (default: 127.0.0.1:8780; port 0 picks a free one)",
    )
    web.add_argument(
        "-A", "--all-namespaces", action="store_true", help="StreamApps of all namespaces"
    )
    add_token_arguments(web)
    web.set_defaults(run=run_web)
    return web


def run_web(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from headwater_operator.local import web

    options = WebOptions(args.address, args.web_token_file, tuple(args.web_host_name))
    with place_of(args) as place:
        if isinstance(place, OnCluster):
            source = source_of(place, is_everywhere=args.all_namespaces)
            # The API server passes on each question to a worker: fewer looks than at this machine.
            options = options._replace(look_s=_CLUSTER_LOOK_S)
            return web.serve_until_interrupted(source, options, place.name, watched=1)
        return web.serve(place.cluster, options)


def source_of(place: OnCluster, *, is_everywhere: bool) -> ClusterSource:
    """Return what the page shows of a cluster, with the rights of whoever starts it."""
    from headwater_operator.observe.proxied import ProxiedNumbers
    from headwater_operator.web.cluster import ClusterSource
    from headwater_operator.web.scraping import ProxiedScraper

    client = place.client

    def act(namespace: str, name: str, action: str, body: Mapping[str, Any]) -> str:
        return _act(OnCluster(client, namespace), name, action, body)

    return ClusterSource(
        client,
        [None] if is_everywhere else [place.namespace],
        numbers=lambda namespace: ProxiedNumbers(client, namespace),
        scraper=lambda namespace: ProxiedScraper(client, namespace),
        act=act,
    )


def _act(place: OnCluster, name: str, action: str, body: Mapping[str, Any]) -> str:
    actions: Mapping[str, Callable[[], object]] = {
        "pause": lambda: changing.pause(place, name, paused=True),
        "resume": lambda: changing.pause(place, name, paused=False),
        "scale": lambda: changing.scale(place, name, replicas_of(body), None),
    }
    if action not in actions:
        raise UserError(f"there is no action {action!r}: {', '.join(actions)}")
    actions[action]()
    return f"{name}: asked to {action}"


def replicas_of(body: Mapping[str, Any]) -> int:
    """Return the number of workers that is asked for.

    Raises:
        UserError: it is none.
    """
    replicas = body.get("replicas")
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise UserError(f"replicas: {replicas!r} is no whole number")
    return replicas
