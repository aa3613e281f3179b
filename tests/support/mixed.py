"""A topology of two sub-topologies: one of two topics, one of a processor with punctuation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater import Processor, PunctuationType, Record, Serdes, StoreSpec
from headwater import functions as f

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater import ProcessorContext, StreamsBuilder

INPUTS: Final = ("left", "right", "ticks")
STORES: Final = ("both", "sums")
ALARM_MS: Final = 50
_LONGS: Final[dict[str, Any]] = {"key_serde": Serdes.string, "value_serde": Serdes.long}


class Alarm(Processor[Any, Any, str, int]):
    """Sums values up and sends each sum on; rings every so often, by stream time.

    How often it rings depends on how many records are processed between two looks at the time, as
    in Kafka Streams. For when it has rung last, that makes no difference.
    """

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self._sums = context.get_state_store("sums")
        context.schedule(ALARM_MS, PunctuationType.STREAM_TIME, self._ring)

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is None or record.value is None:
            return
        before, _ = self._sums.get(record.key) or (0, 0)
        self._sums.put(record.key, before + record.value, record.timestamp)
        self.context.forward(record.with_value(before + record.value))

    def _ring(self, now_ms: int) -> None:
        rings = now_ms // ALARM_MS
        self._sums.put("last ring", rings, rings * ALARM_MS)


def mixed(inputs: str, output: str) -> Callable[[StreamsBuilder], None]:
    """Return what draws it on topics that begin so, to the topic ``output``."""
    return partial(_draw, inputs, output)


def _draw(inputs: str, output: str, builder: StreamsBuilder) -> None:
    left = builder.stream(f"{inputs}-left", **_LONGS)
    right = builder.stream(f"{inputs}-right", **_LONGS)
    left.merge(right).group_by_key(**_LONGS).reduce(f.add, store="both", **_LONGS)
    ticks = builder.stream(f"{inputs}-ticks", **_LONGS)
    ticks.process(Alarm, StoreSpec(name="sums", **_LONGS)).to(output, **_LONGS)
