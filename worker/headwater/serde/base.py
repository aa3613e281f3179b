"""What a serde is: two functions bound to a topic, and whether its values may be shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


class SerdeGetter(Protocol):
    """What a serde that is made of others finds where one of them is left open."""

    application_id: str

    def serde(
        self, half: Literal["key", "value"], given: Serde[Any] | None, owner: str
    ) -> Serde[Any]:
        """Return the serde given, as it is configured, or the default for that half of a record.

        Raises:
            ConfigError: neither is there; ``owner`` says what for.
        """
        ...


class Serde(ABC, Generic[T]):
    """Turns values of one type into bytes and back (Kafka's ``Serde``).

    ``None`` never reaches a serializer or deserializer: null stays null on both sides.

    Attributes:
        immutable: values of this type cannot be changed in place, so a cache may hand out the value
            itself instead of decoding its bytes again. Leave ``False`` when unsure.
    """

    immutable: ClassVar[bool] = False

    def configured(self, settings: Mapping[str, object], *, is_key: bool) -> Serde[T]:
        """Return this serde as an application configures it (Kafka's ``Serde.configure``).

        Most have nothing to configure and return themselves.

        Args:
            settings: what the application's configuration says about serdes.
            is_key: it is for keys.
        """
        return self

    def with_defaults(self, defaults: SerdeGetter) -> Serde[T]:
        """Return this serde with what it leaves open (Kafka's ``WrappingNullableSerde``).

        Most leave nothing open and return themselves.
        """
        del defaults
        return self

    @abstractmethod
    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the function that encodes values bound for ``topic``.

        Called once, used per record.
        """

    @abstractmethod
    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the function that decodes values from ``topic``; called once, used per record."""
