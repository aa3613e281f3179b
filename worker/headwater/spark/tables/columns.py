"""Records of Kafka as columns of Arrow: fields as they are, bytes made values, keys taken apart.

Runs in Spark's Python workers, a batch at a time, with loops in C wherever a type allows it.
"""

from __future__ import annotations

import importlib
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import DeserializationError
from headwater.ids import TopicPartition
from headwater.serde import Serdes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.ports import RawRecord
    from headwater.serde import Serde

_SIMPLE: Final = ("string", "integer", "long", "double", "json")
_NUMBERS: Final = {"integer": ">i4", "long": ">i8", "double": ">f8"}
_DDL: Final = {
    "string": "string",
    "json": "string",
    "integer": "int",
    "long": "bigint",
    "double": "double",
}
_WINDOW: Final = struct.Struct(">qi")
_SESSION: Final = struct.Struct(">qq")


class KeyLayout(StrEnum):
    """What a changelog has for keys (Kafka's ``WindowKeySchema``, ``SessionKeySchema``)."""

    PLAIN = "plain"
    """The key alone: key-value stores."""
    WINDOW = "window"
    """Key, start of the window (8 bytes), a number that tells duplicates apart (4 bytes)."""
    SESSION = "session"
    """Key, end of the session (8 bytes), its start (8 bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How bytes become columns; it travels to the Python workers.

    Attributes:
        key: how keys are decoded: a name of ``headwater.serde.Serdes``; ``bytes`` leaves them.
        value: how values are.
        layout: what a key consists of.
    """

    key: str = "bytes"
    value: str = "bytes"
    layout: KeyLayout = KeyLayout.PLAIN

    @property
    def is_raw(self) -> bool:
        """Whether all stays as it is on Kafka."""
        return self == Shape()

    @property
    def ddl(self) -> str:
        """The columns as Spark's schema text."""
        apart = {
            KeyLayout.PLAIN: "",
            KeyLayout.WINDOW: "window_start timestamp, window_sequence int, ",
            KeyLayout.SESSION: "session_start timestamp, session_end timestamp, ",
        }[self.layout]
        return (
            f"key {_DDL.get(self.key, 'binary')}, {apart}value {_DDL.get(self.value, 'binary')}, "
            "headers array<struct<key: string, value: binary>>, "
            "topic string, partition int, offset bigint, timestamp timestamp"
        )


def simple_name(serde: Serde[Any] | str | None) -> str:
    """Return which of the built-in serdes decodes into a column; ``bytes`` for any other."""
    if isinstance(serde, str):
        return serde if serde in _SIMPLE else "bytes"
    for name in _SIMPLE:
        if type(serde) is type(Serdes.by_name(name)):
            return name
    return "bytes"


def arrow() -> Any:
    """Return pyarrow, which is heavy, and untyped."""
    return importlib.import_module("pyarrow")


def batch_of(partition: TopicPartition, records: Sequence[RawRecord]) -> Any:
    """Return records as an Arrow batch, nothing decoded."""
    pa = arrow()
    offsets, timestamps, keys, values, headers = zip(*records, strict=True)
    size = len(records)
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    listed = [
        None if not found else [{"key": name, "value": data} for name, data in found]
        for found in headers
    ]
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(listed, pa.list_(pair)),
        "topic": pa.array([partition.topic] * size, pa.string()),
        "partition": pa.array([partition.partition] * size, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": _times(timestamps),
    }
    return pa.RecordBatch.from_pydict(columns)


def shaped(batch: Any, shape: Shape) -> Any:
    """Return a batch whose keys and values are decoded.

    Raises:
        DeserializationError: the bytes are not what they are said to be; it names the record.
    """
    if shape.is_raw:
        return batch
    pa = arrow()
    columns = {name: batch.column(name) for name in batch.schema.names}
    keys, apart = _taken_apart(batch, shape.layout)
    decoded = {"key": _decoded(batch, "key", keys, shape.key), **apart}
    columns["value"] = _decoded(batch, "value", columns["value"], shape.value)
    return pa.RecordBatch.from_pydict(
        {**decoded, **{k: v for k, v in columns.items() if k != "key"}}
    )


def _taken_apart(batch: Any, layout: KeyLayout) -> tuple[Any, dict[str, Any]]:
    """Return the keys proper, and the columns of what else a key consists of."""
    keys = batch.column("key")
    if layout is KeyLayout.PLAIN:
        return keys, {}
    pa = arrow()
    tail = _WINDOW if layout is KeyLayout.WINDOW else _SESSION
    whole: list[bytes | None] = keys.to_pylist()
    for row, key in enumerate(whole):
        if key is not None and len(key) < tail.size:
            raise _unreadable(batch, row, "key", f"{layout} key of {len(key)} bytes")
    found = [(None, None) if key is None else tail.unpack(key[-tail.size :]) for key in whole]
    first, second = [one for one, _ in found], [other for _, other in found]
    bare = pa.array([None if key is None else key[: -tail.size] for key in whole], pa.binary())
    if layout is KeyLayout.WINDOW:
        sequences = pa.array(second, pa.int32())
        return bare, {"window_start": _times(first), "window_sequence": sequences}
    return bare, {"session_start": _times(second), "session_end": _times(first)}


def _decoded(batch: Any, column: str, data: Any, name: str) -> Any:
    if name in {"string", "json"}:
        return _text(batch, column, data, name)
    layout = _NUMBERS.get(name)
    return data if layout is None else _numbers(batch, column, data, name, layout)


def _text(batch: Any, column: str, data: Any, name: str) -> Any:
    pa = arrow()
    try:
        return data.cast(pa.string())  # which looks whether it is UTF-8
    except pa.ArrowInvalid:
        for row, found in enumerate(data.to_pylist()):
            try:
                (found or b"").decode()
            except UnicodeDecodeError as error:
                raise _unreadable(batch, row, column, f"{name} ({error})") from error
        raise


def _numbers(batch: Any, column: str, data: Any, name: str, layout: str) -> Any:
    """Decode big-endian numbers of one size."""
    pa: Any = arrow()
    np: Any = importlib.import_module("numpy")
    compute: Any = importlib.import_module("pyarrow.compute")
    size = np.dtype(layout).itemsize
    wrong = compute.not_equal(compute.binary_length(data), size)
    row = compute.index(wrong, value=True).as_py()
    if row >= 0:
        raise _unreadable(batch, row, column, f"{name} ({len(data[row].as_py())} bytes)")
    # Without the nulls the values lie one behind the other.
    packed = b"".join(data.drop_null().to_pylist())
    numbers = np.zeros(len(data), dtype=np.dtype(layout).newbyteorder("="))
    is_null = data.is_null().to_numpy(zero_copy_only=False)
    numbers[~is_null] = np.frombuffer(packed, layout)
    return pa.array(numbers, mask=is_null)


def _times(milliseconds: Sequence[int | None]) -> Any:
    pa = arrow()
    return pa.array(milliseconds, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def _unreadable(batch: Any, row: int, column: str, what: str) -> DeserializationError:
    topic, number, offset = (
        batch.column(name)[row].as_py() for name in ("topic", "partition", "offset")
    )
    return DeserializationError(
        f"{TopicPartition(topic, number)} offset {offset}: the {column} is no {what}; give the "
        f"serde it was written with, or {column}=None to see its bytes"
    )
