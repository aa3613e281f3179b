"""Java's way of writing the settings of an operation.

``Consumed.with_(Serdes.string, Serdes.long).with_name("orders")`` says what
``Consumed(key_serde=Serdes.string, value_serde=Serdes.long, name="orders")`` says. Each method
returns the same settings with one of them changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.model.callables import check_functions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from headwater.dsl.stream import KStream
    from headwater.model.durations import Duration
    from headwater.model.nodes import TimestampExtractorLike
    from headwater.model.offset_reset import OffsetReset
    from headwater.serde.base import Serde

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
Settings = TypeVar("Settings")


class OfName:
    """Settings with a name."""

    @classmethod
    def as_(cls, name: str) -> Self:
        """Begin with a name."""
        return cls(name=name)  # type: ignore[call-arg]  # each dataclass below has it

    def with_name(self, name: str) -> Self:
        """Return the same with another name."""
        return with_changed(self, name=name)


class OfSerdes(OfName, Generic[K, V]):
    """Settings with a name, and with serdes of keys and values."""

    def with_key_serde(self, key_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for keys."""
        return with_changed(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for values."""
        return with_changed(self, value_serde=value_serde)


class OfConsumed(OfSerdes[K, V]):
    """What Java's ``Consumed`` has beside its name and serdes."""

    @classmethod
    def with_(
        cls,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        timestamp_extractor: TimestampExtractorLike | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> Self:
        """Begin with any of these."""
        return cls(  # type: ignore[call-arg]  # the dataclass below has them
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            offset_reset=offset_reset,
        )

    def with_timestamp_extractor(self, timestamp_extractor: TimestampExtractorLike | None) -> Self:
        """Return the same with this extractor."""
        return with_changed(self, timestamp_extractor=timestamp_extractor)

    def with_offset_reset_policy(self, offset_reset: OffsetReset | None) -> Self:
        """Return the same, but begin there without a committed offset."""
        return with_changed(self, offset_reset=offset_reset)


class OfProduced(OfSerdes[K, V]):
    """What Java's ``Produced`` has beside its name and serdes."""

    @classmethod
    def with_(
        cls,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        partitioner: Callable[..., Any] | None = None,
    ) -> Self:
        """Begin with any of these."""
        return cls(  # type: ignore[call-arg]  # the dataclass below has them
            key_serde=key_serde, value_serde=value_serde, partitioner=partitioner
        )

    def with_stream_partitioner(self, partitioner: Callable[..., Any] | None) -> Self:
        """Return the same with this partitioner."""
        return with_changed(self, partitioner=partitioner)


class OfRepartitioned(OfProduced[K, V]):
    """What Java's ``Repartitioned`` has beside what ``Produced`` has."""

    def with_number_of_partitions(self, partitions: int) -> Self:
        """Return the same with this number of partitions for the topic."""
        return with_changed(self, partitions=partitions)


class OfGrouped(OfSerdes[K, V]):
    """What Java's ``Grouped`` has beside its name and serdes."""

    @classmethod
    def with_(
        cls,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        *,
        name: str | None = None,
    ) -> Self:
        """Begin with any of these."""
        return cls(  # type: ignore[call-arg]  # the dataclass below has them
            name=name, key_serde=key_serde, value_serde=value_serde
        )


class OfJoined(OfSerdes[K, V], Generic[K, V, VO]):
    """What Java's ``Joined`` has beside its name and serdes."""

    @classmethod
    def with_(
        cls,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        other_value_serde: Serde[VO] | None = None,
        *,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> Self:
        """Begin with any of these."""
        return cls(  # type: ignore[call-arg]  # the dataclass below has them
            name=name,
            key_serde=key_serde,
            value_serde=value_serde,
            other_value_serde=other_value_serde,
            grace=grace,
        )

    def with_other_value_serde(self, other_value_serde: Serde[Any] | None) -> Self:
        """Return the same with this serde for the table's values."""
        return with_changed(self, other_value_serde=other_value_serde)

    def with_grace_period(self, grace: Duration | None) -> Self:
        """Return the same, but records wait for so long for late updates of the table."""
        return with_changed(self, grace=grace)


class OfTableJoined(OfName):
    """What Java's ``TableJoined`` has beside its name."""

    @classmethod
    def with_(
        cls,
        partitioner: Callable[..., Any] | None = None,
        other_partitioner: Callable[..., Any] | None = None,
    ) -> Self:
        """Begin with any of these."""
        return cls(  # type: ignore[call-arg]  # the dataclass below has them
            partitioner=partitioner, other_partitioner=other_partitioner
        )

    def with_partitioner(self, partitioner: Callable[..., Any] | None) -> Self:
        """Return the same with this partitioner of the left table."""
        return with_changed(self, partitioner=partitioner)

    def with_other_partitioner(self, other_partitioner: Callable[..., Any] | None) -> Self:
        """Return the same with this partitioner of the right table."""
        return with_changed(self, other_partitioner=other_partitioner)


class OfBranched(OfName, Generic[K, V]):
    """What Java's ``Branched`` has beside its name."""

    @classmethod
    def with_function(
        cls, chain: Callable[[KStream[K, V]], KStream[K, V] | None], name: str | None = None
    ) -> Self:
        """Begin with what becomes of the branch, and its name."""
        return cls(name=name, chain=chain)  # type: ignore[call-arg]  # likewise

    @classmethod
    def with_consumer(
        cls, chain: Callable[[KStream[K, V]], object], name: str | None = None
    ) -> Self:
        """Begin with what is done with the branch, which is no entry of the result."""
        check_functions("Branched", chain=chain)

        def consume(branch: KStream[K, V]) -> None:
            chain(branch)

        return cls(name=name, chain=consume)  # type: ignore[call-arg]  # likewise


def with_changed(settings: Settings, **changes: Any) -> Settings:
    """Return the same settings with some of them changed.

    Raises:
        TopologyError: a value is not one that the setting takes.
    """
    result: Settings = replace(settings, **changes)  # type: ignore[type-var]
    return result
