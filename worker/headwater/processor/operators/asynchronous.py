"""Functions that wait, as nodes: each is a stage of its task, where records wait for results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from headwater.attribution import TASK
from headwater.errors import ConfigError
from headwater.model.callables import is_async
from headwater.model.given_headers import check_headers
from headwater.model.operators.asynchronous import (
    ForEachAsync,
    MapBatch,
    MapValuesAsync,
    ProcessValuesAsync,
)
from headwater.model.processor_api import FixedKeyRecord
from headwater.processor.batchstage import BatchStage
from headwater.processor.callstage import CallStage, refuse_awaitable
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.config import StreamsConfig
    from headwater.ids import TaskId
    from headwater.model.operators.asynchronous import CallPolicy
    from headwater.processor.callstage import Waiting
    from headwater.processor.code import Emit
    from headwater.processor.compiling import Site

_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"


@compile_operator.register(MapValuesAsync)
def compile_map_values_async(operator: MapValuesAsync, site: Site) -> Emit:
    """Replace the value by what the call returns."""
    forward = site.children.forward

    def deliver(waiting: Waiting, value: Any) -> None:
        forward(waiting.key, value, waiting.timestamp, waiting.headers)

    arguments = _key_and_value if operator.with_key else _value
    return _compile(operator.mapper, operator.calls, site, arguments, deliver)


@compile_operator.register(ProcessValuesAsync)
def compile_process_values_async(operator: ProcessValuesAsync, site: Site) -> Emit:
    """Forward the records that the call returns, under the key of the one it was given."""
    forward = site.children.forward

    def deliver(waiting: Waiting, given: Any) -> None:
        for record in _records(given):
            forward(waiting.key, record.value, record.timestamp, record.headers)

    def arguments(waiting: Waiting) -> tuple[Any, ...]:
        key, value = waiting.key, waiting.value
        return (FixedKeyRecord(key, value, waiting.timestamp, waiting.headers),)

    # What is no record is an error of the call, so it is found where the call's errors are.
    return _compile(operator.function, operator.calls, site, arguments, deliver, check=_records)


@compile_operator.register(ForEachAsync)
def compile_for_each_async(operator: ForEachAsync, site: Site) -> Emit:
    """Wait for the call; nothing is below."""

    def deliver(waiting: Waiting, value: Any) -> None:
        """Nobody wants what an action returns."""

    return _compile(operator.action, operator.calls, site, _key_and_value, deliver)


@compile_operator.register(MapBatch)
def compile_map_batch(operator: MapBatch, site: Site) -> Emit:
    """Replace values, many by one call."""
    current = site.environment.current
    forward = site.children.forward
    stage = BatchStage(
        operator,
        forward=forward,
        fail=site.fail,
        current=current,
        monotonic=site.environment.stages.callers_for(site.node.name).monotonic,
    )
    site.environment.stages.add(site.keep_resident(stage))
    return call(stage.submit, "submit")


def _compile(
    function: Callable[..., Any],
    policy: CallPolicy,
    site: Site,
    arguments: Callable[[Waiting], tuple[Any, ...]],
    deliver: Callable[[Waiting, Any], None],
    *,
    check: Callable[[Any], Any] | None = None,
) -> Emit:
    config = site.environment.config
    if config.exactly_once:
        check_transaction(policy, site.node.name, config)
    callers, task = site.environment.stages.callers_for(site.node.name), site.environment.task_id
    if is_async(function):
        calls = callers.coroutines(_coroutine_of(task, function, check))
    else:
        calls = callers.pool(_function_of(task, function, check), policy.max_in_flight)
    stage = CallStage(
        calls=calls,
        arguments=arguments,
        policy=policy,
        forward=deliver,
        fail=site.fail,
        current=site.environment.current,
        monotonic=callers.monotonic,
    )
    site.environment.stages.add(site.keep_resident(stage))
    return call(stage.submit, "submit")


def check_transaction(policy: CallPolicy, node: str, config: StreamsConfig) -> None:
    """Refuse calls that may take longer than a transaction: the broker would abort each of them.

    Args:
        policy: how the calls are made.
        node: which makes them.
        config: says when the broker aborts a transaction.

    Raises:
        ConfigError: they may.
    """
    timeout_ms = config.transaction_timeout_ms
    if policy.longest_ms >= timeout_ms:
        raise ConfigError(
            f"node {node}: a call may take {policy.longest_ms} ms with its retries, and "
            f"a transaction ends after {timeout_ms} ms. Set a shorter timeout or fewer retries, or "
            f"a longer producer.{_TRANSACTION_TIMEOUT}"
        )


def _coroutine_of(
    task: TaskId, function: Callable[..., Any], check: Callable[[Any], Any] | None
) -> Callable[..., Any]:
    """Return the function; what it logs names the task, and its result is checked."""

    async def checked(*arguments: Any) -> Any:
        TASK.set(task)
        result = await function(*arguments)
        return result if check is None else check(result)

    return checked


def _function_of(
    task: TaskId, function: Callable[..., Any], check: Callable[[Any], Any] | None
) -> Callable[..., Any]:
    """As ``_coroutine_of``, of a plain function."""

    def checked(*arguments: Any) -> Any:
        TASK.set(task)
        result = refuse_awaitable(function(*arguments))
        return result if check is None else check(result)

    return checked


def _value(waiting: Waiting) -> tuple[Any, ...]:
    return (waiting.value,)


def _key_and_value(waiting: Waiting) -> tuple[Any, ...]:
    return (waiting.key, waiting.value)


def _records(given: Any) -> list[FixedKeyRecord[Any, Any]]:
    """Return what a function gave as a list of records.

    Raises:
        TypeError: it holds something else.
        SerializationError: a record's headers are no pairs of name and bytes.
    """
    if given is None:
        return []
    if isinstance(given, FixedKeyRecord):
        given = [given]
    is_several = isinstance(given, Iterable) and not isinstance(given, str | bytes)
    records = list(given) if is_several else [given]
    for record in records:
        if not isinstance(record, FixedKeyRecord):
            raise TypeError(
                f"a {type(record).__name__}, {record!r:.100}, is no record: return "
                "record.with_value(...), several of them, or None"
            )
        check_headers("a record that was returned", record.headers)
    return records
