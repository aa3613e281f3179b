"""Joins of two streams: each record is kept, and joined with those of the other side in reach.

A record that finds no partner waits in a store, unless its window has passed already. Those whose
window has passed have their result when a record comes that is as late as any before it, at most
once in a second (Kafka's ``KStreamKStreamJoin``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headwater.model.durations import LONG_MAX
from headwater.model.operators.stream_join import JoinWindow, StreamJoinSide, StreamSelfJoin
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ports import Headers, KeyValueStore, TimedStore
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site


@compile_operator.register(JoinWindow)
def compile_join_window(operator: JoinWindow, site: Site) -> Emit:
    """Keep the record, if it has a key and a value; it goes on in any case."""
    store = cast("TimedStore", site.store(operator.store))
    if operator.is_put_last:
        return call(_putting_last(store, site), "keep")

    def emit(code: Code, names: Names) -> Names:
        key, value = names
        append, fail = code.bind(store.append, "append"), code.bind(site.fail, "fail")
        # Java joins first. The join reads the other side's store, so that makes no difference.
        code.line(
            f"if {key} is not None:\n"
            f"    try:\n"
            f"        {append}({key}, timestamp, {value}, timestamp, headers)\n"
            f"    except Exception as error:\n"
            f"        {fail}(error, {key}, {value}, timestamp, headers)"
        )
        return names

    return emit


def _putting_last(store: TimedStore, site: Site) -> Callable[..., None]:
    append, forward, fail = store.append, site.children.forward, site.fail

    def keep(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        forward(key, value, timestamp, headers)
        if key is not None:
            try:
                append(key, timestamp, value, timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)

    return keep


@compile_operator.register(StreamSelfJoin)
def compile_stream_self_join(operator: StreamSelfJoin, site: Site) -> Emit:
    """Join a record with those before it, both ways, and with itself."""
    times = JoinTimes()
    site.keep(times)
    return call(_self_joining(operator, site, times), "join")


@compile_operator.register(StreamJoinSide)
def compile_stream_join_side(operator: StreamJoinSide, site: Site) -> Emit:
    """Join a record with those of the other stream in reach, in the order of their times."""
    unmatched = operator.join.unmatched
    if unmatched is None:
        return call(_joining(operator, site), "join")
    times = site.environment.shared.setdefault(unmatched, JoinTimes())
    site.keep(times)
    return call(_joining_with_unmatched(operator, site, times), "join")


class JoinTimes:
    """What both sides of a left or outer join in one task know of time (``TimeTracker``).

    Attributes:
        stream_time: the largest timestamp of both sides, -1 before the first.
        oldest: no record without a partner is older, as far as is known.
        emit_ms: when to look for windows that have passed again, by the wall clock.
    """

    __slots__ = ("emit_ms", "oldest", "stream_time")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Know nothing, as a new task."""
        self.stream_time = -1
        self.oldest = LONG_MAX
        self.emit_ms = 0

    def init(self) -> None:
        """Nothing is to be opened."""

    def close(self) -> None:
        """Nothing is to be closed."""

    def may_be_past(self, span_ms: int) -> bool:
        """Whether the window of a record without a partner may have passed.

        Nobody knows before the first was looked at: there Java's sum overflows, if it grows at all.
        """
        if self.oldest == LONG_MAX:
            return span_ms > 0
        return self.oldest + span_ms < self.stream_time


def _self_joining(operator: StreamSelfJoin, site: Site, times: JoinTimes) -> Callable[..., None]:
    """Compile a join over one store, in which the record under way is not yet.

    The record meets itself before the first one that is later, unless it has expired.
    """
    join, windows = operator.join, operator.join.windows
    fetch = cast("TimedStore", site.store(join.left)).fetch
    forward, fail, drop = site.children.forward, site.fail, _skipping(site)
    result = _result_of(StreamJoinSide(join=join, of_left=True))
    before_ms, after_ms = windows.before_ms, windows.after_ms
    retention_ms = windows.size_ms + windows.grace_ms

    def pairs(key: Any, value: Any, timestamp: int) -> list[tuple[Any, int]]:
        near = fetch(key, timestamp - before_ms, max(0, timestamp + after_ms))
        found = [(result(key, value, other), at) for at, _, other, _ in near]
        itself = [(result(key, value, value), timestamp)]
        if timestamp <= times.stream_time - retention_ms + 1:
            itself = []
        if before_ms != after_ms:
            near = fetch(key, timestamp - after_ms, max(0, timestamp + before_ms))
        for at, _, other, _ in near:
            if timestamp < at:
                found += itself
                itself = []
            found.append((result(key, other, value), at))
        return found + itself

    def join_with_itself(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            drop()
            return
        times.stream_time = max(times.stream_time, timestamp)
        try:
            found = pairs(key, value, timestamp)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        for joined, at in found:
            forward(key, joined, max(timestamp, at), headers)

    return join_with_itself


def _result_of(operator: StreamJoinSide) -> Callable[[Any, Any, Any], Any]:
    """Return the joiner as a function of key, this side's value and the other's."""
    joiner = operator.join.joiner
    if operator.join.with_key:
        return joiner if operator.of_left else lambda key, value, other: joiner(key, other, value)
    if operator.of_left:
        return lambda _key, value, other: joiner(value, other)
    return lambda _key, value, other: joiner(other, value)


def _skipping(site: Site) -> Callable[[], None]:
    why = "record due to null key or value"
    return site.environment.skipping(f"node {site.node.name}", why)


def _joining(operator: StreamJoinSide, site: Site) -> Callable[..., None]:
    """Compile one side of an inner join."""
    fetch = cast("TimedStore", site.store(operator.other)).fetch
    forward, fail, drop = site.children.forward, site.fail, _skipping(site)
    result, (before_ms, after_ms) = _result_of(operator), operator.span_ms

    def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or value is None:
            drop()
            return
        try:
            found = fetch(key, timestamp - before_ms, max(0, timestamp + after_ms))
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        for at, _, other, _ in found:
            try:
                joined = result(key, value, other)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, max(timestamp, at), headers)

    return join


