"""Wrapping the processors of a topology, those of the DSL among them (KIP-1112)."""

from __future__ import annotations

import pkgutil
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.config import StreamsConfig
from headwater.errors import ConfigError, TopologyError
from headwater.model.operators.stateless import Peek
from headwater.model.processors import FixedKeyProcessor, Processor
from headwater.model.suppliers import check_supplier, stores_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.operators.base import Operator
    from headwater.model.operators.user import UserFixedKeyProcessor, UserProcessor
    from headwater.model.processor_api import FixedKeyRecord, Headers, Record
    from headwater.model.processors import FixedKeyProcessorSupplier, ProcessorSupplier
    from headwater.model.stores import StoreSpec
    from headwater.model.suppliers import Supplier

_OPTION: Final = "processor.wrapper.class"


class ProcessorWrapper:
    """Wraps each processor of a topology; ``processor.wrapper.class`` names a class of its kind.

    A method that is not overridden wraps nothing. What is returned is a supplier like the one that
    is given: a function that makes a new processor at each call, and within it calls that one.
    ``stores()`` of it, if it has such a method, replaces that of a user's supplier; the stores of
    the DSL's own operators are not seen, and stay as they are. Between the operators of a table a
    record's value is a pair of the new and the old value.
    """

    def configure(self, configs: Mapping[str, object]) -> None:
        """Take the application's configuration, as it was given; called once, before wrapping."""

    def wrap_processor_supplier(
        self, name: str, supplier: ProcessorSupplier[Any, Any, Any, Any]
    ) -> ProcessorSupplier[Any, Any, Any, Any]:
        """Return a supplier in place of ``supplier``, which makes processors of node ``name``."""
        del name
        return supplier

    def wrap_fixed_key_processor_supplier(
        self, name: str, supplier: FixedKeyProcessorSupplier[Any, Any, Any]
    ) -> FixedKeyProcessorSupplier[Any, Any, Any]:
        """Return a supplier in place of ``supplier``, whose processors keep keys."""
        del name
        return supplier


def wrapper_of(config: Mapping[str, object] | StreamsConfig | None) -> ProcessorWrapper | None:
    """Return the wrapper that a configuration names, configured.

    Raises:
        ConfigError: there is no such class, or it is no ``ProcessorWrapper``.
    """
    if config is None:
        return None
    given = config.originals if isinstance(config, StreamsConfig) else config
    reference: Any = given.get(_OPTION, given.get(_OPTION.replace(".", "_")))
    if reference is None:
        return None
    found = reference
    if isinstance(reference, str):
        try:
            found = pkgutil.resolve_name(reference)
        except Exception as error:
            raise ConfigError(f"{_OPTION}: cannot import {reference!r}: {error}") from error
    wrapper = found() if isinstance(found, type) else found
    if not isinstance(wrapper, ProcessorWrapper):
        raise ConfigError(
            f"{_OPTION}: {reference!r} is no ProcessorWrapper; name a subclass, 'module:Class'"
        )
    wrapper.configure(given)
    return wrapper


def wrapped_user(
    wrapper: ProcessorWrapper, node: str, operator: UserProcessor | UserFixedKeyProcessor
) -> UserProcessor | UserFixedKeyProcessor:
    """Return a user's processor with its supplier wrapped.

    Raises:
        TopologyError: what the wrapper gives makes no processor.
    """
    return replace(operator, supplier=_wrapped(wrapper, node, operator, operator.supplier))


def wrapped_operator(wrapper: ProcessorWrapper, node: str, operator: Operator) -> Supplier | None:
    """Return what makes processors around an operator of the DSL, ``None`` if it is left alone.

    Raises:
        TopologyError: what the wrapper gives makes no processor.
    """
    supplier = _FixedKeyOperator if keeps_keys(operator) else _Operator
    wrapped = _wrapped(wrapper, node, operator, supplier)
    return None if wrapped is supplier else wrapped


def brought_stores(node: str, wrapped: Supplier, given: Supplier) -> tuple[StoreSpec, ...]:
    """Return the stores that a wrapped supplier brings; without ``stores()``, those of ``given``.

    Raises:
        TopologyError: it gives something else than stores.
    """
    return stores_of(node, wrapped if hasattr(wrapped, "stores") else given)


def keeps_keys(operator: Operator) -> bool:
    """Whether a wrapper sees a processor that keeps keys, as Kafka Streams has it."""
    return operator.keeps_keys and not (isinstance(operator, Peek) and operator.terminal)


def _wrapped(
    wrapper: ProcessorWrapper, node: str, operator: Operator, supplier: Supplier
) -> Supplier:
    wrap = (
        wrapper.wrap_fixed_key_processor_supplier
        if keeps_keys(operator)
        else wrapper.wrap_processor_supplier
    )
    wrapped: Supplier = wrap(node, supplier)
    if wrapped is not supplier:
        check_supplier(node, wrapped)
    return wrapped


class Body(Protocol):
    """What an operator of the DSL does in one task; results go to ``context.forward``."""

    context: Any

    def run(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Handle one record."""
        ...


making: Final[ContextVar[Body | None]] = ContextVar("making", default=None)
"""Whose processor is made while a task calls a wrapped supplier."""


class _Operator(Processor[Any, Any, Any, Any]):
    """An operator of the DSL as a wrapper sees it."""

    def __init__(self) -> None:
        self._body = making.get()

    def init(self, context: Any) -> None:
        super().init(context)
        _bound(self._body).context = context

    def process(self, record: Record[Any, Any]) -> None:
        _bound(self._body).run(record.key, record.value, record.timestamp, record.headers)


class _FixedKeyOperator(FixedKeyProcessor[Any, Any, Any]):
    """Likewise, of one that keeps keys."""

    def __init__(self) -> None:
        self._body = making.get()

    def init(self, context: Any) -> None:
        super().init(context)
        _bound(self._body).context = context

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        _bound(self._body).run(record.key, record.value, record.timestamp, record.headers)


def _bound(body: Body | None) -> Body:
    if body is None:
        raise TopologyError(
            "a processor that a wrapper was given was made outside of its task: call the supplier "
            "that is wrapped within the supplier that wraps it"
        )
    return body
