"""From references in the configuration to the objects they name: serdes, handlers, extractors."""

from __future__ import annotations

import codecs
import importlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headwater.errors import ConfigError
from headwater.references import serde_reference
from headwater.serde import Serde, Serdes

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def default_serde(config: StreamsConfig, half: Half) -> Serde[Any] | None:
    """Return the configured default, made with the options that are about it; ``None`` without one.

    As in Kafka Streams only a default serde is made with ``serializer.encoding``,
    ``default.list.key.serde.inner``, ``windowed.inner.class.serde`` and ``window.size.ms``.

    Raises:
        ConfigError: it cannot be imported or is not a serde, or one of its options is missing or
            wrong.
    """
    option, settings = f"default_{half}_serde", config.serde_settings
    reference = getattr(config, option)
    if reference == "string":
        encoding = _encoding(settings, half)
        return Serdes.string if encoding is None else Serdes.string(encoding)
    if reference == "list":
        return Serdes.list(_inner(settings, f"default.list.{half}.serde.inner"))
    if reference == "time_windowed":
        inner = _inner(settings, "windowed.inner.class.serde")
        return Serdes.time_windowed(inner, _window_size(settings))
    if reference == "session_windowed":
        return Serdes.session_windowed(_inner(settings, "windowed.inner.class.serde"))
    return resolve_serde(option, reference)


def _encoding(settings: Mapping[str, object], half: Half) -> str | None:
    """Return how text is encoded that has the default serde; ``None`` for UTF-8."""
    asked: dict[str, str] = {}
    for way in ("serializer", "deserializer"):
        option = f"{way}.encoding"
        for name in (f"{half}.{option}", option):
            if settings.get(name) is not None:
                asked[name] = str(settings[name])
                break
        else:
            asked[option] = "UTF-8"
    for name, encoding in asked.items():
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise ConfigError(f"{name}: there is no encoding {encoding!r}") from None
    written, read = asked.values()
    if codecs.lookup(written) != codecs.lookup(read):
        raise ConfigError(
            f"{' and '.join(asked)} differ, {written!r} and {read!r}: a default serde reads what "
            "it writes; give both the same encoding, or each topic its own serde"
        )
    return written


def _inner(settings: Mapping[str, object], option: str) -> Serde[Any]:
    reference = settings.get(option)
    if reference is None:
        raise ConfigError(f"{option} is missing: name the serde of what is inside")
    found = resolve_serde(option, serde_reference(option, reference))
    assert found is not None
    return found


def _window_size(settings: Mapping[str, object]) -> int:
    try:
        size = int(str(settings["window.size.ms"]))
    except KeyError:
        raise ConfigError("window.size.ms is missing: say how long a window is") from None
    except ValueError:
        size = 0
    if size < 1:
        raise ConfigError(f"window.size.ms: {settings['window.size.ms']!r} is no size of a window")
    return size


def find_serde(config: StreamsConfig, half: Half, given: Serde[Any] | None) -> Serde[Any] | None:
    """Return the serde given, or the configured default; ``None`` if neither is there.

    Raises:
        ConfigError: the configured one cannot be imported or is not a serde.
    """
    option = f"default_{half}_serde"
    found = default_serde(config, half) if given is None else resolve_serde(option, given)
    if found is None:
        return None
    configured = found.configured(config.serde_settings, is_key=half == "key")
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
