"""Functions that wait: order, time-outs, retries, batches, and what a commit covers."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tasks import TaskRig, raw

from headwater import StreamsBuilder
from headwater.errors import ConfigError, ProcessingError, TopologyError
from headwater.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.ports import RawRecord

IN = TopicPartition("in", 0)
ENDS_S = 20.0


def rig_of(draw: Callable[[Any], Any], **options: object) -> TaskRig:
    """A task that does to the stream of topic ``in`` what ``draw`` draws, and writes to ``out``."""
    return TaskRig(lambda builder: draw(builder.stream("in")).to("out"), **options)


def run(rig: TaskRig, records: Sequence[RawRecord], *, commit: bool = True) -> None:
    """Process all records, and commit unless told otherwise."""
    rig.add("in", *records)
    deadline = time.monotonic() + ENDS_S
    while rig.task.buffered(IN):
        rig.process()
        rig.task.wait_for_call(0.005)
        assert time.monotonic() < deadline
    if commit:
        rig.commit()


def values(rig: TaskRig) -> list[str]:
    """The values that were sent, in order."""
    return [(value or b"").decode() for _, value, _ in rig.sent()]


def pairs(rig: TaskRig) -> list[tuple[str, str]]:
    """Keys and values that were sent, in order."""
    return [((key or b"").decode(), (value or b"").decode()) for key, value, _ in rig.sent()]


def records(count: int, keys: int) -> list[RawRecord]:
    """As many records, whose values are their numbers."""
    return [raw(n, f"k{n % keys}", str(n)) for n in range(count)]


def pause(seconds: float) -> None:
    """Keep the thread."""
    threading.Event().wait(seconds)


async def sleeps(value: str) -> str:
    """Take longer for some values than for others."""
    await asyncio.sleep(int(value) * 7 % 5 / 500)
    return f"{value}!"


def blocks(value: str) -> str:
    """As ``sleeps``, but keeps its thread."""
    pause(int(value) * 7 % 5 / 500)
    return f"{value}!"


BOTH = pytest.mark.parametrize("function", [sleeps, blocks])


# ---- order -----------------------------------------------------------------------------------


@BOTH
def test_results_of_one_key_leave_in_the_order_of_its_records(function: Any) -> None:
    rig = rig_of(lambda stream: stream.map_values_async(function, max_in_flight=20))

    run(rig, records(100, 7))

    assert len(rig.sent()) == 100
    for key in {key for key, _ in pairs(rig)}:
        of_key = [int(value[:-1]) for found, value in pairs(rig) if found == key]
        assert of_key == sorted(of_key)
    assert [int(value[:-1]) for value in values(rig)] != list(range(100)), "nothing overlapped"


@BOTH
def test_results_of_a_partition_leave_in_the_order_of_its_records(function: Any) -> None:
    rig = rig_of(lambda s: s.map_values_async(function, order="partition", max_in_flight=20))

    run(rig, records(60, 60))

    assert [int(value[:-1]) for value in values(rig)] == list(range(60))


@BOTH
def test_without_an_order_the_first_to_end_leaves_first(function: Any) -> None:
    rig = rig_of(lambda s: s.map_values_async(function, order="none", max_in_flight=20))

    run(rig, records(60, 1))

    assert sorted(int(value[:-1]) for value in values(rig)) == list(range(60))
    assert [int(value[:-1]) for value in values(rig)] != list(range(60))


def test_calls_for_one_key_never_overlap() -> None:
    running: set[str] = set()
    overlaps: list[str] = []
    most = 0

    async def call(key: str, value: str) -> str:
        nonlocal most
        if key in running:
            overlaps.append(key)
        running.add(key)
        most = max(most, len(running))
        await asyncio.sleep(0.002)
        running.discard(key)
        return value

    rig = rig_of(lambda s: s.map_values_async(call, with_key=True, max_in_flight=10))

    run(rig, records(80, 5))

    assert overlaps == []
    assert most == 5


def test_no_more_calls_are_in_flight_than_may_be() -> None:
    running = most = 0

    async def call(value: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        return value

    rig = rig_of(lambda s: s.map_values_async(call, max_in_flight=6, order="none"))

    run(rig, records(60, 60))

    assert most == 6


def test_keys_that_are_no_keys_of_a_dict_have_their_order_too() -> None:
    def as_list(key: str, value: str) -> tuple[Any, str]:
        return [{"of": key}], value

    rig = rig_of(
        lambda s: (
            s.map(as_list).map_values_async(sleeps).map(lambda key, value: (key[0]["of"], value))
        )
    )

    run(rig, records(60, 3))

    for key in ("k0", "k1", "k2"):
        of_key = [int(value[:-1]) for found, value in pairs(rig) if found == key]
        assert of_key == sorted(of_key)
        assert len(of_key) == 20


def test_records_without_a_key_have_no_order() -> None:
    rig = rig_of(lambda stream: stream.map_values_async(sleeps, max_in_flight=20))

    run(rig, [raw(n, None, str(n)) for n in range(60)])

    assert [int(value[:-1]) for value in values(rig)] != list(range(60))


# ---- as if it had returned at once -------------------------------------------------------------


def test_what_is_below_sees_the_record_that_the_result_was_made_of() -> None:
    seen: list[tuple[int, int, str]] = []

    def look(record: Any, context: Any) -> Any:
        seen.append((context.record_metadata().offset, record.timestamp, record.value))
        return record

    rig = rig_of(lambda s: s.map_values_async(sleeps, order="none").process_values(look))

    run(rig, [raw(n, f"k{n}", str(n), 1000 + n) for n in range(40)])

    assert sorted(seen) == [(n, 1000 + n, f"{n}!") for n in range(40)]


def test_counts_below_are_those_of_every_record() -> None:
    rig = TaskRig(
        lambda builder: (
            builder.stream("in")
            .map_values_async(sleeps)
            .group_by_key()
            .count()
            .to_stream()
            .for_each(lambda key, value: counted.append((key, value)))
        )
    )
    counted: list[tuple[str, int]] = []

    run(rig, records(90, 3))

    assert [value for key, value in counted if key == "k1"] == list(range(1, 31))


def test_what_record_caches_hold_back_is_waited_for_by_a_commit() -> None:
    sent: list[tuple[str, int]] = []

    async def call(key: str, value: int) -> None:
        await asyncio.sleep(0.002)
        sent.append((key, value))

    rig = TaskRig(
        lambda builder: (
            builder.stream("in").group_by_key().count().to_stream().for_each_async(call)
        ),
        statestore_cache_max_bytes=1_000_000,
    )

    run(rig, records(40, 4))

    assert sorted(sent) == [(f"k{n}", 10) for n in range(4)]


def test_a_commit_covers_what_is_over_and_only_that() -> None:
    may_end = threading.Event()

    def call(value: str) -> str:
        may_end.wait(ENDS_S)
        return value

    rig = rig_of(lambda stream: stream.map_values_async(call, max_in_flight=4))
    rig.add("in", *records(10, 10))
    rig.process()

    assert rig.task.pending == 4
    assert not rig.task.settle()
    with pytest.raises(AssertionError, match="settle it first"):
        rig.task.prepare_commit()
    may_end.set()
    offsets = rig.commit()

    assert offsets == {IN: 4}
    assert len(rig.sent()) == 4
    run(rig, [])
    assert len(rig.sent()) == 10


def test_a_task_that_settles_takes_no_more_records_until_the_commit() -> None:
    rig = rig_of(lambda stream: stream.map_values_async(sleeps, max_in_flight=4))
    rig.add("in", *records(10, 10))
    rig.task.settle()

    assert rig.process() == 0
    rig.task.resume()
    assert rig.process() > 0


def test_an_abort_forgets_calls_in_flight_and_makes_them_again() -> None:
    made: list[str] = []

    async def call(value: str) -> str:
        made.append(value)
        await asyncio.sleep(0.01)
        return value

    rig = rig_of(lambda stream: stream.map_values_async(call))
    rig.task.restore_metadata({IN: (0, None)})
    rig.add("in", *records(5, 5))
    rig.process()
    rig.task.abort()

    assert rig.task.pending == 0
    run(rig, records(5, 5))

    assert sorted(values(rig)) == ["0", "1", "2", "3", "4"]
    assert len(made) >= 5


# ---- errors ------------------------------------------------------------------------------------


def test_an_error_of_a_call_goes_to_the_processing_handler_with_its_record() -> None:
    async def call(value: str) -> str:
        await asyncio.sleep(0.001)
        if value == "3":
            raise ValueError("no such customer")
        return value

    rig = rig_of(
        lambda stream: stream.map_values_async(call, name="ask"),
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(6, 6))

    assert sorted(values(rig)) == ["0", "1", "2", "4", "5"]
    [warning] = rig.warnings
    assert "node ask, topic in, partition 0, offset 3" in warning
    assert "no such customer" in warning


def test_a_handler_that_says_fail_ends_the_task_with_the_place() -> None:
    async def call(value: str) -> str:
        raise ValueError(value)

    rig = rig_of(lambda stream: stream.map_values_async(call, name="ask"))

    with pytest.raises(ProcessingError, match="node ask, topic in, partition 0, offset 0"):
        run(rig, records(1, 1))


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_a_call_that_never_returns_is_given_up(is_stubborn: bool) -> None:
    async def call(value: str) -> str:
        while value == "1":
            try:
                await asyncio.sleep(ENDS_S)
            except asyncio.CancelledError:
                if not is_stubborn:
                    raise
        return value

    rig = rig_of(
        lambda stream: stream.map_values_async(call, timeout=500, name="ask"),
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(4, 4))

    assert sorted(values(rig)) == ["0", "2", "3"]
    assert "has not returned within 0.5 s, its time-out" in rig.warnings[0]


def test_a_plain_function_that_never_returns_is_given_up_and_its_thread_replaced() -> None:
    may_end = threading.Event()

    def call(value: str) -> str:
        if int(value) % 2:
            may_end.wait(ENDS_S)
        return value

    rig = rig_of(
        lambda stream: stream.map_values_async(call, timeout=500, max_in_flight=2),
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(8, 8))
    may_end.set()

    assert sorted(values(rig)) == ["0", "2", "4", "6"]
    assert len(rig.warnings) == 4


def test_what_returns_after_its_time_out_counts_once() -> None:
    attempts: list[int] = []

    def call(value: str) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            pause(0.1)
        return f"{value} by attempt {len(attempts)}"

    rig = rig_of(
        lambda stream: stream.map_values_async(call, timeout=30, retries=1, retry_backoff=0)
    )

    run(rig, records(1, 1))
    pause(0.15)
    run(rig, [])

    assert values(rig) == ["0 by attempt 2"]


def test_a_call_is_made_again_as_often_as_asked_for_in_the_order_of_its_key() -> None:
    attempts: dict[str, int] = {}

    async def call(value: str) -> str:
        attempts[value] = attempts.get(value, 0) + 1
        if int(value) % 3 == 0 and attempts[value] <= 2:
            raise OSError("try again")
        return value

    rig = rig_of(lambda s: s.map_values_async(call, retries=2, retry_backoff=1, max_in_flight=9))

    run(rig, records(30, 2))

    for key in ("k0", "k1"):
        of_key = [int(value) for found, value in pairs(rig) if found == key]
        assert of_key == sorted(of_key)
        assert len(of_key) == 15
    assert attempts["3"] == 3
    assert attempts["4"] == 1


def test_a_call_that_cancels_itself_or_ends_the_program_fails_for_its_record_alone() -> None:
    async def call(value: str) -> str:
        if value == "0":
            raise asyncio.CancelledError
        if value == "1":
            raise SystemExit(3)
        return value

    rig = rig_of(
        lambda stream: stream.map_values_async(call),
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(3, 3))

    assert values(rig) == ["2"]
    assert len(rig.warnings) == 2


def test_a_plain_function_that_returns_an_awaitable_is_told_so() -> None:
    rig = rig_of(
        lambda stream: stream.map_values_async(lambda value: sleeps(value)),  # noqa: PLW0108
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(1, 1))

    assert "write it with async def" in rig.warnings[0]


def test_a_hot_key_does_not_pile_up_more_calls_in_a_row_than_a_commit_can_wait_for() -> None:
    async def call(value: str) -> str:
        await asyncio.sleep(0.001)
        return value

    rig = rig_of(lambda stream: stream.map_values_async(call, max_in_flight=1000))
    rig.add("in", *records(500, 1))
    rig.process()

    assert 0 < rig.task.pending < 1000
    run(rig, [])
    assert [int(value) for value in values(rig)] == list(range(500))


@pytest.mark.parametrize(("timeout", "retries"), [(10_000, 0), (4_000, 2)])
def test_calls_that_may_outlast_a_transaction_are_refused(timeout: int, retries: int) -> None:
    def draw(stream: Any) -> Any:
        return stream.map_values_async(sleeps, timeout=timeout, retries=retries, name="ask")

    with pytest.raises(ConfigError, match=r"node ask: a call may take .* transaction ends after"):
        rig_of(draw, processing_guarantee="exactly_once_v2")
    rig_of(draw)
    rig_of(
        draw,
        processing_guarantee="exactly_once_v2",
        **{"producer.transaction.timeout.ms": 60_000},
    )


# ---- process_values_async ----------------------------------------------------------------------


def test_a_function_of_a_record_may_give_any_number_of_records() -> None:
    async def call(record: Any) -> Any:
        await asyncio.sleep(0.001)
        times = int(record.value)
        return [record.with_value(f"{times}.{n}").with_timestamp(n) for n in range(times)]

    rig = rig_of(lambda stream: stream.process_values_async(call))

    run(rig, [raw(n, "k", str(n)) for n in (0, 1, 2)])

    assert [(value, at) for _, value, at in rig.sent()] == [(b"1.0", 0), (b"2.0", 0), (b"2.1", 1)]


def test_what_is_no_record_is_an_error_of_its_call() -> None:
    rig = rig_of(
        lambda stream: stream.process_values_async(lambda record: record.value),
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(1, 1))

    assert "is no record: return record.with_value(...)" in rig.warnings[0]


# ---- batches -----------------------------------------------------------------------------------


def test_a_batch_has_at_most_so_many_values_and_a_commit_waits_for_none_to_fill() -> None:
    sizes: list[int] = []

    def function(given: list[str]) -> list[str]:
        sizes.append(len(given))
        return [f"{value}!" for value in given]

    rig = rig_of(lambda s: s.map_batch(function, max_size=4, max_wait=1_000_000))
    run(rig, records(10, 3), commit=False)

    assert sizes == [4, 4]
    assert rig.commit() == {IN: 10}
    assert sizes == [4, 4, 2]
    assert values(rig) == [f"{n}!" for n in range(10)]


def test_the_first_of_a_batch_waits_no_longer_than_it_may() -> None:
    rig = rig_of(lambda stream: stream.map_batch(list, max_size=4, max_wait=20))
    run(rig, records(3, 3), commit=False)
    assert values(rig) == []

    pause(0.03)
    rig.process()

    assert values(rig) == ["0", "1", "2"]


def test_a_batch_of_more_records_than_were_taken_at_once_is_cut() -> None:
    sizes: list[int] = []

    def function(given: list[str]) -> list[str]:
        sizes.append(len(given))
        return given

    rig = rig_of(
        lambda s: s.flat_map_values(lambda value: [value] * 5).map_batch(function, max_size=4)
    )

    run(rig, records(4, 4))

    assert max(sizes) == 4
    assert len(rig.sent()) == 20


def test_of_a_batch_that_fails_the_other_records_go_on() -> None:
    def function(given: list[str]) -> list[int]:
        return [100 // int(value) for value in given]

    rig = rig_of(
        lambda s: s.map_batch(function, max_size=5).map_values(str),
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(5, 5))

    assert values(rig) == ["100", "50", "33", "25"]
    assert "offset 0" in rig.warnings[0]
    assert "ZeroDivisionError" in rig.warnings[0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda given: given[1:], "was given 1 values and returned 0"),
        ("".join, "returned a str, not a list"),
        (iter, "not a list of values"),
    ],
)
def test_a_batch_function_that_returns_something_else_is_told_so(function: Any, said: str) -> None:
    rig = rig_of(
        lambda stream: stream.map_batch(function, max_size=2),
        processing_exception_handler="log-and-continue",
    )

    run(rig, records(2, 2))

    assert len(rig.warnings) == 2
    assert all(said in warning for warning in rig.warnings)


# ---- what cannot be drawn ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_in_flight": 0}, "max_in_flight is 0; it must be at least 1"),
        ({"max_in_flight": True}, "max_in_flight is True"),
        ({"retries": -1}, "retries is -1; it must be at least 0"),
        ({"timeout": 0}, "timeout is 0 ms; it must be at least 1 ms"),
        ({"timeout": "soon"}, "timeout is 'soon'"),
        ({"retry_backoff": -1}, "retry_backoff is -1 ms"),
        ({"order": "topic"}, "there is no order 'topic'; use one of 'key', 'partition', 'none'"),
    ],
)
def test_arguments_out_of_their_range_are_refused(options: dict[str, Any], said: str) -> None:
    stream: Any = StreamsBuilder().stream("in")
    for method in (stream.map_values_async, stream.process_values_async, stream.for_each_async):
        with pytest.raises(TopologyError, match=said):
            method(sleeps, **options)


def test_keywords_that_do_not_exist_are_refused() -> None:
    stream: Any = StreamsBuilder().stream("in")

    with pytest.raises(TypeError, match=r"has no keyword max_inflight; it has max_in_flight"):
        stream.map_values_async(sleeps, max_inflight=3)


@pytest.mark.parametrize("options", [{"max_size": 0}, {"max_wait": -1}])
def test_a_batch_out_of_its_range_is_refused(options: dict[str, Any]) -> None:
    stream: Any = StreamsBuilder().stream("in")

    with pytest.raises(TopologyError, match="must be at least"):
        stream.map_batch(list, **options)


def test_functions_that_cannot_be_called_are_refused() -> None:
    stream: Any = StreamsBuilder().stream("in")

    async def batch(given: list[str]) -> list[str]:
        return given

    with pytest.raises(TopologyError, match="is not a function"):
        stream.map_values_async("ask")
    with pytest.raises(TopologyError, match="async function"):
        stream.map_batch(batch)
    with pytest.raises(TopologyError, match="use map_values_async"):
        stream.map_values(sleeps)
    stream.map_values_async(partial(sleeps))


def test_the_error_of_a_call_that_could_not_begin_names_the_blocked_event_loop() -> None:
    freed = threading.Event()

    async def call(value: str) -> str:
        if value == "0":
            freed.wait(ENDS_S)  # where it should await
        return value

    rig = rig_of(
        lambda stream: stream.map_values_async(call, timeout=50),
        processing_exception_handler="log-and-continue",
    )
    try:
        run(rig, [raw(0, "a", "0"), raw(1, "b", "1")])
    finally:
        freed.set()

    first, second = rig.warnings
    assert "has not returned within 0.05 s, its time-out" in first
    assert "offset 1" in second
    assert "another call blocks the event loop" in second


# ---- names -------------------------------------------------------------------------------------

_DESCRIBED = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-MAPVALUES-ASYNC-0000000001
    Processor: KSTREAM-MAPVALUES-ASYNC-0000000001 (stores: [])
      --> KSTREAM-PROCESSVALUES-ASYNC-0000000002, asked
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-PROCESSVALUES-ASYNC-0000000002 (stores: [])
      --> KSTREAM-MAPVALUES-BATCH-0000000003
      <-- KSTREAM-MAPVALUES-ASYNC-0000000001
    Processor: KSTREAM-MAPVALUES-BATCH-0000000003 (stores: [])
      --> KSTREAM-SINK-0000000004
      <-- KSTREAM-PROCESSVALUES-ASYNC-0000000002
    Processor: asked (stores: [])
      --> KSTREAM-FOREACH-ASYNC-0000000006
      <-- KSTREAM-MAPVALUES-ASYNC-0000000001
    Processor: KSTREAM-FOREACH-ASYNC-0000000006 (stores: [])
      --> none
      <-- asked
    Sink: KSTREAM-SINK-0000000004 (topic: out)
      <-- KSTREAM-MAPVALUES-BATCH-0000000003

"""


def test_nodes_that_wait_have_names_of_their_kind() -> None:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in").map_values_async(sleeps)
    stream.process_values_async(sleeps).map_batch(list).to("out")
    stream.map_values_async(sleeps, name="asked").for_each_async(print)

    assert builder.build().describe() == _DESCRIBED
