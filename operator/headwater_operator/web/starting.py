"""Starts the page from a command's options: the address, the token, the extra that it needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import ConfigError, EnvironmentProblemError

if TYPE_CHECKING:
    import argparse

    from headwater_operator.web.routes import Source
    from headwater_operator.web.serving import Server

TOKEN_VARIABLE: Final = "HEADWATER_WEB_TOKEN"  # noqa: S105 - the name of a variable
_LEAST_TOKEN: Final = 16


class WebOptions(NamedTuple):
    """How a page is served.

    Attributes:
        address: ``HOST:PORT``, ``PORT``, or empty for the default.
        token_file: holds the token with which it may change something.
        names: by which browsers may call this host.
        look_s: between two looks at an application.
        most: applications that are looked at, at the same time.
        keep_s: how long an application is looked at after the last browser has left it.
    """

    address: str
    token_file: Path | None = None
    names: tuple[str, ...] = ()
    look_s: float = 1.0
    most: int = 50
    keep_s: float = 3_600


def add_token_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what the page may do, and by which names it is called."""
    parser.add_argument(
        "--web-token-file",
        type=Path,
        metavar="FILE",
        help="let the page pause, resume and scale for those who enter the token in this file (or "
        f"in ${TOKEN_VARIABLE}); without one it only shows",
    )
    parser.add_argument(
        "--web-host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which browsers reach the page, besides localhost and addresses; repeatable",
    )


def token_of(file: Path | None) -> str:
    """Return the token with which the page may change something; empty if there is none.

    Args:
        file: holds it; without one the environment may.

    Raises:
        ConfigError: the file cannot be read, or the token is too short to be one.
    """
    if file is None:
        token, where = os.environ.get(TOKEN_VARIABLE, "").strip(), f"${TOKEN_VARIABLE}"
    else:
        try:
            token, where = file.read_text(encoding="utf-8").strip(), str(file)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the page's token cannot be read from {file}: {error}") from error
        if not token:
            raise ConfigError(f"the page's token file {file} is empty: put a token in it")
    if token and len(token) < _LEAST_TOKEN:
        raise ConfigError(
            f"the page's token in {where} has fewer than {_LEAST_TOKEN} characters and could be "
            "guessed; make one with: openssl rand -hex 16"
        )
    return token


def server_of(source: Source, options: WebOptions) -> Server:
    """Return the server of a page, bound to its port and not started.

    Args:
        source: what there is to see.
        options: how it is served.

    Raises:
        EnvironmentProblemError: the extra is not installed.
        ConfigError: address, port or token cannot be used.
    """
    try:
        from headwater_operator.web.routes import Page  # noqa: PLC0415 - an extra
        from headwater_operator.web.serving import Server, address_of  # noqa: PLC0415
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise EnvironmentProblemError(
            f"the page needs {missing}: pip install 'headwater[web]'"
        ) from error
    host, port = address_of(options.address)
    token = token_of(options.token_file)
    page = Page(
        source,
        token=token,
        names=options.names,
        look_s=options.look_s,
        most=options.most,
        keep_s=options.keep_s,
    )
    return Server(page, host, port)
