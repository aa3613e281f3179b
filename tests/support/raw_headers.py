"""Records whose header names are any bytes, as clients in other languages send them.

The Python client takes texts only, so its C library is called by hand.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_size_t, c_ssize_t, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    RawHeaders = Sequence[tuple[bytes, bytes | None]]

_TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADERS, _END = 1, 3, 4, 5, 7, 10, 0
"""What follows in the arguments of ``rd_kafka_producev``."""
_COPY = 2
_FLUSH_MS = 30_000


def send_with_headers(
    servers: str, topic: str, partition: int, records: Iterable[tuple[bytes, bytes, RawHeaders]]
) -> None:
    """Send records of key, value and headers, and wait until they are stored."""
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    for name in ("conf_new", "new", "headers_new", "producev"):
        getattr(library, f"rd_kafka_{name}").restype = c_void_p
    settings = library.rd_kafka_conf_new()
    said = ctypes.create_string_buffer(512)
    library.rd_kafka_conf_set(
        c_void_p(settings), b"bootstrap.servers", servers.encode(), said, c_size_t(len(said))
    )
    producer = c_void_p(
        library.rd_kafka_new(c_int(0), c_void_p(settings), said, c_size_t(len(said)))
    )
    for key, value, headers in records:
        holder = c_void_p(library.rd_kafka_headers_new(c_size_t(len(headers))))
        for key_bytes, content in headers:
            size = -1 if content is None else len(content)
            library.rd_kafka_header_add(
                holder, key_bytes, c_ssize_t(len(key_bytes)), content, c_ssize_t(size)
            )
        refused = library.rd_kafka_producev(
            producer,
            *(c_int(_TOPIC), c_char_p(topic.encode())),
            *(c_int(_PARTITION), ctypes.c_int32(partition)),
            *(c_int(_VALUE), c_char_p(value), c_size_t(len(value))),
            *(c_int(_KEY), c_char_p(key), c_size_t(len(key))),
            *(c_int(_FLAGS), c_int(_COPY)),
            *(c_int(_HEADERS), holder),
            c_int(_END),
        )
        assert refused is None, "the client does not take the record"
    left = library.rd_kafka_flush(producer, c_int(_FLUSH_MS))
    library.rd_kafka_destroy(producer)
    assert left == 0, "records were not stored in time"
