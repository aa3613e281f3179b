"""The Processor API at run time: what a user's processor is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import TopologyError
from headwater.model.given_headers import check_headers
from headwater.model.processor_api import (
    Cancellable,
    FixedKeyRecord,
    PunctuationType,
    Record,
    RecordMetadata,
)
from headwater.processor.punctuation import check_schedule
from headwater.processor.views import ReadOnlyStore, view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from headwater.ids import TaskId
    from headwater.model.durations import Duration
    from headwater.model.nodes import ProcessorNode
    from headwater.model.sensors import StreamsMetrics
    from headwater.ports import Forward, Headers
    from headwater.processor.environment import Environment
    from headwater.processor.routing import Children
    from headwater.serde import Serde


class TaskContext:
    """The context of one processor in one task, of either kind."""

    __slots__ = ("_children", "_environment", "_node", "_stores")

    def __init__(
        self,
        node: str,
        stores: tuple[str, ...],
        children: Children,
        environment: Environment,
    ) -> None:
        self._node = node
        self._children = children
        self._environment = environment
        self._stores: dict[str, Any] = {
            name: view(environment.kinds[name], environment.store(name), environment.current)
            for name in stores
        }

    @property
    def task_id(self) -> TaskId:
        """The task in which the processor runs."""
        return self._environment.task_id

    @property
    def application_id(self) -> str:
        """The application id."""
        return self._environment.config.application_id

    @property
    def metrics(self) -> StreamsMetrics:
        """The sensors of the StreamThread, to which a processor may add its own."""
        return self._environment.measures.users

    @property
    def state_dir(self) -> str:
        """The configured state directory."""
        return self._environment.config.state_dir

    def app_configs(self) -> Mapping[str, object]:
        """Return the configuration as it was given."""
        return self._environment.config.originals

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, object]:
        """Return what was given under names that begin with ``prefix``, which is cut off."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._environment.config.originals.items()
            if name.startswith(prefix)
        }

    @property
    def key_serde(self) -> Serde[Any]:
        """The configured default."""
        return self._environment.serde("key", None, self._node)

    @property
    def value_serde(self) -> Serde[Any]:
        """The configured default."""
        return self._environment.serde("value", None, self._node)

    def forward(
        self, record: Record[Any, Any] | FixedKeyRecord[Any, Any], child: str | None = None
    ) -> None:
        """Hand ``record`` to every child, or only to the child node of that name.

        Raises:
            ValueError: there is no child of that name, or the timestamp is negative.
            SerializationError: the record has headers that are no pairs of name and bytes.
        """
        if record.timestamp < 0:
            raise ValueError(f"a record's timestamp cannot be negative: {record.timestamp}")
        to = self._children.forward if child is None else self._children.named(child)
        current, headers = self._environment.current, record.headers
        if headers and headers is not current.record[4]:
            check_headers(f"node {self._node}", headers)
        before = current.timestamp
        to(record.key, record.value, record.timestamp, headers)
        current.timestamp = before

    def schedule(
        self,
        interval: Duration,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_ms: datetime | int | None = None,
    ) -> Cancellable:
        """Call ``callback(timestamp_ms)`` every ``interval``; ``start_ms`` anchors the first.

        Raises:
            TopologyError: the callback is an async or generator function, ``kind`` is no
                PunctuationType, the interval no duration, or the start no time.
            ValueError: the interval is not positive or the start is negative.
        """
        place = f"schedule() in {self._node}"
        interval_ms, anchor = check_schedule(place, interval, kind, callback, start_ms)
        environment = self._environment
        return environment.punctuations.schedule(
            self._node,
            interval_ms,
            kind,
            callback,
            now_ms=environment.clock.now_ms(),
            start_ms=anchor,
        )

    def get_state_store(self, name: str) -> Any:
        """Return the store ``name``, which must be connected to this processor, or be global.

        A global store can only be read.

        Raises:
            TopologyError: the store is not connected to this processor.
        """
        if name not in self._stores and name in self._environment.global_stores:
            store, kind = self._environment.global_stores[name]
            seen = view(kind, store, self._environment.current)
            self._stores[name] = ReadOnlyStore(seen)
        if name not in self._stores:
            there = ", ".join(self._stores) or "none"
            raise TopologyError(
                f"processor {self._node} is not connected to store {name!r} (connected: {there}); "
                "name it with add_state_store or in process(..., stores)"
            )
        return self._stores[name]

    def commit(self) -> None:
        """Ask for a commit as soon as possible."""
        self._environment.request_commit()

    def current_stream_time_ms(self) -> int:
        """Return the highest timestamp this task has seen, -1 before the first record."""
        return self._environment.stream_time()

    def current_system_time_ms(self) -> int:
        """Return the wall-clock time, in milliseconds since the epoch."""
        return self._environment.clock.now_ms()

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the record under way was read; inside a punctuation topic "" and -1.

        ``None`` before the first of either, as in ``init``.
        """
        current = self._environment.current
        if current.offset >= 0:
            return RecordMetadata(*current.source, current.offset)
        return None if current.timestamp < 0 else RecordMetadata("", -1, -1)


def noting_headers(process: Forward, node: ProcessorNode, environment: Environment) -> Forward:
    """Return ``process`` of a node; if a store keeps headers, a deletion there has the record's."""
    if not any(environment.kinds[name].keeps_headers for name in node.stores):
        return process
    current = environment.current

    def process_with_headers(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        before, current.headers = current.headers, headers
        try:
            process(key, value, timestamp, headers)
        finally:
            current.headers = before

    return process_with_headers
