"""The built-in serdes by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from headwater.references import SERDE_NAMES
from headwater.serde.jsontext import JsonSerde
from headwater.serde.lists import ListSerde
from headwater.serde.primitives import (
    BooleanSerde,
    BytesSerde,
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    LongSerde,
    ShortSerde,
    StringSerde,
    UUIDSerde,
    VoidSerde,
)
from headwater.serde.windowed import SessionWindowedSerde, TimeWindowedSerde

if TYPE_CHECKING:
    import uuid as uuids
    from builtins import bytes as Bytes  # noqa: N812 - the class below has attributes of these names
    from builtins import float as Float  # noqa: N812
    from builtins import list as List  # noqa: N812

    from headwater.model.durations import Duration
    from headwater.model.windows import Windowed
    from headwater.serde.base import Serde

T = TypeVar("T")


class Serdes:
    """The built-in serdes by name (Kafka's ``Serdes``); they hold no state and may be shared."""

    bytes: Final[Serde[Bytes]] = BytesSerde()
    string: Final[StringSerde] = StringSerde()
    short: Final[Serde[int]] = ShortSerde()
    integer: Final[Serde[int]] = IntegerSerde()
    long: Final[Serde[int]] = LongSerde()
    float: Final[Serde[Float]] = FloatSerde()
    double: Final[Serde[Float]] = DoubleSerde()
    boolean: Final[Serde[bool]] = BooleanSerde()
    uuid: Final[Serde[uuids.UUID]] = UUIDSerde()
    void: Final[Serde[None]] = VoidSerde()
    json: Final[JsonSerde] = JsonSerde()

    _BY_NAME: ClassVar[tuple[str, ...]] = SERDE_NAMES

    @staticmethod
    def list(inner: Serde[T]) -> Serde[List[T]]:
        """Return the serde of lists whose entries ``inner`` takes (``Serdes.ListSerde``)."""
        return ListSerde(inner)

    @staticmethod
    def time_windowed(inner: Serde[T], size: Duration) -> Serde[Windowed[T]]:
        """Return the serde of keys in time windows (``WindowedSerdes.timeWindowedSerdeFrom``).

        Args:
            inner: the serde of the key itself.
            size: length of a window, a ``timedelta`` or milliseconds; a record holds only the
                start.

        Raises:
            TopologyError: the size is no duration.
        """
        return TimeWindowedSerde(inner, size)

    @staticmethod
    def session_windowed(inner: Serde[T]) -> Serde[Windowed[T]]:
        """Return the serde of keys in sessions (``WindowedSerdes.sessionWindowedSerdeFrom``)."""
        return SessionWindowedSerde(inner)

    @classmethod
    def by_name(cls, name: str) -> Serde[Any]:
        """Return the serde called ``name``, as a StreamApp's configuration writes it.

        Raises:
            KeyError: there is no such serde; the message lists those there are.
        """
        if name not in cls._BY_NAME:
            raise KeyError(
                f"unknown serde {name!r}; the built-in ones are {', '.join(cls._BY_NAME)}"
            )
        serde: Serde[Any] = getattr(cls, name)
        return serde
