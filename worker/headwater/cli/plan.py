"""``headwater plan``: how many workers an application needs, how much memory, disk and network."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from headwater.cli import streamapps
from headwater.cli.options import add_topology
from headwater.errors import UserError
from headwater.model.capacity import MARGIN, Application, Asked, plan

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.model.capacity import Plan
    from headwater.model.streamapp import StreamApp
    from headwater.model.topology import Topology


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "plan",
        help="estimate workers, memory, disk and network",
        description=(
            "Estimate what an application needs, from its topology and measured constants. "
            "Nothing is run, and Kafka is not asked."
        ),
    )
    add_topology(parser)
    parser.add_argument(
        "--rate", type=_more_than(0.0), required=True, help="input records per second, in all"
    )
    parser.add_argument(
        "--keys",
        type=_whole(0),
        required=True,
        help="rows of each store: keys, and for windows keys times windows that are kept",
    )
    parser.add_argument("--key-bytes", type=_whole(0), default=20, help="default: 20")
    parser.add_argument("--value-bytes", type=_whole(0), default=100, help="default: 100")
    parser.add_argument(
        "--function-us",
        type=_more_than(-1.0),
        default=0.0,
        help="microseconds that your own functions take for a record (default: 0)",
    )
    parser.add_argument(
        "--partitions",
        type=_whole(1),
        default=0,
        help="of input topics that spec.kafka.topics does not list",
    )
    parser.add_argument("--replication", type=_whole(1), default=3, help="default: 3")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the estimate and return the exit code.

    Raises:
        UserError: nobody says how many partitions a topic has.
    """
    topology, app = streamapps.topology_asked_for(arguments)
    application = _application(topology, app)
    _check_partitions(application, arguments.partitions)
    asked = Asked(
        rate=arguments.rate,
        keys=arguments.keys,
        key_bytes=arguments.key_bytes,
        value_bytes=arguments.value_bytes,
        function_us=max(0.0, arguments.function_us),
        partitions=arguments.partitions,
        replication=arguments.replication,
    )
    found = plan(application, asked)
    if arguments.output == "json":
        print(json.dumps(dataclasses.asdict(found), indent=2))
    else:
        _print(found)
    return 0


def _application(topology: Topology, app: StreamApp | None) -> Application:
    if app is None:
        return Application(report=topology.report("app"))
    config = _config(app)
    return Application(
        report=topology.report(app.application_id),
        partitions={topic.name: topic.partitions for topic in app.spec.kafka.topics},
        threads=app.spec.threads_per_worker,
        standbys=app.spec.assignment.standby_replicas,
        is_exactly_once=app.is_exactly_once,
        cache_bytes=config.statestore_cache_max_bytes,
        commit_s=config.commit_interval_ms / 1000,
    )


def _config(app: StreamApp) -> StreamsConfig:
    from headwater.config import StreamsConfig  # noqa: PLC0415 - keeps help fast
    from headwater.service.settings import config_of  # noqa: PLC0415

    given = config_of(streamapps.without_credentials(app), {})
    # No broker is asked; one has to be named all the same.
    return StreamsConfig.parse({"bootstrap.servers": "localhost:9092", **given})


def _check_partitions(application: Application, given: int) -> None:
    topics = {topic for each in application.report.subtopologies for topic in each.source_topics}
    if unknown := sorted(topics - application.partitions.keys()):
        if given:
            return
        raise UserError(
            f"the number of partitions is not known of: {', '.join(unknown)}; give --partitions, "
            "or list topics in spec.kafka.topics"
        )


def _print(found: Plan) -> None:
    wide = max(len(row.what) for row in found.rows)
    much = max(len(row.amount) for row in found.rows)
    for row in found.rows:
        print(f"{row.what:<{wide}}  {row.amount:>{much}}  {row.why}")
    if not found.is_enough:
        print(
            f"\nThe {found.tasks} tasks are too few for this rate: a task has one StreamThread. "
            "Give the input topics more partitions."
        )
    print(
        f"\nMeasured on the machine of benchmarks/RESULTS.md, with a margin of {MARGIN}. See "
        "docs/capacity.md."
    )


def _whole(least: int) -> Any:
    def parse(text: str) -> int:
        try:
            found = int(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
        if found < least:
            raise argparse.ArgumentTypeError(f"expected at least {least}, got {text!r}")
        return found

    return parse


def _more_than(limit: float) -> Any:
    def parse(text: str) -> float:
        try:
            found = float(text.replace(",", "").replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None
        if not limit < found < 1e15:
            raise argparse.ArgumentTypeError(f"expected a number above {limit:g}, got {text!r}")
        return found

    return parse
