"""Functions that wait in the simulation: a topology that has them, and who makes the calls.

Each call takes its time, raises, or never returns, as the seed says.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import cache
from typing import TYPE_CHECKING, Any

from headwater import Processor, Record, Repartitioned, Serdes, Stores, StreamsBuilder
from headwater.config import StreamsConfig
from headwater.processor.callers import Outcome
from tests.sim.world import GROUP, OUT, ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater import ProcessorContext
    from headwater.model.topology import Topology
    from headwater.processor.callers import Started
    from tests.sim.calling import CallingThread

NEVER_MS = 10**9
FAILURES = 2
"""So often the calls for a record raise or do not return; there are as many retries."""


CONFIG = {
    exactly_once: StreamsConfig.parse(
        {
            "application_id": GROUP,
            "processing_guarantee": "exactly_once_v2" if exactly_once else "at_least_once",
            "default_key_serde": "string",
            "default_value_serde": "string",
            "statestore_cache_max_bytes": 0,
        }
    )
    for exactly_once in (False, True)
}


class Count(Processor[str, str, str, str]):
    """Counts words: what stands above a call must not run ahead of a commit."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.counts = context.get_state_store("counts")

    def process(self, record: Record[str, str]) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(record.with_value(f"{record.value} {count}"))


async def look_up(key: str, value: str) -> str:
    """Stand for a function that waits: ``ModelCalls`` says what it returns."""
    raise AssertionError(f"{key}: {value} is looked up by nobody")


def look_up_in_pool(key: str, value: str) -> str:
    """As ``look_up``, in a pool."""
    raise AssertionError(f"{key}: {value} is looked up by nobody")


@cache
def topology(order: str) -> Topology:
    """The word count of every simulation, with a batch and a call before it, and one behind it."""
    builder = StreamsBuilder()
    options: Any = {
        "with_key": True,
        "max_in_flight": 5,
        "order": order,
        "timeout": 300,
        "retries": FAILURES,
        "retry_backoff": 50,
    }
    counts = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("counts"), Serdes.string, Serdes.long
    )
    builder.add_state_store(counts)
    lines = builder.stream("lines").map_batch(list, max_size=3, max_wait=20)
    words = lines.map_values_async(look_up, **options).repartition(Repartitioned(name="words"))
    words.process(Count, "counts").map_values_async(look_up_in_pool, **options).to(OUT)
    return builder.build()


class ModelCalls:
    """Makes the calls of one function (``Calls``): each ends when and how the seed says."""

    def __init__(self, thread: CallingThread) -> None:
        self._thread = thread
        self._over: deque[Outcome] = deque()
        self._in_flight: dict[int, tuple[int, Outcome]] = {}
        """When each is due, and with what; those that were given up, too."""
        self._wanted: dict[int, str] = {}
        """Keys of the calls that were not given up."""
        self._failures: Counter[str] = Counter()

    @property
    def outcomes(self) -> deque[Outcome]:
        """What is over by now."""
        now_ms = self._thread.world.now_ms
        for number in [n for n, (due_ms, _) in self._in_flight.items() if due_ms <= now_ms]:
            self._over.append(self._in_flight.pop(number)[1])
            self._wanted.pop(number, None)
        return self._over

    def start(self, calls: list[Started]) -> None:
        """Begin these calls.

        Raises:
            ViolationError: one for the same key is in flight.
        """
        world = self._thread.world
        for number, (key, value) in calls:
            if self._thread.order == "key" and key in self._wanted.values():
                raise ViolationError(f"{self._thread.name}: two calls for {key} are in flight")
            takes_ms, error = world.rng.choice((1, 5, 20, 60, 150)), None
            if world.rng.random() < 0.1 and self._failures[value] < FAILURES:
                self._failures[value] += 1
                error = ConnectionError("the service is away")
                takes_ms = world.rng.choice((takes_ms, takes_ms, NEVER_MS))
            self._wanted[number] = key
            self._in_flight[number] = world.now_ms + takes_ms, Outcome(number, value, error)

    def unbegun(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return none: every call begins at once."""
        del numbers
        return frozenset()

    def cancel(self, numbers: Iterable[int]) -> None:
        """Give up calls; half of them end nevertheless."""
        for number in numbers:
            self._wanted.pop(number, None)
            if self._thread.world.rng.random() < 0.5:
                self._in_flight.pop(number, None)

    def close(self) -> None:
        """Give up every call."""
        self._in_flight.clear()
        self._wanted.clear()


class ModelCallers:
    """Runs the functions of one StreamThread's tasks (``Callers``)."""

    def __init__(self, thread: CallingThread) -> None:
        self._thread = thread

    def monotonic(self) -> float:
        """Seconds of the simulation."""
        return self._thread.world.now_ms / 1000

    def wait(self, timeout_s: float) -> None:
        """Return: the StreamThread lets time pass itself."""

    def coroutines(self, function: Callable[..., Any]) -> ModelCalls:
        """Return what calls an async function."""
        del function
        return ModelCalls(self._thread)

    def pool(self, function: Callable[..., Any], threads: int) -> ModelCalls:
        """Return what calls a plain function."""
        del function, threads
        return ModelCalls(self._thread)
