"""What makes a processor for each task: suppliers as they are given, checked, with their stores.

A supplier is a function without arguments, or a class; a function of a record stands for a
processor, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from headwater.errors import TopologyError
from headwater.model.callables import check_function
from headwater.model.processor_api import FixedKeyRecord, Record
from headwater.model.processors import FixedKeyProcessor, Processor
from headwater.model.stores import StoreSpec

Supplier: TypeAlias = Callable[[], Any]
"""Makes a processor; that it does is checked."""
Function: TypeAlias = Callable[..., Any]

_METHODS: Final = ("init", "process", "transform", "close")
_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def supplier_of(node: str, given: Supplier | Function, *, fixed_key: bool = False) -> Supplier:
    """Return what makes the processors of ``node``.

    Args:
        node: whose they are.
        given: a supplier, or a function ``(record)`` or ``(record, context)`` that returns or
            yields records.
        fixed_key: the processor is one that keeps keys.

    Raises:
        TopologyError: it is no function, an async one, takes other arguments, returns one
            instance twice, or what it returns is no processor.
    """
    arguments = _required(given)
    if arguments == 0:
        check_supplier(node, given)
        return given
    check_function(f"The processor of {node!r}", given, several=True)
    if arguments > 2:
        raise TopologyError(
            f"The processor of {node!r} is a function of {arguments} arguments: let it take a "
            "record, or a record and the context"
        )
    kind = FixedKeyFunctionSupplier if fixed_key else FunctionSupplier
    return kind(given, takes_context=arguments == 2)


def check_supplier(node: str, supplier: Supplier, *, does: str = "process") -> None:
    """Refuse a supplier that makes no processor, or one instance twice: each task needs its own.

    Args:
        node: whose processors it makes.
        supplier: what is checked; it is called twice.
        does: the method that a processor of this kind has.

    Raises:
        TopologyError: as said, or a method of the processor is an async or generator function.
    """
    place = f"The processor supplier of {node!r}"
    check_function(place, supplier)
    made = supplier()
    if not callable(getattr(made, does, None)):
        raise TopologyError(
            f"{place} returns {made!r:.100}, which has no method {does}(): return a new processor"
        )
    if made is supplier():
        raise TopologyError(f"{place} returns the same instance twice: return a new one each time")
    for method in _METHODS:
        if (has := getattr(made, method, None)) is not None:
            check_function(f"The processor of {node!r}", has)


def stores_of(node: str, supplier: object) -> tuple[StoreSpec, ...]:
    """Return the stores that a supplier brings along (``ConnectedStoreProvider.stores``, KIP-401).

    Raises:
        TopologyError: it gives something else than stores, or cannot be called without a processor.
    """
    provide = getattr(supplier, "stores", None)
    if provide is None:
        return ()
    place = f"stores() of the processor supplier of {node!r}"
    if inspect.isclass(supplier) and _required(provide):
        raise TopologyError(f"{place} needs an instance: make it a classmethod or staticmethod")
    check_function(place, provide, several=True)
    found = provide()
    stores = tuple(found) if isinstance(found, Iterable) else (found,)
    if found is None:
        return ()
    for store in stores:
        if not isinstance(store, StoreSpec):
            raise TopologyError(
                f"{place} gives {store!r:.100}: return StoreSpecs, such as those of Stores"
            )
    return stores


@dataclass(frozen=True)
class FunctionSupplier:
    """Makes processors of a function of a record, or of a record and the context."""

    function: Function
    takes_context: bool

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """Return a new processor."""
        return _FunctionProcessor(self.function, takes_context=self.takes_context)


@dataclass(frozen=True)
class FixedKeyFunctionSupplier:
    """Makes processors that keep keys of such a function."""

    function: Function
    takes_context: bool

    def __call__(self) -> FixedKeyProcessor[Any, Any, Any]:
        """Return a new processor."""
        return _FixedKeyFunctionProcessor(self.function, takes_context=self.takes_context)


class _FunctionProcessor(Processor[Any, Any, Any, Any]):
    def __init__(self, function: Function, *, takes_context: bool) -> None:
        self._function = function
        self._takes_context = takes_context

    def process(self, record: Record[Any, Any]) -> None:
        context = self.context
        given = self._function(record, context) if self._takes_context else self._function(record)
        _forward(given, Record, context.forward)


class _FixedKeyFunctionProcessor(FixedKeyProcessor[Any, Any, Any]):
    def __init__(self, function: Function, *, takes_context: bool) -> None:
        self._function = function
        self._takes_context = takes_context

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        context = self.context
        given = self._function(record, context) if self._takes_context else self._function(record)
        _forward(given, FixedKeyRecord, context.forward)


def _forward(given: Any, kind: type[Any], forward: Callable[[Any], None]) -> None:
    """Forward a record, or each of several, as soon as a generator yields it."""
    if given is None:
        return
    if isinstance(given, kind):
        forward(given)
        return
    if not isinstance(given, Iterable):
        raise _not_records(given, kind)
    for record in given:
        if not isinstance(record, kind):
            raise _not_records(record, kind)
        forward(record)


def _not_records(given: object, kind: type[Any]) -> TypeError:
    return TypeError(
        f"the function gave {given!r:.100}: return a {kind.__name__}, several of them, or None"
    )


def _required(function: object) -> int:
    """How many arguments a function must be given; a class or what has no signature counts as 0."""
    if inspect.isclass(function) or not callable(function):
        return 0
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    return sum(p.default is p.empty and p.kind in _POSITIONAL for p in parameters)
