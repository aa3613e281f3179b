"""What a type checker makes of stores with headers; ``tests/unit/test_typing.py`` checks it."""

from collections.abc import Iterator
from typing import Any, assert_type

from headwater import (
    AggregationWithHeaders,
    KeyValueBytesStoreSupplier,
    Processor,
    ProcessorContext,
    Record,
    Serdes,
    SessionBytesStoreSupplier,
    SessionStoreWithHeaders,
    Stores,
    StoreSpec,
    StreamsBuilder,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedWindowStoreWithHeaders,
    ValueTimestampHeaders,
    WindowBytesStoreSupplier,
    Windowed,
)
from headwater.model.processor_api import Headers

values = Stores.persistent_timestamped_key_value_store_with_headers("values")
windows = Stores.persistent_timestamped_window_store_with_headers("windows", 9_000, 1_000)
sessions = Stores.persistent_session_store_with_headers("sessions", 9_000)
assert_type(values, KeyValueBytesStoreSupplier)
assert_type(windows, WindowBytesStoreSupplier)
assert_type(sessions, SessionBytesStoreSupplier)

text, number = Serdes.string, Serdes.long
values_spec = Stores.timestamped_key_value_store_with_headers_builder(values, text, number)
windows_spec = Stores.timestamped_window_store_with_headers_builder(windows, text, number)
sessions_spec = Stores.session_store_with_headers_builder(sessions, text, number)
assert_type(values_spec, StoreSpec)
assert_type(windows_spec, StoreSpec)
assert_type(sessions_spec, StoreSpec)
Stores.session_store_with_headers_builder(values)  # type: ignore[arg-type]

held = ValueTimestampHeaders("x", 5, [("h", b"1")])
assert_type(held, ValueTimestampHeaders[str])
assert_type(held.value, str)
assert_type(held.timestamp, int)
assert_type(held.headers, Headers)
aggregated = AggregationWithHeaders(7)
assert_type(aggregated, AggregationWithHeaders[int])
assert_type(aggregated.aggregation, int)
assert_type(aggregated.headers, Headers)
ValueTimestampHeaders("x", 5, [("h", "text")])  # type: ignore[list-item]


class Keeping(Processor[str, int, str, int]):
    """Keeps what comes, with its headers."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        """Find the stores."""
        super().init(context)
        self.values: TimestampedKeyValueStoreWithHeaders = context.get_state_store("values")
        self.windows: TimestampedWindowStoreWithHeaders = context.get_state_store("windows")
        self.sessions: SessionStoreWithHeaders = context.get_state_store("sessions")

    def process(self, record: Record[str, int]) -> None:
        """Keep one record in each store."""
        key, value, at, headers = record.key, record.value, record.timestamp, record.headers
        assert_type(self.values.get(key), ValueTimestampHeaders[Any] | None)
        assert_type(self.values.put_if_absent(key, value, at), ValueTimestampHeaders[Any] | None)
        assert_type(self.values.delete(key), ValueTimestampHeaders[Any] | None)
        assert_type(self.values.all(), Iterator[tuple[Any, ValueTimestampHeaders[Any]]])
        self.values.put(key, value, at, headers)
        self.windows.put(key, value, at, at, headers)
        assert_type(self.windows.all(), Iterator[tuple[Windowed[Any], Any]])
        for session, _ in self.sessions.fetch(key):
            assert_type(session, Windowed[Any])
            self.sessions.put(session, value, headers)
            self.sessions.remove(session)
        self.values.put(key, value, at, headers="text")  # type: ignore[arg-type]


builder = StreamsBuilder()
stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.long)
stream.process(Keeping, values_spec, windows_spec, sessions_spec)
