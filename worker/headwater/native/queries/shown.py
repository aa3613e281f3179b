"""How keys and values of a store are written as JSON, and keys read from text. Pure.

A key in a path is text: a number for a serde of numbers, JSON for one of JSON. Any key and value
can be given and had as base64 of its bytes.
"""

from __future__ import annotations

import base64
import json
import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import NotShownAsJsonError, QueryError
from headwater.serde.jsontext import JsonSerde
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
)
from headwater.serde.typed import TypedJsonSerde

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from threading import Lock

    from headwater.serde import Serde

BASE64: Final = "base64"
_WHOLE: Final = (LongSerde, IntegerSerde, ShortSerde)
_BROKEN: Final = (FloatSerde, DoubleSerde)
_JSON: Final = (JsonSerde, TypedJsonSerde)
_FREE: Final = (*_WHOLE, *_BROKEN, BooleanSerde, BytesSerde, JsonSerde, StringSerde, UUIDSerde)
"""These call no code of the user."""


def _truth(text: str) -> bool | str:
    """Return what is written; a serde of truths takes no text, and says so."""
    return {"true": True, "false": False}.get(text, text)


_PARSERS: Final[tuple[tuple[tuple[type, ...], Callable[[str], Any]], ...]] = (
    (_WHOLE, int),
    (_BROKEN, float),
    ((BooleanSerde,), _truth),
    ((UUIDSerde,), uuid.UUID),
    ((BytesSerde,), str.encode),
    (_JSON, json.loads),
)


class Shown:
    """Keys, or values, of one store.

    Args:
        store: its name, for messages.
        half: ``key`` or ``value``.
        serde: of keys or of values.
        topic: the changelog, to which serdes are bound.
        guard: held while a serde of the user is called, which need not bear several threads.
    """

    def __init__(
        self, store: str, half: str, serde: Serde[Any], topic: str, guard: Lock | None = None
    ) -> None:
        self._store = store
        self._half = half
        self._serde = serde
        self._guard: AbstractContextManager[Any] = nullcontext()
        if guard is not None and type(serde) not in _FREE:
            self._guard = guard
        with self._guard:
            self._serialize: Callable[[Any], bytes] = serde.serializer(topic)
            self._deserialize: Callable[[bytes], Any] = serde.deserializer(topic)

    def bytes_of(self, text: str, form: str = "") -> bytes:
        """Return the bytes of a key that is written as text.

        Args:
            text: as in a path.
            form: ``base64``, or empty for what the serde takes.

        Raises:
            QueryError: it is no such key.
        """
        try:
            if form == BASE64:
                return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
            with self._guard:
                if isinstance(self._serde, TypedJsonSerde):
                    value = self._deserialize(text.encode())
                else:
                    value = self._parsed(text)
                return self._serialize(value)
        except Exception as error:
            raise QueryError(
                f"store {self._store}: {text!r:.80} is no {self._half} for "
                f"{type(self._serde).__name__}: {error}; write it as the serde takes it (JSON for "
                "one of JSON), or give the serialized bytes as base64"
            ) from error

    def _parsed(self, text: str) -> Any:
        for kinds, parse in _PARSERS:
            if isinstance(self._serde, kinds):
                return parse(text)
        return text

    def json_of(self, data: bytes, form: str = "") -> Any:
        """Return a key or value as JSON takes it.

        Args:
            data: its bytes.
            form: ``base64``, or empty for what the serde reads.

        Raises:
            NotShownAsJsonError: JSON cannot hold it, or the serde cannot read it.
        """
        if form == BASE64:
            return base64.b64encode(data).decode()
        try:
            if isinstance(self._serde, _JSON):
                return json.loads(data)
            with self._guard:
                value = self._deserialize(data)
            if isinstance(value, uuid.UUID):
                return str(value)
            json.dumps(value, allow_nan=False)
        except Exception as error:
            raise NotShownAsJsonError(
                f"store {self._store}: a {self._half} cannot be shown as JSON "
                f"({type(self._serde).__name__}: {error}); ask for its bytes with format=base64"
            ) from error
        return value
