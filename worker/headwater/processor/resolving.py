"""From references in the configuration to the objects they name: serdes, handlers, extractors."""

from __future__ import annotations

import importlib
from typing import Any

from headwater.errors import ConfigError
from headwater.serde import Serde, Serdes


def resolve(option: str, reference: object) -> Any:
    """Return the object behind ``"module:attribute"``; anything but a text is the object itself.

    Args:
        option: the configuration option, for messages.
        reference: what the configuration holds.

    Raises:
        ConfigError: the module cannot be imported or has no such attribute.
    """
    if not isinstance(reference, str):
        return reference
    module_name, _, path = reference.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except Exception as error:
        raise ConfigError(f"{option}: cannot import {reference!r}: {error}") from error
    return found


def resolve_serde(option: str, reference: object) -> Serde[Any] | None:
    """Return a serde by built-in name, by ``"module:attribute"``, or as given.

    Raises:
        ConfigError: it cannot be imported or is not a serde.
    """
    if reference is None:
        return None
    if isinstance(reference, str) and ":" not in reference:
        try:
            return Serdes.by_name(reference)
        except KeyError as error:
            raise ConfigError(f"{option}: {error.args[0]}") from None
    found = resolve(option, reference)
    serde = found() if isinstance(found, type) else found
    if not isinstance(serde, Serde):
        raise ConfigError(f"{option}: {reference!r} is {serde!r}, not a Serde")
    return serde
