"""What the serdes of Java and ours are asked, in a language of JSON (``SerdeBytes.java``)."""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from headwater import Serdes
from headwater.model.windows import Window, Windowed

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from headwater import Serde

PLAIN: Final = (
    "bytes", "string", "short", "integer", "long", "float", "double", "boolean", "uuid", "void",
)  # fmt: skip
ENCODINGS: Final = ("UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32", "ISO-8859-1", "US-ASCII")


def kind(name: Any) -> str:
    return name if isinstance(name, str) else str(next(iter(name)))


def serde(name: Any) -> Serde[Any]:
    """Return our serde of what Java's is called by ``name``."""
    match kind(name):
        case "string" if isinstance(name, dict):
            return Serdes.string(name["string"])
        case "wrapped" | "buffer":
            return Serdes.bytes
        case "list":
            return Serdes.list(serde(name["list"]))
        case "time_windowed":
            return Serdes.time_windowed(serde(name["time_windowed"]), name["size"])
        case "session_windowed":
            return Serdes.session_windowed(serde(name["session_windowed"]))
        case plain:
            return Serdes.by_name(plain)


def value(name: Any, told: Any) -> Any:  # noqa: PLR0911 - a table
    """Return the value that JSON tells."""
    if told is None:
        return None
    match kind(name):
        case "bytes" | "wrapped" | "buffer":
            return bytes.fromhex(told)
        case "float" | "double":
            return float(told)
        case "uuid":
            return uuid.UUID(told)
        case "list":
            return [value(name["list"], entry) for entry in told]
        case "time_windowed" | "session_windowed" as windowed:
            key = value(name[windowed], told["key"])
            return Windowed(key, Window(told["start"], told["end"]))
        case _:
            return told


def told(name: Any, found: Any) -> Any:  # noqa: PLR0911 - a table
    """Return what JSON tells of a value; of numbers with a fraction, their bits."""
    if found is None:
        return None
    match kind(name):
        case "bytes" | "wrapped" | "buffer":
            return found.hex()
        case "float" | "double":
            if math.isinf(found):
                return "Infinity" if found > 0 else "-Infinity"
            return "NaN" if math.isnan(found) else repr(found)
        case "uuid":
            return str(found)
        case "list":
            return [told(name["list"], entry) for entry in found]
        case "time_windowed" | "session_windowed" as windowed:
            start, end = found.window
            return {"key": told(name[windowed], found.key), "start": start, "end": end}
        case _:
            return found


def encoded(name: Any, given: Any) -> bytes | None:
    """Return what our serde makes of a value; null stays null, as in the engine."""
    return None if given is None else serde(name).serializer("t")(given)


def decoded(name: Any, data: bytes | None) -> Any:
    """Return what our serde makes of bytes; null stays null, as in the engine."""
    return None if data is None else serde(name).deserializer("t")(data)


def java_cannot_read(name: Any, given: Any) -> bool:
    """Whether a list ends with an entry without bytes, of which Java's deserializer says no."""
    match kind(name):
        case "list":
            inner = name["list"]
            last = encoded(inner, given[-1]) if given else None
            nested = [one for one in given if one is not None]
            return last == b"" or any(java_cannot_read(inner, one) for one in nested)
        case "time_windowed" | "session_windowed" as windowed:
            return java_cannot_read(name[windowed], given.key)
        case _:
            return False


_TIMES: Final = st.integers(0, 2**62)
_VALUES: Final[dict[str, SearchStrategy[Any]]] = {
    "bytes": st.binary(max_size=40),
    "wrapped": st.binary(max_size=40),
    "buffer": st.binary(max_size=40),
    "string": st.text(max_size=40),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "void": st.none(),
}
_OF_ENCODINGS: Final = {
    "ISO-8859-1": st.text(st.characters(max_codepoint=255)),
    "US-ASCII": st.text(st.characters(max_codepoint=127)),
}


def values(name: Any) -> SearchStrategy[Any]:
    """Values that a serde takes."""
    match kind(name):
        case "string" if isinstance(name, dict):
            # A mark of the order of bytes at the start is not told from one that Java puts there.
            return _OF_ENCODINGS.get(name["string"], st.text()).filter(
                lambda text: not text.startswith(("\ufeff", "\ufffe"))
            )
        case "list":
            return st.lists(st.none() | values(name["list"]), max_size=6)
        case "time_windowed":
            size = name["size"]
            return st.builds(
                lambda key, start: Windowed(key, Window(start, start + size)),
                values(name["time_windowed"]),
                _TIMES,
            )
        case "session_windowed":
            return st.builds(
                lambda key, start, length: Windowed(key, Window(start, start + length)),
                values(name["session_windowed"]),
                _TIMES,
                st.integers(0, 2**61),
            )
        case plain:
            return _VALUES[plain]


def names() -> SearchStrategy[Any]:
    """Serdes, within each other, too."""
    plain = st.sampled_from([name for name in PLAIN if name != "void"])
    encoding = st.builds(lambda name: {"string": name}, st.sampled_from(ENCODINGS))
    keys = plain | encoding
    return st.recursive(
        keys,
        lambda inner: (
            st.builds(lambda one: {"list": one}, inner)
            | st.builds(
                lambda one, size: {"time_windowed": one, "size": size}, inner, st.integers(1, 2**40)
            )
            | st.builds(lambda one: {"session_windowed": one}, inner)
        ),
        max_leaves=3,
    )
