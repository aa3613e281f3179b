"""JSON as plain values: dicts, lists, texts, numbers, ``True``, ``False`` and ``None``.

The bytes are those of Python's own ``json``. Where the extra ``json`` is installed, orjson and
msgspec make and read them, of values of which they are known to do just the same
(docs/adr/0064-who-writes-json.md).
"""

from __future__ import annotations

import json
import marshal
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from headwater.serde.base import Serde
from headwater.serde.typed import TypedJsonSerde

try:
    import msgspec
    import orjson
except ImportError:
    _FAST = False
else:
    _FAST = True

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_EXACT_TYPES: Final = 2
"""A version of marshal's format that looks nothing up: only its refusals are of interest."""
# Python writes 1e-05 and 1e-07, orjson 0.00001 and 1e-7.
_SMALL: Final = re.compile(rb"(?:^|[:,\[])-?[0-9.]+e-|0\.0000").search


class JsonSerde(Serde[Any]):
    """JSON text in UTF-8, compact and with sorted keys, so that equal values have equal bytes.

    Called with a type, it is the serde of values of that type.
    """

    @overload
    def __call__(self) -> Serde[Any]: ...

    @overload
    def __call__(self, of: type[T]) -> Serde[T]: ...

    def __call__(self, of: type[T] | None = None) -> Serde[Any]:
        """Return the serde of a dataclass, TypedDict, ``msgspec.Struct``, pydantic model or others.

        Without a type: this serde.

        Raises:
            ConfigError: the extra that the type needs is not installed.
            TypeError: JSON cannot hold such a type.
        """
        return self if of is None else TypedJsonSerde(of)

    def serializer(self, topic: str) -> Callable[[Any], bytes]:
        """Return the encoder; a value that JSON cannot hold raises ``TypeError``."""
        return _fast_serializer() if _FAST else _serializer()

    def deserializer(self, topic: str) -> Callable[[bytes], Any]:
        """Return the decoder; text that is no JSON raises ``ValueError``."""
        return _fast_deserializer() if _FAST else json.loads


def _serializer() -> Callable[[Any], bytes]:
    encode = json.JSONEncoder(
        ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode

    def serialize(value: Any) -> bytes:
        return encode(value).encode()

    return serialize


def _fast_serializer() -> Callable[[Any], bytes]:
    """Return the encoder by orjson, which asks Python's own where the bytes may differ."""
    by_python, by_orjson, read = _serializer(), orjson.dumps, orjson.loads
    options = (
        orjson.OPT_SORT_KEYS
        | orjson.OPT_PASSTHROUGH_SUBCLASS
        | orjson.OPT_PASSTHROUGH_DATETIME
        | orjson.OPT_PASSTHROUGH_DATACLASS
    )
    check = marshal.dumps

    def serialize(value: Any) -> bytes:
        try:
            data = by_orjson(value, None, options)
            # orjson also takes UUIDs and enumerations; marshal, as fast, exact classes alone.
            check(value, _EXACT_TYPES)
        except (TypeError, ValueError):
            return by_python(value)
        if (b"e-" in data or b"0.0000" in data) and _SMALL(data):
            return by_python(value)
        if b"null" in data and read(data) != value:  # what is not a number became null
            return by_python(value)
        return data

    return serialize


def _fast_deserializer() -> Callable[[bytes], Any]:
    """Return the decoder by msgspec; what it refuses, Python's own may take, or it says why not."""
    read, by_python = msgspec.json.Decoder().decode, json.loads
    refused = (msgspec.DecodeError, ValueError, RecursionError)

    def deserialize(data: bytes) -> Any:
        try:
            return read(data)
        except refused:
            return by_python(data)

    return deserialize
