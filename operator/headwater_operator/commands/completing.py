"""What a shell may complete arguments to: the names of what is there now.

Whatever goes wrong, nothing is offered: a person who presses Tab has asked for no error.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from headwater_operator.commands.places import Here, OnCluster
    from headwater_operator.overview.snapshot import Snapshot


def apps(*, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the applications."""
    return _asked(parsed_args, lambda place: list(place.names()))


def tasks(*, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the tasks of the application."""
    return _of_the_app(parsed_args, lambda found: [str(row.task) for row in found.tasks])


def workers(*, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the workers of the application."""
    return _of_the_app(parsed_args, lambda found: [row.name for row in found.workers])


def _of_the_app(args: argparse.Namespace, names: Callable[[Snapshot], list[str]]) -> list[str]:
    from headwater_operator.commands.places import chosen  # noqa: PLC0415 - a circle

    app = getattr(args, "app", None)
    return _asked(args, lambda place: names(place.look(chosen(place, app))))


def _asked(args: argparse.Namespace, ask: Callable[[Here | OnCluster], list[str]]) -> list[str]:
    from headwater_operator.commands.places import place_of  # noqa: PLC0415 - a circle

    with suppress(Exception), place_of(args) as place:
        return ask(place)
    return []