def _joining_with_unmatched(
    operator: StreamJoinSide, site: Site, times: JoinTimes
) -> Callable[..., None]:
    """Compile one side of a left or outer join."""
    assert operator.join.unmatched is not None
    fetch = cast("TimedStore", site.store(operator.other)).fetch
    waiting = site.store(operator.join.unmatched)
    forward, fail, drop = site.children.forward, site.fail, _skipping(site)
    result, (before_ms, after_ms) = _result_of(operator), operator.span_ms
    of_left, alone = operator.of_left, operator.needs_no_partner
    emit = _emitting(operator, site, times, waiting)
    give_alone, wait = _giving_alone(site, result), _waiting(times, waiting, of_left=of_left)
    get, put = waiting.get, waiting.put

    def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        times.stream_time = max(times.stream_time, timestamp)
        if key is None or value is None:
            if alone and value is not None:
                give_alone(key, value, timestamp, headers)
            else:
                drop()
            return
        if timestamp == times.stream_time and not emit(key, value, timestamp, headers):
            return
        last = max(0, timestamp + after_ms)
        try:
            found = fetch(key, timestamp - before_ms, last)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        for at, _, other, _ in found:
            partner = at, not of_left, key
            if get(partner) is not None:
                put(partner, None, timestamp)
            try:
                joined = result(key, value, other)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, max(timestamp, at), headers)
        if alone and not found:
            if last < times.stream_time:
                give_alone(key, value, timestamp, headers)
            else:
                wait(key, value, timestamp)

    return join


def _giving_alone(site: Site, result: Callable[[Any, Any, Any], Any]) -> Callable[..., None]:
    forward, fail = site.children.forward, site.fail

    def give_alone(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            joined = result(key, value, None)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, joined, timestamp, headers)

    return give_alone


def _waiting(
    times: JoinTimes, waiting: KeyValueStore, *, of_left: bool
) -> Callable[[Any, Any, int], None]:
    get, put = waiting.get, waiting.put

    def wait(key: Any, value: Any, timestamp: int) -> None:
        times.oldest = min(times.oldest, timestamp)
        mine = timestamp, of_left, key
        before = get(mine)
        put(mine, [*(() if before is None else before[0]), (of_left, value)], timestamp)

    return wait


def _emitting(
    operator: StreamJoinSide, site: Site, times: JoinTimes, waiting: KeyValueStore
) -> Callable[..., bool]:
    """Compile what gives records without a partner their results once their window has passed.

    It is called with the record under way, which fails if a joiner does; then it returns ``False``.
    """
    windows = operator.join.windows
    grace_ms = windows.grace_ms
    span_ms = operator.span_ms[1] + grace_ms
    spans = {True: windows.after_ms + grace_ms, False: windows.before_ms + grace_ms}
    joiner, with_key = operator.join.joiner, operator.join.with_key
    forward, fail = site.children.forward, site.fail
    now_ms = site.environment.clock.now_ms
    interval_ms = site.environment.config.joins_emit_interval_ms

    def emit(key: Any, value: Any, timestamp: int, headers: Headers) -> bool:
        if not times.may_be_past(span_ms):
            return True
        now = now_ms()
        if now < times.emit_ms:
            return True
        times.emit_ms = now + interval_ms
        times.oldest = LONG_MAX
        is_open = {True: False, False: False}
        for held, values, _ in waiting.range(None, None):
            at, of_left, waited = held
            times.oldest = at
            if is_open[True] and is_open[False]:
                break
            if at + spans[of_left] >= times.stream_time:
                is_open[of_left] = True
                if len(values) > 1 and all(is_open.values()):
                    break  # Kafka Streams looks at each value, and at the second it ends here
                continue
            for _, one in values:
                pair = (one, None) if of_left else (None, one)
                try:
                    joined = joiner(waited, *pair) if with_key else joiner(*pair)
                except Exception as error:
                    fail(error, key, value, timestamp, headers)
                    return False
                forward(waited, joined, at, headers)
            waiting.put(held, None, timestamp)
        return True

    return emit
