"""The arguments of ``query``; what it does is in ``local.query``."""
# ruff: noqa: PLC0415  # every `headwater` command imports this module: nothing heavy at the top

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import QueryError
from headwater_operator.commands.arguments import add_app
from headwater_operator.commands.places import Here, chosen, place_of

if TYPE_CHECKING:
    import argparse

    from headwater_operator.commands.arguments import Parsers


def add_query(subparsers: Parsers[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add ``headwater query``."""
    query = subparsers.add_parser(
        "query",
        help="ask for what an application's stores hold",
        description="Ask the workers of an application for what a store holds: as of the last "
        "commit, without stopping them. The key is found wherever it is: where Kafka's partitioner "
        "does not place it, all partitions are asked.",
        epilog="Exit code 1: the store has no such key.",
    )
    query.add_argument("store", metavar="STORE")
    query.add_argument(
        "key", nargs="?", metavar="KEY", help="a number, text, or JSON, as its serde"
    )
    add_app(query, is_option=True)
    query.add_argument(
        "--range", nargs=2, metavar=("A", "B"), help="keys from A to B; '' for no bound"
    )
    query.add_argument("--prefix", metavar="P", help="keys that begin so")
    query.add_argument(
        "--window",
        nargs=2,
        metavar=("FROM", "TO"),
        help="windows that start between, in milliseconds since the epoch; of KEY, or of all keys",
    )
    query.add_argument("--sessions", action="store_true", help="the sessions of KEY")
    query.add_argument("--versions", action="store_true", help="the versions of KEY")
    query.add_argument("--as-of", metavar="MS", help="the version of KEY that was valid then")
    query.add_argument(
        "--partition", type=int, metavar="N", help="ask this one alone (default: all)"
    )
    query.add_argument("--limit", type=int, default=100, metavar="N", help="rows (default: 100)")
    query.add_argument("--descending", action="store_true", help="the largest key first")
    query.add_argument("--base64", action="store_true", help="values as base64 of their bytes")
    query.add_argument("--key-base64", action="store_true", help="keys as base64 of their bytes")
    query.add_argument("--stale", action="store_true", help="copies may answer, too")
    query.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the token that workers on a cluster may ask for (default: the Secret of "
        "spec.http.authentication)",
    )
    query.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    query.set_defaults(run=run_query)
    return query


def run_query(args: argparse.Namespace) -> int:
    """``headwater query``.

    Raises:
        QueryError: the question cannot be asked so, or does not say which application is meant.
        QueryFailedError: a partition gave no answer.
        SpecError: there is no such application.
        EnvironmentProblemError: the local cluster does not run, or a library is not installed.
        ApiUnavailableError: nothing says where the API server is, or it does not answer.
        ForbiddenError: a right is missing; the error names verb and resource.
    """
    from headwater_operator.local import query, query_workers
    from headwater_operator.local.query_asking import Question

    question = Question(
        store=args.store,
        key=args.key,
        what=_what(args),
        options=_options(args),
        limit=args.limit,
    )
    with place_of(args) as place:
        if isinstance(place, Here):
            here = query_workers.local_workers(place.cluster, args.app)
            return query.run(here, question, args.output)
        app = chosen(place, args.app)
        workers = query_workers.ClusterWorkers(
            place.client, place.namespace, app, token_file=args.token_file
        )
        return query.run(workers, question, args.output)


def _what(args: argparse.Namespace) -> str:
    wanted = {"windows": args.window, "sessions": args.sessions, "versions": args.versions}
    chosen = [what for what, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1 or (args.key is not None and (args.range or args.prefix is not None)):
        raise QueryError(
            "one question at a time: a KEY, --range, --prefix, --window, --sessions or --versions"
        )
    what = chosen[0] if chosen else "keys"
    if args.key is None and what in {"sessions", "versions"}:
        raise QueryError(f"--{what} is of one key: name it behind the store")
    return what


def _options(args: argparse.Namespace) -> dict[str, str]:
    """Return the options of HTTP that the arguments ask for."""
    first, last = args.window or args.range or ("", "")
    if args.partition is not None and args.partition < 0:
        raise QueryError(f"--partition {args.partition} is not allowed; expected 0 or more")
    options = {
        "from": first,
        "to": last,
        "prefix": args.prefix or "",
        "asOf": args.as_of or "",
        "partition": "" if args.partition is None else str(args.partition),
        "order": "descending" if args.descending else "",
        "format": "base64" if args.base64 else "",
        "keyFormat": "base64" if args.key_base64 else "",
        "requireActive": "" if args.stale else "true",
    }
    return {name: text for name, text in options.items() if text}
