"""A processor by itself: what it forwards, schedules and asks for is kept to be looked at.

    context = ProcessorTestContext()
    counts = context.add_state_store(Stores.key_value_store_builder(...))
    processor = CountWords()
    processor.init(context)
    processor.process(Record("k", "hello", timestamp=5))
    context.scheduled_punctuators[0].punctuate(1_000)
    assert [it.record.value for it in context.forwarded()] == ["hello: 1"]

As Kafka's ``MockProcessorContext``, with nothing faked but the task around it: stores are those of
``TopologyTestDriver``, in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.config import StreamsConfig
from headwater.errors import TopologyError
from headwater.ids import TaskId
from headwater.measuring.sensors import ThreadSensors
from headwater.measuring.windows import Windows
from headwater.metrics_settings import RecordingLevel
from headwater.model.processor_api import FixedKeyRecord, Record, RecordMetadata
from headwater.model.reporting import changelog_of
from headwater.processor.environment import Current
from headwater.processor.punctuation import check_schedule
from headwater.processor.resolving import serde_of, store_serdes
from headwater.processor.views import view
from headwater.state import memory_backend, open_store
from headwater.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from headwater.model.durations import Duration
    from headwater.model.processor_api import PunctuationType
    from headwater.model.stores import StoreSpec
    from headwater.serde import Serde
    from headwater.state import LayeredStore

KForward = TypeVar("KForward")
VForward = TypeVar("VForward")


@dataclass(frozen=True, slots=True)
class CapturedForward(Generic[KForward, VForward]):
    """What a processor forwarded; ``child`` is ``None`` if to every child."""

    record: Record[KForward, VForward] | FixedKeyRecord[KForward, VForward]
    child: str | None = None


@dataclass(slots=True)
class CapturedPunctuator:
    """What a processor scheduled; ``interval_ms`` and ``start_ms`` are in milliseconds."""

    interval_ms: int
    kind: PunctuationType
    callback: Callable[[int], None]
    start_ms: int | None
    cancelled: bool = False

    def cancel(self) -> None:
        """Note that the processor has cancelled it."""
        self.cancelled = True

    def punctuate(self, timestamp_ms: int) -> None:
        """Call it, as a task does when it is due."""
        self.callback(timestamp_ms)


class ProcessorTestContext(Generic[KForward, VForward]):
    """The context of one processor without a task (Kafka's ``MockProcessorContext``).

    Args:
        config: options as for ``StreamsConfig.parse``; the application id may be left out.
        task_id: the task that the processor is told.
        start_ms: where the wall clock stands, in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: Mapping[str, object] | StreamsConfig | None = None,
        *,
        task_id: TaskId | None = None,
        start_ms: int = 0,
    ) -> None:
        if not isinstance(config, StreamsConfig):
            config = StreamsConfig.parse({"application_id": "test"} | _snake(config or {}))
        self._config = config
        self._task_id = task_id or TaskId(0, 0)
        self._clock = ManualClock(start_ms)
        self._current = Current()
        self._metadata: RecordMetadata | None = None
        self._stream_time_ms = -1
        self._stores: dict[str, tuple[LayeredStore, Any]] = {}
        self._forwarded: list[CapturedForward[KForward, VForward]] = []
        self.scheduled_punctuators: list[CapturedPunctuator] = []
        """What the processor has scheduled so far, in order, cancelled ones among them."""
        self._committed = False
        windows = Windows(samples=2, window_s=30.0)
        self._sensors = ThreadSensors(RecordingLevel.TRACE, windows, samples=2, window_s=30.0)

    # ---- what a processor is given -------------------------------------------------------------

    @property
    def task_id(self) -> TaskId:
        """The task in which the processor runs."""
        return self._task_id

    @property
    def application_id(self) -> str:
        """The application id."""
        return self._config.application_id

    @property
    def metrics(self) -> ThreadSensors:
        """The sensors that the processor adds; all of them record."""
        return self._sensors

    @property
    def state_dir(self) -> str:
        """The configured state directory."""
        return self._config.state_dir

    @property
    def key_serde(self) -> Serde[Any]:
        """The configured default."""
        return serde_of(self._config, "key", None, "the processor")

    @property
    def value_serde(self) -> Serde[Any]:
        """The configured default."""
        return serde_of(self._config, "value", None, "the processor")

    def app_configs(self) -> Mapping[str, object]:
        """Return the configuration as it was given."""
        return self._config.originals

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, object]:
        """Return what was given under names that begin with ``prefix``, which is cut off."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._config.originals.items()
            if name.startswith(prefix)
        }

    def forward(
        self,
        record: Record[KForward, VForward] | FixedKeyRecord[KForward, VForward],
        child: str | None = None,
    ) -> None:
        """Keep ``record``; any name of a child will do.

        Raises:
            ValueError: the timestamp is negative.
        """
        if record.timestamp < 0:
            raise ValueError(f"a record's timestamp cannot be negative: {record.timestamp}")
        self._forwarded.append(CapturedForward(record, child))

    def schedule(
        self,
        interval: Duration,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_ms: datetime | int | None = None,
    ) -> CapturedPunctuator:
        """Keep a punctuation; it fires when the test says so.

        Raises:
            TopologyError: the callback is an async or generator function, ``kind`` is no
                PunctuationType, the interval no duration, or the start no time.
            ValueError: the interval is not positive or the start is negative.
        """
        interval_ms, anchor = check_schedule("schedule()", interval, kind, callback, start_ms)
        captured = CapturedPunctuator(interval_ms, kind, callback, anchor)
        self.scheduled_punctuators.append(captured)
        return captured

    def get_state_store(self, name: str) -> Any:
        """Return the store ``name``, which was added to this context.

        Raises:
            TopologyError: it was not.
        """
        if name not in self._stores:
            there = ", ".join(self._stores) or "none"
            raise TopologyError(
                f"the context has no store {name!r} (there are: {there}): "
                "call add_state_store(...) before init()"
            )
        return self._stores[name][1]

    def commit(self) -> None:
        """Note that a commit was asked for."""
        self._committed = True

    def current_stream_time_ms(self) -> int:
        """Return what the test has set, -1 before."""
        return self._stream_time_ms

    def current_system_time_ms(self) -> int:
        """Return the time of the wall clock, which stands still until the test moves it."""
        return self._clock.now_ms()

    def record_metadata(self) -> RecordMetadata | None:
        """Return what the test has set, ``None`` before."""
        return self._metadata

    # ---- what a test says and sees -------------------------------------------------------------

    def add_state_store(self, spec: StoreSpec) -> Any:
        """Add a store in memory, without a changelog; return it as the processor sees it.

        Raises:
            ConfigError: a serde is missing.
            TopologyError: there is a store of this name.
        """
        if spec.name in self._stores:
            raise TopologyError(f"the context has a store {spec.name!r} already")
        key_serde, value_serde = store_serdes(self._config, spec)
        store = open_store(
            spec,
            task=self._task_id,
            changelog_topic=changelog_of(self.application_id, spec),
            backend=memory_backend(spec),
            cache=None,
            changelog_send=None,
            key_serde=key_serde,
            value_serde=value_serde,
        )
        seen = view(spec.kind, store, self._current)
        self._stores[spec.name] = store, seen
        return seen

    def forwarded(self, child: str | None = None) -> list[CapturedForward[KForward, VForward]]:
        """Return what was forwarded, in order; with ``child`` only what that child got."""
        return [it for it in self._forwarded if child is None or it.child in {None, child}]

    def committed(self) -> bool:
        """Whether the processor has asked for a commit."""
        return self._committed

    def reset_forwards(self) -> None:
        """Forget what was forwarded."""
        self._forwarded.clear()

    def reset_commit(self) -> None:
        """Forget that a commit was asked for."""
        self._committed = False

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Say where the record under way was read."""
        self._metadata = RecordMetadata(topic, partition, offset)

    def set_current_stream_time_ms(self, stream_time_ms: int) -> None:
        """Say how far stream time is, in milliseconds since the epoch."""
        self._stream_time_ms = stream_time_ms

    def set_current_system_time_ms(self, now_ms: int) -> None:
        """Set the wall clock, in milliseconds since the epoch; it may go back."""
        self._clock = ManualClock(now_ms)

    def close(self) -> None:
        """Close the stores."""
        for store, _ in self._stores.values():
            store.close()
        self._stores.clear()


def _snake(config: Mapping[str, object]) -> dict[str, object]:
    """Return options; the application id by the name that this module gives it."""
    return {"application_id" if k == "application.id" else k: v for k, v in config.items()}
