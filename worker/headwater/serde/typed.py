"""JSON as values of a type: dataclasses, TypedDicts, ``msgspec.Struct`` and pydantic models.

Keys are sorted, so that equal values have equal bytes. What is written has been read back before:
a field of another type is an error where it is made, not in a store that cannot be read.
"""

from __future__ import annotations

import json
import typing
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.errors import ConfigError
from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

_MADE_BY_PYDANTIC: Final = "__pydantic_validator__"
_MADE_BY_MSGSPEC: Final = "__struct_fields__"


class TypedJsonSerde(Serde[T]):
    """JSON of values of one type.

    Args:
        of: a dataclass, TypedDict, ``msgspec.Struct`` or pydantic model, or a type made of these
            such as ``list[Trade]``.

    Raises:
        ConfigError: the extra that the type needs is not installed, or pydantic is within msgspec.
        TypeError: JSON cannot hold such a type.
    """

    def __init__(self, of: type[T]) -> None:
        self._of = of
        self._codec()  # what is wrong with the type is said where it is given

    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the encoder; a value of another type raises a TypeError with the field's path."""
        return self._codec()[0]

    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the decoder; other JSON raises a ValueError with the field's path."""
        return self._codec()[1]

    def _codec(self) -> tuple[Callable[[T], bytes], Callable[[bytes], T]]:
        return _by_pydantic(self._of) if _has_pydantic(self._of) else _by_msgspec(self._of)


def _has_pydantic(of: Any, above: tuple[Any, ...] = ()) -> bool:
    """Whether a type is pydantic's, or has a field or an argument of one: pydantic does it then.

    Raises:
        ConfigError: it is within a ``msgspec.Struct``, of which pydantic knows nothing.
    """
    if hasattr(of, _MADE_BY_PYDANTIC):
        return True
    if any(of is one for one in above):
        return False
    inner = [*typing.get_args(of), *_fields(of)]
    found = any(_has_pydantic(one, (*above, of)) for one in inner)
    if found and hasattr(of, _MADE_BY_MSGSPEC):
        raise ConfigError(
            f"{of.__name__} is a msgspec.Struct with a field of pydantic: make it a dataclass, or "
            "a model of pydantic, too"
        )
    return found


def _is_typed_dict(of: Any) -> bool:
    """Whether a type is a TypedDict, of ``typing`` or of ``typing_extensions``."""
    return isinstance(of, type) and issubclass(of, dict) and hasattr(of, "__total__")


def _fields(of: Any) -> Iterable[Any]:
    """Return the types of a class's fields, if it is one of fields and they can be known."""
    own = typing.get_origin(of) or of
    if not (is_dataclass(own) or _is_typed_dict(own) or hasattr(own, _MADE_BY_MSGSPEC)):
        return ()
    try:
        return typing.get_type_hints(own).values()
    except NameError:  # of a class within a function; msgspec says so
        return ()


def _by_msgspec(of: Any) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    try:
        import msgspec  # noqa: PLC0415 - of an extra
    except ImportError:
        raise _missing("json") from None
    name = getattr(of, "__name__", str(of))
    encode = msgspec.json.Encoder(order="sorted").encode
    plain, strict = msgspec.to_builtins, json.JSONEncoder(allow_nan=False).encode
    read: Callable[[bytes], Any] = msgspec.json.Decoder(of).decode
    own = typing.get_origin(of) or of
    is_class = isinstance(own, type) and not typing.is_typeddict(own)

    def serialize(value: Any) -> bytes:
        if is_class and not isinstance(value, own):
            raise TypeError(f"a {type(value).__name__} is no {name}")
        data: bytes = encode(value)
        if b"null" in data:
            strict(plain(value))  # what is not a number became null: a ValueError
        try:
            read(data)
        except msgspec.DecodeError as error:
            raise TypeError(f"this is no {name}: {error}") from error
        return data

    def deserialize(data: bytes) -> Any:
        try:
            return read(data)
        except msgspec.DecodeError as error:
            raise ValueError(f"this is no {name}: {error}") from error

    return serialize, deserialize


def _by_pydantic(of: Any) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    # The type is there, so pydantic is, too.
    from pydantic import PydanticUserError, TypeAdapter, ValidationError  # noqa: PLC0415 - of an extra
    from pydantic_core import PydanticSerializationError  # noqa: PLC0415

    name = getattr(of, "__name__", str(of))
    try:
        adapter: Any = TypeAdapter(of)
    except PydanticUserError as error:
        raise ConfigError(f"JSON of a {name}: {str(error).splitlines()[0]}") from error
    write, read = adapter.dump_python, adapter.validate_json
    encode = json.JSONEncoder(
        ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode

    def serialize(value: Any) -> bytes:
        try:
            plain = write(value, mode="json", by_alias=True, warnings="error")
            data = encode(plain).encode()
            read(data)
        except PydanticSerializationError as error:
            raise TypeError(f"this is no {name}: {error}") from error
        except ValidationError as error:
            raise TypeError(f"this is no {name}: {_told(error.errors())}") from error
        return data

    def deserialize(data: bytes) -> Any:
        try:
            return read(data)
        except ValidationError as error:
            raise ValueError(f"this is no {name}: {_told(error.errors())}") from error

    return serialize, deserialize


def _told(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return what pydantic says of each field, with its path as msgspec writes it."""
    return "; ".join(f"{error['msg']} - at `{_path(error['loc'])}`" for error in errors)


def _path(steps: Sequence[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _missing(extra: str) -> ConfigError:
    return ConfigError(
        f"JSON of a type needs the extra {extra!r}: pip install 'headwater[{extra}]'"
    )
