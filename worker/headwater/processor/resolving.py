"""From references in the configuration to the objects they name: serdes, handlers, extractors."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headwater.errors import ConfigError
from headwater.serde import Serde, Serdes

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.model.stores import StoreSpec

Half: TypeAlias = Literal["key", "value"]
"""Which half of a record a serde is for."""


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


def find_serde(config: StreamsConfig, half: Half, given: Serde[Any] | None) -> Serde[Any] | None:
    """Return the serde given, or the configured default; ``None`` if neither is there.

    Raises:
        ConfigError: the configured one cannot be imported or is not a serde.
    """
    option = f"default_{half}_serde"
    found = resolve_serde(option, getattr(config, option) if given is None else given)
    if found is None:
        return None
    configured = found.configured(config.registry, is_key=half == "key")
    return configured.with_defaults(_Defaults(config))


def serde_of(config: StreamsConfig, half: Half, given: Serde[Any] | None, owner: str) -> Serde[Any]:
    """Return the serde given, or the configured default.

    Args:
        config: the application's.
        half: which half of a record it is for.
        given: what a node or a store was given.
        owner: that node or store, for messages.

    Raises:
        ConfigError: neither is there, or the configured one cannot be imported or is not a serde.
    """
    serde = find_serde(config, half, given)
    if serde is None:
        raise ConfigError(
            f"{owner} has no {half} serde and default.{half}.serde is not set; give one of them"
        )
    return serde


class _Defaults:
    """The configured serdes, for those that are made of others."""

    def __init__(self, config: StreamsConfig) -> None:
        self._config = config
        self.application_id = config.application_id

    def serde(self, half: Half, given: Serde[Any] | None, owner: str) -> Serde[Any]:
        """Return the serde given, or the default."""
        return serde_of(self._config, half, given, owner)


def store_serdes(config: StreamsConfig, spec: StoreSpec) -> tuple[Serde[Any], Serde[Any]]:
    """Return the serdes of a store's keys and values: its own, or the configured defaults.

    Raises:
        ConfigError: see :func:`serde_of`.
    """
    owner = f"store {spec.name}"
    return (
        serde_of(config, "key", spec.key_serde, owner),
        serde_of(config, "value", spec.value_serde, owner),
    )
