"""State stores as values: what a store of each kind is, and one store of a topology.

A kind says everything in which stores differ beside their names, serdes and settings: how keys lie
in bytes, whether values carry a timestamp, how the changelog is cleaned up. What reads and writes
stores asks the kind, never which kind it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from headwater.model.topics import ChangelogKind

if TYPE_CHECKING:
    from collections.abc import Mapping

SerdeLike: TypeAlias = Any
"""A ``headwater.serde.Serde``; named loosely because ``serde`` lies above ``model``."""


class KeyLayout(StrEnum):
    """How a store's keys become bytes; ``state/keys.py`` has a class for each."""

    PLAIN = "plain"
    """The bytes of the key serde."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """What all stores of one kind have in common.

    Attributes:
        key_layout: how keys become bytes.
        timestamped: a value is kept with its timestamp, which ``get`` gives back.
        changelog: which clean-up the changelog needs.
    """

    KEY_VALUE: ClassVar[StoreKind]
    """Kafka's ``KeyValueStore``."""
    TIMESTAMPED_KEY_VALUE: ClassVar[StoreKind]
    """Kafka's ``TimestampedKeyValueStore``, which every table of the DSL has."""

    key_layout: KeyLayout = KeyLayout.PLAIN
    timestamped: bool
    changelog: ChangelogKind = ChangelogKind.KEY_VALUE


StoreKind.KEY_VALUE = StoreKind(timestamped=False)
StoreKind.TIMESTAMPED_KEY_VALUE = StoreKind(timestamped=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """One state store (Kafka's ``StoreBuilder``).

    Two specs with equal fields are still two stores.
    """

    name: str
    kind: StoreKind = StoreKind.TIMESTAMPED_KEY_VALUE
    persistent: bool = True
    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    caching: bool = True
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """Extra changelog configs (``Materialized.withLoggingEnabled``)."""

    def with_caching_enabled(self) -> StoreSpec:
        """Return the same store with a record cache: repeated updates of a key become one."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreSpec:
        """Return the same store without a record cache."""
        return replace(self, caching=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> StoreSpec:
        """Return the same store with a changelog, whose topic has these configs."""
        return replace(self, logging=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> StoreSpec:
        """Return the same store without a changelog: what it holds is lost with its task."""
        return replace(self, logging=False, topic_config={})
