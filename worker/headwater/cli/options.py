"""How options are written on the command line, for commands that share them."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import ConfigError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.model.streamapp import StreamApp


class Parser(argparse.ArgumentParser):
    """A parser that shows its own usage, not that of the whole, for an option it does not know."""

    def parse_known_args(  # type: ignore[override]  # argparse's overloads are about the namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, or end with the usage."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def add_commands(parser: argparse.ArgumentParser) -> Any:
    """Add what sub-commands are added to; without one, the help is shown, which lists them."""
    parser.set_defaults(run=partial(_without_command, parser))
    return parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)


def _without_command(parser: argparse.ArgumentParser, _: argparse.Namespace) -> int:
    parser.print_help(sys.stderr)
    return UserError.exit_code


def add_topology(parser: argparse.ArgumentParser) -> None:
    """Add which topology a command is for that runs none: a function's, or a StreamApp's."""
    parser.add_argument(
        "topology",
        nargs="?",
        metavar="MODULE:FUNCTION",
        help="for example examples.word_count.app:build; with -f instead of the StreamApp's",
    )
    parser.add_argument("-f", "--file", type=Path, help="YAML file with StreamApps")
    parser.add_argument("--app", metavar="NAME", help="which StreamApp, if the file has several")
    add_import_path(parser)


def add_stream_app(parser: argparse.ArgumentParser) -> None:
    """Add which StreamApp a command is for that runs it on Spark, and all that wins over it."""
    parser.add_argument("-f", "--file", type=Path, required=True, help="YAML file with StreamApps")
    parser.add_argument("--app", metavar="NAME", help="which StreamApp, if the file has several")
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="instead of the StreamApp's; without either it is the private Kafka of `headwater up`",
    )
    parser.add_argument("--topology", metavar="MODULE:FUNCTION", help="instead of the StreamApp's")
    parser.add_argument(
        "--kafka-dir",
        type=Path,
        metavar="DIR",
        help="where the credentials lie that spec.kafka asks for: username, password, ca.crt ...",
    )
    add_import_path_and_config(parser)
    parser.add_argument(
        "--spark-config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of Spark, such as spark.driver.memory=2g; may be repeated",
    )
    add_home(parser)


def add_home(parser: argparse.ArgumentParser) -> None:
    """Add where `headwater up` keeps its things."""
    parser.add_argument(
        "--home",
        type=Path,
        metavar="DIR",
        help="of `headwater up` (default: $HEADWATER_HOME, else ./.headwater)",
    )


def add_command_config(parser: argparse.ArgumentParser) -> None:
    """Add the client settings of a broker that asks who we are, as Kafka's tools take them."""
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="client settings for the broker of --bootstrap, a line NAME=VALUE each: "
        "security.protocol=SASL_SSL, sasl.mechanism, ssl.ca.location ...",
    )


def command_config(path: Path | None) -> dict[str, str]:
    """Return the settings in a file of properties; none without one.

    Raises:
        ConfigError: the file cannot be read, or has another form.
    """
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--command-config {path}: cannot be read: {error}") from error
    stripped = [line.strip() for line in lines]
    given = [line for line in stripped if line and not line.startswith(("#", "!"))]
    found = pairs(f"--command-config {path}: line", given, "security.protocol=SASL_SSL")
    return {name.strip(): value.strip() for name, value in found}


def add_import_path(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where topologies are imported from."""
    parser.add_argument(
        "--import-path",
        metavar="DIR",
        action="append",
        default=[],
        help="where the topology's module lies; may be repeated",
    )


def add_import_path_and_config(parser: argparse.ArgumentParser) -> None:
    """Add the options that win over the StreamApp and may be repeated."""
    add_import_path(parser)
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of Kafka Streams, instead of the StreamApp's; may be repeated",
    )


def told_of_spark(
    arguments: argparse.Namespace, app: StreamApp
) -> tuple[str | None, dict[str, str]]:
    """Return master and settings of Spark: the StreamApp's, and what the command line says wins.

    Raises:
        ConfigError: ``--spark-config`` has another form.
    """
    told = app.spec.spark
    given = dict(pairs("--spark-config", arguments.spark_config, "spark.driver.memory=2g"))
    chosen = {name: str(value) for name, value in told.config.items()} | given
    return arguments.master or told.master, chosen


def natural(text: str) -> int:
    """Return a number that an argument is to be: 0 or more.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def pairs(flag: str, given: Sequence[str], example: str) -> list[tuple[str, str]]:
    """Return what ``NAME=VALUE`` options say.

    Raises:
        ConfigError: one has another form.
    """
    found = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {text}: expected NAME=VALUE, such as {example}")
        found.append((name, value))
    return found
