"""``headwater lag`` and ``headwater groups``: how far applications are behind, and who reads."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from headwater.cli import localapps, streamapps
from headwater.cli.options import add_command_config, add_home, command_config, natural
from headwater.errors import HeadwaterError, UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from headwater.config import StreamsConfig
    from headwater.kafka.access import Access
    from headwater.model.topics import TopologyReport

_EVERY_S: Final = 2.0
_CLEAR: Final = "\033[H\033[J"


def register(subparsers: Any) -> None:
    """Add the sub-commands."""
    lag = subparsers.add_parser(
        "lag",
        help="show how far applications are behind",
        description="Show committed offset, end and lag of every input partition of the "
        "applications of `headwater up`. With --bootstrap, APP may be any consumer group, such as "
        "the application id of a StreamApp on a cluster.",
    )
    lag.add_argument("app", nargs="?", metavar="APP", help="default: all")
    lag.add_argument(
        "--max", type=natural, metavar="N", help="end with exit code 1 if the lag is more"
    )
    lag.set_defaults(run=run_lag)
    groups = subparsers.add_parser(
        "groups",
        help="show the consumer groups of applications",
        description="Show state, engine and members of the consumer groups of the applications of "
        "`headwater up`; with --bootstrap, of all groups there. Workers of Headwater are no "
        "members: who is one is another application.",
    )
    groups.set_defaults(run=run_groups)
    for parser, forms in ((lag, ("table", "wide", "json", "yaml")), (groups, ("table", "json"))):
        parser.add_argument(
            "--bootstrap", metavar="HOST:PORT", help="a broker, instead of the StreamApps'"
        )
        add_command_config(parser)
        add_home(parser)
        parser.add_argument("-o", "--output", choices=forms, default="table")
        parser.add_argument(
            "--watch", action="store_true", help=f"again every {_EVERY_S:.0f} s, until Ctrl-C"
        )


def run_lag(arguments: argparse.Namespace) -> int:
    """``headwater lag``; return 1 if the lag is more than ``--max``.

    Raises:
        UserError: there is no application, or ``--command-config`` comes without a broker.
        SpecError: there is no such application, or a file is damaged.
        ConfigError: a value of a configuration is wrong.
        ImportPathError: a topology cannot be imported.
        TopologyError: a topology breaks a rule.
        TopicError: topics do not fit the topology.
        LocalKafkaError: the private Kafka cannot be started.
        KafkaUnavailableError: nobody answered.
        KafkaAuthError: the broker refuses the credentials or the operation.
    """
    from headwater.kafka.lags import lags_of, with_oldest  # noqa: PLC0415 - keeps help fast
    from headwater.model import lags  # noqa: PLC0415

    root = streamapps.home_of(arguments.home)
    chosen = _chosen(root, arguments.app, arguments.bootstrap)
    settings = _settings(arguments)
    with localapps.broker_of(root, chosen, arguments.bootstrap) as address:
        asked: list[tuple[Access, str, TopologyReport | None]] = []
        for app in chosen.values():
            config = app.config(address, settings)
            group = config.application_id
            asked.append((_access(config), group, app.topology(address).report(group)))
        if not chosen:
            assert address is not None
            asked.append((_access(_bare(address, arguments.app, settings)), arguments.app, None))

        total = 0

        def show() -> str:
            nonlocal total
            found = [(of, with_oldest(a, lags_of(a, of, report))) for a, of, report in asked]
            total = sum(lags.total_of(rows) for _, rows in found)
            if arguments.output in ("json", "yaml"):
                return _document([lags.document(*one) for one in found], arguments.output)
            now_ms = int(time.time() * 1000)
            return "\n\n".join(
                "\n".join([f"group {group}", *lags.table(rows, now_ms)]) for group, rows in found
            )

        _shown(show, is_watched=arguments.watch)
    return 0 if arguments.max is None or total <= arguments.max else 1


def run_groups(arguments: argparse.Namespace) -> int:
    """``headwater groups``.

    Raises:
        UserError: there is no application, or ``--command-config`` comes without a broker.
        SpecError: a file is damaged.
        ConfigError: a value of a configuration is wrong.
        LocalKafkaError: the private Kafka cannot be started.
        KafkaUnavailableError: nobody answered.
        KafkaAuthError: the broker refuses the credentials or the operation.
    """
    from headwater.kafka.lags import FoundGroup, groups_of  # noqa: PLC0415 - keeps help fast
    from headwater.model.tables import aligned  # noqa: PLC0415

    root = streamapps.home_of(arguments.home)
    apps = localapps.of_home(root)
    settings = _settings(arguments)
    if not apps and arguments.bootstrap is None:
        raise _nothing_there(root)
    with localapps.broker_of(root, apps, arguments.bootstrap) as address:
        accesses = {name: _access(app.config(address, settings)) for name, app in apps.items()}
        by_id = {access.config.application_id: name for name, access in accesses.items()}

        def document() -> list[dict[str, Any]]:
            found: dict[str, FoundGroup] = {}
            asked = list(accesses.values()) or [_access(_bare(str(address), "headwater", settings))]
            for access in asked:
                found |= {one.group: one for one in groups_of(access)}
            wanted = sorted(found.keys() | by_id) if arguments.bootstrap else sorted(by_id)
            return [
                {
                    "group": group,
                    "app": by_id.get(group),
                    "engine": _engine(accesses[by_id[group]]) if group in by_id else None,
                    "state": found[group].state if group in found else "None",
                    "members": list(found[group].members) if group in found else [],
                }
                for group in wanted
            ]

        def show() -> str:
            if arguments.output == "json":
                return json.dumps(document(), indent=2)
            rows = [
                (
                    one["group"],
                    one["app"] or "-",
                    one["engine"] or "-",
                    one["state"],
                    ", ".join(one["members"]) or "-",
                )
                for one in document()
            ]
            return "\n".join(aligned([("GROUP", "APP", "ENGINE", "STATE", "MEMBERS"), *rows]))

        _shown(show, is_watched=arguments.watch)
    return 0


def _document(found: Sequence[Mapping[str, Any]], form: str) -> str:
    if form == "json":
        return json.dumps(found, indent=2)
    import yaml  # noqa: PLC0415 - it takes time to load

    text: str = yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
    return text.rstrip()


def _chosen(root: Path, name: str | None, bootstrap: str | None) -> dict[str, localapps.LocalApp]:
    """Return the applications that are meant; none for a group that is not ours."""
    known = localapps.of_home(root)
    if name is None:
        if not known:
            raise _nothing_there(root)
        return known
    if name in known or bootstrap is None:
        return {name: localapps.named(root, name)}
    return {}


def _nothing_there(root: Path) -> UserError:
    return UserError(
        f"there are no applications in {root}; start one (headwater up -f FILE), name its "
        "directory with --home, or a broker with --bootstrap and a group"
    )


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Return what ``--command-config`` says of the broker of ``--bootstrap``."""
    if arguments.command_config is not None and arguments.bootstrap is None:
        raise UserError("--command-config is for the broker of --bootstrap HOST:PORT; name it, too")
    return command_config(arguments.command_config)


def _bare(address: str, group: str, settings: Mapping[str, str]) -> StreamsConfig:
    from headwater.config import StreamsConfig  # noqa: PLC0415 - keeps help fast

    return StreamsConfig.parse({**settings, "application.id": group, "bootstrap.servers": address})


def _access(config: StreamsConfig) -> Access:
    from headwater.kafka.access import Access  # noqa: PLC0415 - keeps help fast

    return Access.of(config, client_id=f"{config.application_id}-tools")


def _engine(access: Access) -> str:
    from headwater.kafka.engine import EngineRecords  # noqa: PLC0415 - keeps help fast

    try:
        return EngineRecords(access).read().engine.value
    except HeadwaterError as error:
        return f"unknown ({type(error).__name__})"


def _shown(show: Callable[[], str], *, is_watched: bool) -> None:
    """Print once, or again and again; on a terminal in place."""
    while True:
        text = show()
        is_terminal = is_watched and sys.stdout.isatty()
        sys.stdout.write(f"{_CLEAR if is_terminal else ''}{text}\n")
        sys.stdout.flush()
        if not is_watched:
            return
        time.sleep(_EVERY_S)
