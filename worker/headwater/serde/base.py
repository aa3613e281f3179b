"""What a serde is: two functions bound to a topic, and whether its values may be shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


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

    @abstractmethod
    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the function that encodes values bound for ``topic``.

        Called once, used per record.
        """

    @abstractmethod
    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the function that decodes values from ``topic``; called once, used per record."""
