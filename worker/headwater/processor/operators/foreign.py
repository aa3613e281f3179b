"""The join by foreign key: what goes to the right table's task, and what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.model.operators.foreign import (
    ForeignKeyJoin,
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.latest import latest_only
from headwater.processor.operators.table import compile_table_upsert
from headwater.serde.foreign import Instruction, Subscription, SubscriptionResponse
from headwater.wire.foreign import combined_key, key_prefix, murmur3_128

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.ports import Headers
    from headwater.processor.code import Emit
    from headwater.processor.compiling import Site

_FORGET, _FORGET_AND_TELL, _TELL, _TELL_IF_FOUND = (
    Instruction.DELETE_KEY_NO_PROPAGATE.value,
    Instruction.DELETE_KEY_AND_PROPAGATE.value,
    Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE.value,
    Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE.value,
)


@compile_operator.register(SubscriptionSend)
def compile_subscription_send(operator: SubscriptionSend, site: Site) -> Emit:
    """Say where a row's foreign key leads now, and where it led before."""
    join, environment = operator.join, site.environment
    forward, fail, current = site.children.forward, site.fail, environment.current
    instructions = _instructions(join, site)
    hash_of, partition = _hashing(join, site), environment.task_id.partition

    def send(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        new, old = change
        try:
            told = instructions(key, new, old)
            hashed = hash_of(new) if told and new is not None else None
        except Exception as error:
            fail(error, key, change, timestamp, headers)
            return
        read_at = current.source_partition
        at = partition if read_at < 0 else read_at
        for foreign_key, instruction in told:
            forward(foreign_key, Subscription(instruction, hashed, key, at), timestamp, headers)

    return latest_only(site, call(send, "send"))


def _instructions(
    join: ForeignKeyJoin, site: Site
) -> Callable[[Any, Any, Any], tuple[tuple[Any, int], ...]]:
    """Return what decides from a row's new and old value whom to tell what."""
    extractor = join.extractor
    encode = _foreign_key_encoder(join, site)
    skip = site.environment.skipping(f"node {site.node.name}", "record due to null foreign key")

    def moved(was: Any, now: Any) -> bool:
        return encode(was) != (None if now is None else encode(now))

    def of(key: Any, value: Any) -> Any:
        if value is None:
            return None
        return extractor(key, value) if join.with_key else extractor(value)

    def of_left_join(key: Any, new: Any, old: Any) -> tuple[tuple[Any, int], ...]:
        if new is None and old is None:
            return ()
        was, now = of(key, old), of(key, new)
        # A row that is gone asks for nothing, too: its result is deleted by the response.
        if was is not None and moved(was, now):
            return (was, _FORGET), (now, _TELL)
        return ((now, _TELL),)

    def of_inner_join(key: Any, new: Any, old: Any) -> tuple[tuple[Any, int], ...]:
        was, now = of(key, old), of(key, new)
        if now is None:
            if new is not None:
                skip()
            return () if was is None else ((was, _FORGET_AND_TELL),)
        if was is not None and moved(was, now):
            return (was, _FORGET), (now, _TELL)
        return ((now, _TELL_IF_FOUND),)

    return of_left_join if join.left else of_inner_join


@compile_operator.register(SubscriptionReceive)
def compile_subscription_receive(operator: SubscriptionReceive, site: Site) -> Emit:
    """Store a subscription, or take it away; a row without a foreign key is passed on only."""
    join, environment = operator.join, site.environment
    forward, fail = site.children.forward, site.fail
    put = site.store(join.subscriptions).put
    encode = _foreign_key_encoder(join, site)
    topic = environment.topic_name(join.topic)
    primary = environment.serde("key", join.key_serde, site.node.name).serializer(f"{topic}-pk")
    skip = environment.skipping(f"node {site.node.name}", "record due to null foreign key")

    def receive(key: Any, value: Subscription, timestamp: int, headers: Headers) -> None:
        instruction = value.instruction
        if key is not None:
            kept = None if instruction in (_FORGET, _FORGET_AND_TELL) else value
            try:
                combined = combined_key(encode(key), primary(value.primary_key))
                put(combined, kept, timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
        elif instruction != _TELL:
            skip()
            return
        forward(key, value, timestamp, headers)

    return call(receive, "receive")


@compile_operator.register(SubscriptionJoin)
def compile_subscription_join(operator: SubscriptionJoin, site: Site) -> Emit:
    """Answer a subscription with what the right table holds for it."""
    getter = site.tables.getter(operator.join.other)
    forward, fail = site.children.forward, site.fail

    def answer(key: Any, value: Subscription, timestamp: int, headers: Headers) -> None:
        instruction, hashed, primary_key, partition, _ = value
        try:
            found = None if key is None else getter(key)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        if instruction == _FORGET or (instruction == _TELL_IF_FOUND and found is None):
            return
        other = None
        if found is not None:
            other, later = found
            timestamp = max(timestamp, later)
        if instruction == _FORGET_AND_TELL:
            other = None
        response = SubscriptionResponse(hashed, other, partition)
        forward(primary_key, response, timestamp, headers)

    return call(answer, "answer")


@compile_operator.register(ForeignTableJoin)
def compile_foreign_table_join(operator: ForeignTableJoin, site: Site) -> Emit:
    """Tell a change to all who have subscribed to its key, in the order of their keys' bytes."""
    join, fail, forward = operator.join, site.fail, site.children.forward
    scan = site.store(join.subscriptions).prefix_scan
    encode = _foreign_key_encoder(join, site)

    def prefix(key: Any) -> bytes:
        return key_prefix(encode(key))

    def tell(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        value = change[0]
        try:
            found = list(scan(key, prefix))
        except Exception as error:
            fail(error, key, change, timestamp, headers)
            return
        for _, subscription, _ in found:
            response = SubscriptionResponse(subscription.hash, value, subscription.partition)
            forward(subscription.primary_key, response, timestamp, headers)

    return latest_only(site, call(tell, "tell"))


@compile_operator.register(ResponseJoin)
def compile_response_join(operator: ResponseJoin, site: Site) -> Emit:
    """Join a response with the row it answers to; one to a former value is dropped and counted."""
    join = operator.join
    getter, hash_of, joiner = site.tables.getter(join.table), _hashing(join, site), join.joiner
    drop, fail, forward = site.environment.dropping(), site.fail, site.children.forward

    def resolve(key: Any, value: SubscriptionResponse, timestamp: int, headers: Headers) -> None:
        try:
            found = getter(key)
            row = None if found is None else found[0]
            if value.hash != (None if row is None else hash_of(row)):
                drop()
                return
            other = value.value
            missing = other is None and (row is None or not join.left)
            joined = None if missing else joiner(row, other)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, joined, timestamp, headers)

    return call(resolve, "resolve")


@compile_operator.register(ForeignKeyJoin)
def compile_foreign_key_join(operator: ForeignKeyJoin, site: Site) -> Emit:
    """Keep the last result of each row, if there is a store (``KTableSource``)."""
    return compile_table_upsert(operator, site)


def _foreign_key_encoder(join: ForeignKeyJoin, site: Site) -> Callable[[Any], bytes]:
    topic = site.environment.topic_name(join.topic)
    serde = site.environment.serde("key", join.other_key_serde, site.node.name)
    return serde.serializer(f"{topic}-fk")


def _hashing(join: ForeignKeyJoin, site: Site) -> Callable[[Any], bytes]:
    """Return what hashes a row's value."""
    topic = site.environment.topic_name(join.topic)
    serde = site.environment.serde("value", join.value_serde, site.node.name)
    encode = serde.serializer(f"{topic}-vh")

    return lambda value: murmur3_128(encode(value))
