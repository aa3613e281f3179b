"""Headwater's hot path in C: records between librdkafka and Python without an object for each.

An optional part of Headwater (``headwater[native]``), which looks for it by itself; nothing here is
for anybody else.
"""

from headwater_native._clients import (
    RecordReader,
    RecordRun,
    RecordUpdater,
    RecordWriter,
    expect,
    find,
    plugin_path,
)

INTERFACE = 2
"""What Headwater and this package have agreed on; another number means another Headwater."""

__all__ = [
    "INTERFACE",
    "RecordReader",
    "RecordRun",
    "RecordUpdater",
    "RecordWriter",
    "expect",
    "find",
    "plugin_path",
]
