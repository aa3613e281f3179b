"""Suppression: changes go into a buffer, and come out in the order of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import BufferFullError
from headwater.model.operators.suppress import TableSuppress
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.getters import derived_getter

if TYPE_CHECKING:
    from headwater.model.nodes import ProcessorNode
    from headwater.ports import Forward, Headers, TimeOrderedBuffer
    from headwater.processor.code import Emit
    from headwater.processor.compiling import Site
    from headwater.processor.environment import Current
    from headwater.processor.getters import Getter, Tables


@compile_operator.register(TableSuppress)
def compile_table_suppress(operator: TableSuppress, site: Site) -> Emit:
    """Keep a change back; let go what has waited long enough, or has no room."""
    suppression = _Suppression(operator, site)
    site.keep(suppression)
    return call(suppression.suppress, "suppress")


@derived_getter.register(TableSuppress)
def table_suppress_getter(operator: TableSuppress, tables: Tables, node: ProcessorNode) -> Getter:
    """Find what a key had before its change was kept back, else what the table above holds."""
    buffer = tables.environment.buffer(operator.buffer)
    above = tables.getter(node.parents[0])

    def get(key: Any) -> tuple[Any, int] | None:
        is_buffered, value = buffer.prior(key)
        if not is_buffered:
            return above(key)
        return None if value is None else (value, -1)

    return get


class _Suppression:
    """One suppression in one task."""

    def __init__(self, operator: TableSuppress, site: Site) -> None:
        self._buffer: TimeOrderedBuffer = site.environment.buffer(operator.buffer)
        self._current: Current = site.environment.current
        self._forward: Forward = site.children.forward
        self._fail = site.fail
        self._task, self._node = site.environment.task_id, site.node.name
        self._of_window = operator.of_window
        self._duration_ms = operator.duration_ms
        self._bounds = operator.bounds
        self._stream_time = -1
        self._emitted = site.environment.measures.emissions(site.node.name)

    def init(self) -> None:
        """Find what the buffer held before."""
        self._buffer.load()

    def close(self) -> None:
        """The buffer is closed like any store."""

    def renew(self) -> None:
        """Forget the stream time, as after a restart."""
        self._stream_time = -1

    def suppress(self, key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        """Take in a change, and let others go."""
        buffer, current = self._buffer, self._current
        self._stream_time = max(self._stream_time, timestamp)
        context = timestamp, current.offset, current.source, headers
        try:
            time = key.window.end_ms if self._of_window else timestamp
            buffer.buffer(time, key, change, context)
        except Exception as error:
            self._fail(error, key, change, timestamp, headers)
            return
        expiry = self._stream_time - self._duration_ms
        while buffer.min_time <= expiry:
            self._emit()
        bounds = self._bounds
        if buffer.count <= bounds.records_max and buffer.size_bytes <= bounds.bytes_max:
            return
        if not bounds.emits_early:
            raise self._full()
        while buffer.count and (
            buffer.count > bounds.records_max or buffer.size_bytes > bounds.bytes_max
        ):
            self._emit()

    def _emit(self) -> None:
        """Forward the oldest change as it came, then take it out."""
        key, change, (timestamp, offset, source, headers) = self._buffer.first()
        if change[0] is not None or not self._of_window:
            current = self._current
            before = current.record, current.source
            current.record, current.source = (offset, timestamp, None, None, headers), source
            if self._emitted is not None:
                self._emitted[0] += 1
            try:
                self._forward(key, change, timestamp, headers)
            finally:
                current.record, current.source = before
        self._buffer.remove_first()

    def _full(self) -> BufferFullError:
        bounds, buffer = self._bounds, self._buffer
        return BufferFullError(
            f"task {self._task}, node {self._node}: its buffer is full: {buffer.count} of at most "
            f"{bounds.records_max} records, {buffer.size_bytes} of at most {bounds.bytes_max} "
            "bytes; give it more room, or let it emit_early_when_full()"
        )
