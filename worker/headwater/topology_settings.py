"""What a configuration says of how a topology is built, as values.

``topology.optimization`` names rewrites of the drawn topology,
``ensure.explicit.internal.resource.naming`` refuses generated names,
``dsl.store.suppliers.class`` says how stores are kept, and ``dsl.store.format`` what they keep
beside values, as in Kafka's ``StreamsConfig``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Optimization(StrEnum):
    """A rewrite that ``topology.optimization`` can ask for."""

    REUSE_KTABLE_SOURCE_TOPICS = "reuse.ktable.source.topics"
    """The topic that a table reads serves as the changelog of its store (KIP-295)."""
    MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
    """What is repartitioned several times below one change of the key goes through one topic."""
    SINGLE_STORE_SELF_JOIN = "single.store.self.join"
    """A join of a stream with itself keeps one window store (KIP-862)."""


class DslStoreFormat(StrEnum):
    """What a store of the DSL keeps beside a value (Kafka's enum of this name, KIP-1285)."""

    PLAIN = "plain"
    """Nothing."""
    TIMESTAMPED = "timestamped"
    """A timestamp."""
    HEADERS = "headers"
    """Headers, and a timestamp unless it is a session's."""


OPTIMIZATION: Final = "topology.optimization"
EXPLICIT_NAMING: Final = "ensure.explicit.internal.resource.naming"
DSL_STORES: Final = "dsl.store.suppliers.class"
DSL_STORE_FORMAT: Final = "dsl.store.format"
DEFAULT_DSL_STORE: Final = "default.dsl.store"
WINDOW_CHANGELOG_SLACK_MS: Final = 86_400_000
"""Default of ``windowstore.changelog.additional.retention.ms``."""
ROCKS_DB: Final = "rocksdb"
IN_MEMORY: Final = "in-memory"
_DSL_STORES: Final = {
    "RocksDBDslStoreSuppliers": ROCKS_DB,
    "InMemoryDslStoreSuppliers": IN_MEMORY,
}
_DEFAULT_DSL_STORES: Final = {"rocksDB": ROCKS_DB, "in_memory": IN_MEMORY}
_FORMATS: Final = ("DEFAULT", "HEADERS")
_NONE: Final = "none"
_ALL: Final = "all"


def parse_optimizations(name: str, value: object) -> frozenset[Optimization]:
    """Return what ``none``, ``all`` or names of rewrites joined by commas ask for.

    Raises:
        ConfigError: a name is unknown, or ``none`` or ``all`` has company.
    """
    given = value if isinstance(value, list | tuple | set | frozenset) else str(value).split(",")
    names = [str(one).strip() for one in given]
    if names == [_NONE] or (not names and not isinstance(value, str)):
        return frozenset()
    if names == [_ALL]:
        return frozenset(Optimization)
    try:
        return frozenset(map(Optimization, names))
    except ValueError:
        raise ConfigError(
            f"{name}: {value!r} is not allowed; expected {_NONE}, {_ALL}, or some of "
            f"{', '.join(Optimization)}, joined by commas"
        ) from None


def parse_flag(name: str, value: object) -> bool:
    """Return what ``true`` or ``false`` says, as a text or not.

    Raises:
        ConfigError: it is neither.
    """
    return _word(name, value, {"true", "false"}, "true or false") == "true"


def parse_native(name: str, value: object) -> str:
    """Return ``true``, ``false`` or ``auto``, given as a text or not.

    Raises:
        ConfigError: it is none of them.
    """
    return _word(name, value, {"true", "false", "auto"}, "true, false or auto")


def _word(name: str, value: object, allowed: set[str], expected: str) -> str:
    text = str(value).strip().lower()
    if text not in allowed:
        raise ConfigError(f"{name}: {value!r} is not allowed; expected {expected}")
    return text


def parse_dsl_stores(name: str, value: object) -> Any:
    """Return a built-in's name, also for Kafka's class, else ``module:Class`` or the object.

    Raises:
        ConfigError: the text is none of these.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    text = _DSL_STORES.get(text.replace("$", ".").rpartition(".")[2], text)
    module, _, attribute = text.partition(":")
    if text not in {ROCKS_DB, IN_MEMORY} and not (module and attribute):
        raise ConfigError(
            f'{name}: {value!r} is not allowed; expected {ROCKS_DB}, {IN_MEMORY}, or "module:Class"'
        )
    return text


def parse_default_dsl_store(name: str, value: object) -> str:
    """Return the built-in's name that the deprecated ``rocksDB`` or ``in_memory`` stands for.

    Raises:
        ConfigError: it is neither.
    """
    found = _DEFAULT_DSL_STORES.get(str(value).strip())
    if found is None:
        expected = " or ".join(_DEFAULT_DSL_STORES)
        raise ConfigError(f"{name}: {value!r} is not allowed; expected {expected}")
    return found


def parse_dsl_store_format(name: str, value: object) -> str:
    """Return ``DEFAULT`` or ``HEADERS``, however it is written.

    Raises:
        ConfigError: it is neither.
    """
    text = str(value).strip().upper()
    if text not in _FORMATS:
        raise ConfigError(f"{name}: {value!r} is not allowed; expected {' or '.join(_FORMATS)}")
    return text


def wants_headers(given: Mapping[str, object]) -> bool:
    """Whether a configuration asks for stores with headers (KIP-1285); by default it does not.

    Raises:
        ConfigError: see :func:`parse_dsl_store_format`.
    """
    named = _option(given, DSL_STORE_FORMAT, _FORMATS[0])
    return parse_dsl_store_format(DSL_STORE_FORMAT, named) == "HEADERS"


def dsl_stores_named(given: Mapping[str, object]) -> Any:
    """Return what a configuration names for the stores of the DSL; ``None`` if it names nothing.

    Raises:
        ConfigError: see :func:`parse_dsl_stores` and :func:`parse_default_dsl_store`.
    """
    for option, parse in (
        (DSL_STORES, parse_dsl_stores),
        (DEFAULT_DSL_STORE, parse_default_dsl_store),
    ):
        named = _option(given, option, None)
        if named is not None:
            return parse(option, named)
    return None


def optimizations_of(given: Mapping[str, object]) -> frozenset[Optimization]:
    """Return the rewrites that a configuration asks for; by default none.

    Raises:
        ConfigError: see :func:`parse_optimizations`.
    """
    return parse_optimizations(OPTIMIZATION, _option(given, OPTIMIZATION, _NONE))


def demands_names(given: Mapping[str, object]) -> bool:
    """Whether a configuration refuses generated names (KIP-1111); by default it does not.

    Raises:
        ConfigError: see :func:`parse_flag`.
    """
    return parse_flag(EXPLICIT_NAMING, _option(given, EXPLICIT_NAMING, value=False))


def _option(given: Mapping[str, object], name: str, value: object) -> object:
    """Return an option by its dotted or snake_case name; ``value`` if it is not given."""
    return given.get(name, given.get(name.replace(".", "_"), value))
