"""Writes ``serdes.json``, what Java's serdes make of values and bytes.

python -m tests.golden.serdes
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Final

from tests.java.tool import Answering

FILE: Final = Path(__file__).parent / "serdes.json"

_UUID: Final = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
_MINUTE: Final = {"time_windowed": "string", "size": 60_000}
_SESSION: Final = {"session_windowed": "long"}
_VALUES: Final[tuple[tuple[Any, tuple[Any, ...]], ...]] = (
    ("bytes", (None, "", "00ff61")),
    ("wrapped", (None, "00ff61")),
    ("buffer", (None, "00ff61")),
    ("string", (None, "", "a", "ä€😀", "\x00")),
    ({"string": "UTF-16"}, ("", "aä😀")),
    ({"string": "UTF-16LE"}, ("aä😀",)),
    ({"string": "UTF-32"}, ("", "aä😀")),
    ({"string": "ISO-8859-1"}, ("aä",)),
    ("short", (None, 0, -1, 32_767, -32_768)),
    ("integer", (None, 0, -1, 2**31 - 1, -(2**31))),
    ("long", (None, 0, -1, 2**63 - 1, -(2**63))),
    ("float", (None, "0.0", "-0.0", "1.5", "0.1", "Infinity", "-Infinity", "NaN", "1.4E-45")),
    ("double", (None, "0.0", "-0.0", "0.1", "Infinity", "-Infinity", "NaN", "4.9E-324")),
    ("boolean", (None, True, False)),
    ("uuid", (None, _UUID, "00000000-0000-0000-0000-000000000000")),
    ("void", (None,)),
    ({"list": "string"}, (None, [], ["a", None, ""], [None])),
    ({"list": "bytes"}, (["00", None, ""],)),
    ({"list": "boolean"}, ([True, None, False],)),
    ({"list": "short"}, ([1, None, -1],)),
    ({"list": "integer"}, ([], [None], [1, 2, 3])),
    ({"list": "long"}, ([None, 1, None, 2],)),
    ({"list": "float"}, (["1.5", None],)),
    ({"list": "double"}, (["0.1", None],)),
    ({"list": "uuid"}, ([_UUID, None],)),
    ({"list": {"list": "long"}}, ([[1, None], None, []],)),
    (_MINUTE, (None, {"key": "k", "start": 120_000, "end": 180_000})),
    (_MINUTE, ({"key": "", "start": 0, "end": 60_000},)),
    ({"time_windowed": "long", "size": 5}, ({"key": -1, "start": 2**62, "end": 2**62 + 5},)),
    (_SESSION, (None, {"key": 7, "start": 10, "end": 10}, {"key": 7, "start": 10, "end": 25})),
)
_BYTES: Final[tuple[tuple[Any, tuple[str | None, ...]], ...]] = (
    ("short", ("", "00", "000000")),
    ("integer", ("", "000000", "0000000000")),
    ("long", ("", "00000000000000", "000000000000000000")),
    ("float", ("", "000000", "0000000000")),
    ("double", ("", "00000000000000", "000000000000000000")),
    ("boolean", ("", "02", "ff", "0000")),
    ("uuid", tuple(
        text.encode().hex()
        for text in (
            _UUID.upper(), "1-2-3-4-5", "123456789-12345-12345-12345-1234567890abc", "1-2-3-4",
            "1-2-3-4-5-6", "1--3-4-5", "g-2-3-4-5", "", _UUID + "0", f"{{{_UUID}}}",
            _UUID.replace("-", ""), "fffffffff-1-1-1-1",
        )
    )),
    ("void", (None, "", "00")),
    ({"string": "UTF-16"}, ("feff0061", "fffe6100", "0061")),
    ({"string": "UTF-32"}, ("0000feff00000061", "fffe000061000000", "00000061")),
    ({"list": "string"}, ("", "02", "0100000001", "010000000100000001", "01ffffffff")),
    ({"list": "string"}, ("000000000000000001", "010000000100000001610000")),
    ({"list": "long"}, ("0100000002000000080000000000000001ffffffff", "000000000000000001")),
    (_MINUTE, (None, "", "00", (b"k" + struct.pack(">q", -1)).hex())),
    (_MINUTE, ((b"k" + struct.pack(">q", 2**63 - 1)).hex(), struct.pack(">q", 5).hex())),
    ({"time_windowed": "string", "size": 2**62}, ((b"k" + struct.pack(">q", 2**62 + 5)).hex(),)),
    (_SESSION, (None, "", "00", (bytes(8) + struct.pack(">qq", 5, 9)).hex())),
    (_SESSION, ((bytes(8) + struct.pack(">qq", 5, -9)).hex(),)),
)  # fmt: skip


def cases() -> list[dict[str, Any]]:
    """What Java is asked."""
    return [
        *({"serde": name, "value": one} for name, values in _VALUES for one in values),
        *({"serde": name, "bytes": one} for name, values in _BYTES for one in values),
    ]


def main() -> None:
    java = Answering("serdes", "SerdeBytes")
    lines = [json.dumps([case, java.ask(case)], ensure_ascii=True) for case in cases()]
    java.close()
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(FILE)


if __name__ == "__main__":
    main()
