"""Keys within windows, as sinks and repartition topics hold them.

A time window: the key's bytes, then its start as int64. A session: the key's bytes, then its end
and its start. Stores and their changelogs have layouts of their own.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from headwater.model.durations import LONG_MAX, millis
from headwater.model.windows import Window, Windowed
from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.model.durations import Duration

K = TypeVar("K")

_START: Final = struct.Struct(">q")
_END_AND_START: Final = struct.Struct(">qq")


class TimeWindowedSerde(Serde[Windowed[K]]):
    """Keys of time windows of one size (Kafka's ``TimeWindowedSerde``).

    The end is not written; it is read as start plus size, at most the largest int64.

    Attributes:
        inner: the serde of the key itself.
        size_ms: length of the windows.
        window_bytes: how many bytes lie behind the key itself.
    """

    window_bytes: ClassVar = _START.size

    def __init__(self, inner: Serde[K], size: Duration) -> None:
        self.inner = inner
        self.size_ms = millis("TimeWindowedSerde: size", size)

    def configured(self, settings: Mapping[str, object], *, is_key: bool) -> TimeWindowedSerde[K]:
        """Return the serde with the inner one as it is configured."""
        return TimeWindowedSerde(self.inner.configured(settings, is_key=is_key), self.size_ms)

    def serializer(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """Return the encoder; a TypeError for anything but a ``Windowed``."""
        encode, pack = self.inner.serializer(topic), _START.pack

        def serialize(value: Windowed[K]) -> bytes:
            _check(value)
            return encode(value.key) + pack(value.window.start_ms)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the decoder; as in Java nothing (no bytes) is null."""
        decode, unpack, size = self.inner.deserializer(topic), _START.unpack_from, self.size_ms

        def deserialize(data: bytes) -> Windowed[K] | None:
            at = len(data) - 8
            if at < 0:
                _check_empty(data)
                return None
            (start,) = unpack(data, at)
            end = min(start + size, LONG_MAX)
            if not 0 <= start < end:
                raise _no_window(start, end)
            return Windowed(decode(data[:at]), Window(start, end))

        return deserialize


class SessionWindowedSerde(Serde[Windowed[K]]):
    """Keys of sessions (Kafka's ``SessionWindowedSerde``).

    Attributes:
        inner: the serde of the key itself.
        window_bytes: how many bytes lie behind it.
    """

    window_bytes: ClassVar = _END_AND_START.size

    def __init__(self, inner: Serde[K]) -> None:
        self.inner = inner

    def configured(
        self, settings: Mapping[str, object], *, is_key: bool
    ) -> SessionWindowedSerde[K]:
        """Return the serde with the inner one as it is configured."""
        return SessionWindowedSerde(self.inner.configured(settings, is_key=is_key))

    def serializer(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """Return the encoder; a TypeError for anything but a ``Windowed``."""
        encode, pack = self.inner.serializer(topic), _END_AND_START.pack

        def serialize(value: Windowed[K]) -> bytes:
            _check(value)
            start, end = value.window
            return encode(value.key) + pack(end, start)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the decoder; as in Java nothing (no bytes) is null."""
        decode, unpack = self.inner.deserializer(topic), _END_AND_START.unpack_from

        def deserialize(data: bytes) -> Windowed[K] | None:
            at = len(data) - 16
            if at < 0:
                _check_empty(data)
                return None
            end, start = unpack(data, at)
            if not 0 <= start <= end:
                raise _no_window(start, end)
            return Windowed(decode(data[:at]), Window(start, end))

        return deserialize


def _check(value: object) -> None:
    if not isinstance(value, Windowed):
        raise TypeError(f"a {type(value).__name__} is no Windowed(key, window)")


def _check_empty(data: bytes) -> None:
    if data:
        raise ValueError(f"{data!r} is too short for a key within a window")


def _no_window(start: int, end: int) -> ValueError:
    return ValueError(f"there is no window from {start} to {end} ms")
